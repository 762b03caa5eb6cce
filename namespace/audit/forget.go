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
// write has left without a record. It returns how many records went. A Drop by force that
// was not finished begins anew without its record, and a sweep needs that of its Drop.
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
	records, err := l.forget(ctx, name, l.keys.records(name), chunk, before)
	if err != nil {
		return records, err
	}
	_, err = l.forget(ctx, name, l.keys.inventories(name), chunkPages, before) // what crashes leave is found by the next call
	return records, err
}

// forget removes the entries below root that belong to IDs of before that time.
func (l *Log) forget(ctx context.Context, name, root string, limit int, before time.Time) (gone int, err error) {
	done := errors.New("the rest is younger")
	err = l.each(ctx, root, limit, func(e store.Entry) error {
		id, _, _ := strings.Cut(strings.TrimPrefix(e.Key, root), "/")
		at, ok := timeOf(id)
		switch {
		case !ok:
			return nil // not ours
		case !at.Before(before):
			return done
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
