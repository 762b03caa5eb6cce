package audit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Settled is how old a record must be for [Log.Forget]: a younger one may be being
// written, its inventory before it.
const Settled = time.Hour

// Forget removes the records of all namespaces that had or have this name from before
// that time, by their IDs, with their inventories, also such inventories as a failed
// write has left without a record. It returns how many records went.
//
// What a Drop by force has left is known to nobody but its record ([Forcing]). So that
// stays, however old it is, with its [Forced] and the last [Swept] of it, while a sweep may
// need it: while the Drop is not finished (call it again, that ends it), and then until a
// Swept of it has neither objects nor failures, unless it had none itself. Sources that did
// not answer the Drop are failures of every sweep, so its record stays for good. A Forcing
// that was refused, or that another one went on with, is not kept. One that nobody needs
// any more goes only when what follows it is old enough as well.
//
// It may be called again after any failure, by any number of processes. A time that is
// not older than [Settled] is [namespace.ErrInvalid].
func (l *Log) Forget(ctx context.Context, name string, before time.Time) (int, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	if time.Since(before) < Settled {
		return 0, invalid(name, "only what is older than %v can be forgotten: what is younger may be being written", Settled)
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
	_, err = l.forget(ctx, name, l.keys.inventories(name), chunkPages, before, keep) // what crashes leave is found by the next call
	return records, err
}

// forget removes the entries below root that belong to IDs of before that time, but for
// those to be kept.
func (l *Log) forget(ctx context.Context, name, root string, limit int, before time.Time, keep map[string]bool) (gone int, err error) {
	done := errors.New("the rest is younger")
	err = l.each(ctx, root, limit, func(e store.Entry) error {
		id, _, _ := strings.Cut(strings.TrimPrefix(e.Key, root), "/")
		at, ok := timeOf(id)
		switch {
		case !ok:
			return nil // not ours
		case !at.Before(before):
			return done
		case keep[id]:
			return nil
		}
		if err := l.remove(ctx, e.Key); err != nil {
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

// forcedCall is what is on record of one Drop.
type forcedCall struct {
	forcing               Record
	forced, swept         *Record // the last of each
	refused, resumed, new bool    // new: something that follows it is not old enough
}

// needed reports whether a sweep may need its inventory.
func (c *forcedCall) needed() bool {
	switch {
	case c.forced == nil:
		return !c.refused && !c.resumed
	case c.forcing.Objects+c.forcing.Failures == 0:
		return false
	}
	return c.swept == nil || c.swept.Objects+c.swept.Failures > 0
}

// needed returns the IDs of the records, in the order of their commits, that are not to be
// forgotten.
func needed(records []Record, before time.Time) map[string]bool {
	calls := map[string]*forcedCall{}
	for i, r := range records {
		if r.Action == Forcing {
			calls[r.ID] = &forcedCall{forcing: r}
		}
		c := calls[r.Follows]
		if c == nil {
			continue
		}
		if at, _ := timeOf(r.ID); !at.Before(before) {
			c.new = true
		}
		switch r.Action {
		case Forced:
			c.forced = &records[i]
		case Refused:
			c.refused = true
		case Swept:
			c.swept = &records[i]
		}
	}
	for _, c := range calls {
		if first := calls[c.forcing.Follows]; first != nil && (c.forced != nil || !c.refused) {
			first.resumed = true
		}
	}
	keep := map[string]bool{}
	for id, c := range calls {
		if !c.new && !c.needed() {
			continue
		}
		keep[id] = true
		for _, r := range []*Record{c.forced, c.swept} {
			if r != nil {
				keep[r.ID] = true
			}
		}
	}
	return keep
}

// remove deletes an entry, whether or not it is there still.
func (l *Log) remove(ctx context.Context, key string) error {
	var doubt error
	for attempt := range attempts {
		if err := pause(ctx, attempt); err != nil {
			return unresolved(doubt, err)
		}
		_, err := l.store.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete(key)}})
		if err == nil || !errors.Is(err, store.ErrUnknownOutcome) {
			return err
		}
		doubt = err
	}
	return unresolved(doubt, nil)
}
