package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// The numbers of records, and of inventory pages, in one read.
const (
	chunk      = 100
	chunkPages = 8
)

// List returns the records of all incarnations of a name (see Record.UID) in the order of
// their commits, which clocks do not affect, without inventories. Of [Declared] records it
// returns the last [MaxDeclared]. A damaged record is listed as [Unreadable]. With an error
// the list has the records read before it.
func (l *Log) List(ctx context.Context, name string) ([]Record, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var found []committed
	declared := 0
	root := l.keys.records(name)
	err := l.each(ctx, root, chunk, func(e store.Entry) error {
		id := strings.TrimPrefix(e.Key, root)
		at, ok := timeOf(id)
		if !ok {
			return nil // not the key of a record
		}
		one, err := decode(name, id, e)
		if err != nil {
			one.Record = Record{ID: id, Time: at, Action: Unreadable, Namespace: name, Detail: err.Error()}
		}
		found = append(found, committed{one.Record, e.Revision})
		if one.Action == Declared {
			declared++
		}
		if declared >= 2*MaxDeclared {
			found, declared = latest(found), MaxDeclared
		}
		return nil
	})
	found = latest(found)
	records := make([]Record, len(found))
	for i, one := range found {
		records[i] = one.Record
	}
	return records, err
}

// Names yields each name that has records, in order: existing and removed namespaces, and
// [Types].
func (l *Log) Names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		root := l.keys.root + ".audit/"
		for q := (store.Query{Prefix: root, Limit: 1}); ; {
			page, err := l.store.List(ctx, q)
			if err != nil {
				yield("", failed("", "read "+root, err))
				return
			}
			if len(page.Entries) == 0 {
				return
			}
			q.After = page.Entries[0].Key
			name, _, ok := strings.Cut(strings.TrimPrefix(q.After, root), "/")
			if !ok {
				continue
			}
			if checkName(name) == nil && !yield(name, nil) {
				return
			}
			q.After = root + name + string('/'+1) // after all keys of the name
		}
	}
}

// committed is a record with the revision of its commit.
type committed struct {
	Record
	at store.Revision
}

// latest sorts records by their commits and drops declarations before the last MaxDeclared.
func latest(records []committed) []committed {
	slices.SortStableFunc(records, func(a, b committed) int { return cmp.Compare(b.at, a.at) })
	declared := 0
	records = slices.DeleteFunc(records, func(r committed) bool {
		if r.Action == Declared {
			declared++
		}
		return r.Action == Declared && declared > MaxDeclared
	})
	slices.Reverse(records)
	return records
}

// Get returns one record with its inventory, or [namespace.ErrNotFound].
func (l *Log) Get(ctx context.Context, name, id string) (Record, error) {
	if err := checkName(name); err != nil {
		return Record{}, err
	}
	if _, ok := timeOf(id); !ok {
		return Record{}, notFound(name, id)
	}
	found, err := l.store.Get(ctx, l.keys.record(name, id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Record{}, notFound(name, id)
	case err != nil:
		return Record{}, failed(name, "read the record", err)
	}
	e, err := decode(name, id, found)
	if err != nil || e.Pages == 0 {
		return e.Record, err
	}
	e.Record.Inventory, err = l.inventory(ctx, name, id, e)
	return e.Record, err
}

func (l *Log) inventory(ctx context.Context, name, id string, e entry) (*Inventory, error) {
	var data bytes.Buffer
	pages := 0
	err := l.each(ctx, l.keys.pages(name, id), chunkPages, func(e store.Entry) error {
		data.Write(e.Value)
		pages++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if pages != e.Pages || data.Len() != e.Bytes {
		return nil, corrupt(name, id, fmt.Errorf("the inventory has %d pages with %d bytes, but was written with %d pages and %d bytes", pages, data.Len(), e.Pages, e.Bytes))
	}
	inventory := &Inventory{}
	if err := json.Unmarshal(data.Bytes(), inventory); err != nil {
		return nil, corrupt(name, id, err)
	}
	return inventory, nil
}

// each calls do with every entry below prefix, in order.
func (l *Log) each(ctx context.Context, prefix string, limit int, do func(store.Entry) error) error {
	q := store.Query{Prefix: prefix, Limit: limit}
	for {
		page, err := l.store.List(ctx, q)
		if err != nil {
			return failed("", "read "+prefix, err)
		}
		for _, e := range page.Entries {
			if err := do(e); err != nil {
				return err
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return nil
		}
		// Pages need no common snapshot, because records do not change, and the snapshot
		// could expire during a long listing.
		q.After = page.Entries[len(page.Entries)-1].Key
	}
}

// decode decodes the entry of an ID.
func decode(name, id string, found store.Entry) (entry, error) {
	var e entry
	if err := json.Unmarshal(found.Value, &e); err != nil {
		return entry{}, corrupt(name, id, err)
	}
	if e.ID != id || e.Record.Namespace != name {
		return entry{}, corrupt(name, id, fmt.Errorf("its content is the record %.80q of namespace %.80q", e.ID, e.Record.Namespace))
	}
	return e, nil
}

func notFound(name, id string) error {
	return &namespace.Error{
		Kind: namespace.ErrNotFound, Resource: namespace.Resource, Name: name,
		Message: fmt.Sprintf("audit: namespace %q has no record %.80q: use an ID of a listed record", name, id),
	}
}

func corrupt(name, id string, err error) error {
	return fmt.Errorf("audit: namespace %q: the record %.400q cannot be read: %w", name, id, err)
}
