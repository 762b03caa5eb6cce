package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// MinAge is the minimum age of records for [Log.Forget]. Younger records may still be in
// flight, because an inventory is written before its record.
const MinAge = time.Hour

// Forget removes the records of a name with IDs from before that time, their inventories, and
// inventories that failed writes left without a record. It returns the number of removed
// records.
//
// The record of a Drop by force ([Forcing]) is the only list of the objects that it left.
// Forget keeps it at any age, with its [Forced] and last [Swept], as long as a sweep may need
// it:
//
//	Drop                                            its record
//	not finished                                    kept; call Drop again to finish it
//	finished, objects remain after the last sweep   kept
//	finished, a source did not answer               kept for good: no sweep can find its objects
//	finished with an empty inventory, or swept      removed, once all records that follow it are old enough
//	refused, or resumed by another Forcing          removed likewise
//
// Any process may repeat Forget after a failure. A time younger than [MinAge] is
// [namespace.ErrInvalid].
func (l *Log) Forget(ctx context.Context, name string, before time.Time) (int, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	if time.Since(before) < MinAge {
		return 0, invalid(name, "only records older than %v can be forgotten: younger ones may still be in flight", MinAge)
	}
	list, err := l.List(ctx, name)
	if err != nil {
		return 0, err
	}
	keep := needed(list, before)
	records, err := l.forget(ctx, name, l.keys.records(name), chunk, before, keep)
	if err != nil {
		return records, err
	}
	_, err = l.forget(ctx, name, l.keys.inventories(name), chunkPages, before, keep) // the next call finds pages that a crash leaves here
	return records, err
}

// forget removes the entries below root whose IDs are from before that time, except those in
// keep.
func (l *Log) forget(ctx context.Context, name, root string, limit int, before time.Time, keep map[string]bool) (gone int, err error) {
	done := errors.New("the other records are younger")
	err = l.each(ctx, root, limit, func(e store.Entry) error {
		id, _, _ := strings.Cut(strings.TrimPrefix(e.Key, root), "/")
		at, ok := timeOf(id)
		switch {
		case !ok:
			return nil // not the key of a record
		case !at.Before(before):
			return done
		case keep[id]:
			return nil
		}
		if err := l.commit(ctx, store.Txn{Do: []store.Operation{store.Delete(e.Key)}}); err != nil {
			return failed(name, "forget a record", err)
		}
		gone++
		return nil
	})
	if errors.Is(err, done) {
		err = nil
	}
	return gone, err
}

// needed returns the IDs of the records to keep: those of Drops that are unfinished, left
// objects, or are followed by a record that is not older than before.
func needed(records []Record, before time.Time) map[string]bool {
	keep := map[string]bool{}
	for _, r := range records {
		if at, _ := timeOf(r.ID); !at.Before(before) {
			keep[r.Follows] = true
		}
	}
	for _, d := range Drops(records) {
		objects, unanswered := d.Left()
		if d.Forcing == nil || d.Forced != nil && objects+unanswered == 0 && !keep[d.Forcing.ID] {
			continue
		}
		for _, r := range []*Record{d.Forcing, d.Forced, d.Swept} {
			if r != nil {
				keep[r.ID] = true
			}
		}
	}
	return keep
}

// The bounds of the [Declared] records of one name. Any client that may update a namespace
// adds such records, so new ones replace the oldest.
const (
	// MaxDeclared bounds their number.
	MaxDeclared = 200
	// MaxDeclaredBytes bounds their total size. It may be exceeded temporarily after large
	// records have replaced many small ones.
	MaxDeclaredBytes = 256 << 10

	maxSurplus = 32 // removals in one commit, if the store allows them
)

// Surplus returns operations that remove the oldest [Declared] records of a name, so that
// a new record fits within [MaxDeclared] and [MaxDeclaredBytes]. The caller adds them to the
// commit that writes the new record. Records of other actions stay until [Log.Forget].
func (l *Log) Surplus(ctx context.Context, name string) ([]store.Operation, error) {
	type kept struct {
		key  string
		size int
		at   store.Revision
	}
	var records []kept
	total := 0
	root := l.keys.records(name)
	err := l.each(ctx, root, chunk, func(e store.Entry) error {
		var r struct{ Action Action }
		if _, ok := timeOf(strings.TrimPrefix(e.Key, root)); !ok || json.Unmarshal(e.Value, &r) != nil || r.Action != Declared {
			return nil
		}
		size := len(e.Key) + len(e.Value)
		records = append(records, kept{e.Key, size, e.Revision})
		total += size
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b kept) int { return cmp.Compare(a.at, b.at) })
	most := maxSurplus
	if limit := store.LimitsOf(l.store).Operations; limit > 0 {
		most = min(most, max(limit/4, 1)) // the commit needs the rest for its own operations
	}
	var gone []store.Operation
	for i, r := range records {
		if len(records)-i < MaxDeclared && total <= MaxDeclaredBytes-MaxChanges || len(gone) == most {
			break
		}
		gone = append(gone, store.Delete(r.key))
		total -= r.size
	}
	return gone, nil
}
