package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/store"
)

// Options tunes a [Log]. Zero fields take the defaults.
type Options struct {
	// Prefix begins all keys: one or more path segments; default "registry". It must be the
	// prefix of the registry that holds the namespaces.
	Prefix string
}

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, keypath.DefaultPrefix)
	return o
}

// Log keeps records in a store. Create one with [New]. All methods are safe for concurrent
// use, and any number of logs, also in different processes, may share a store.
type Log struct {
	store store.Store
	keys  layout
	page  int // bytes of an inventory in one entry
}

// New returns a log over s, or an error for an invalid option. It reads and writes nothing.
// Nil options mean the defaults.
func New(s store.Store, options *Options) (*Log, error) {
	var o Options
	if options != nil {
		o = *options
	}
	keys, err := newLayout(o.withDefaults().Prefix)
	if err != nil {
		return nil, err
	}
	return &Log{store: s, keys: keys, page: pageSize(keys, store.LimitsOf(s))}, nil
}

// Write adds a record and returns it as stored: with its ID, the time (now, if it had none),
// and the counts of its inventory. It writes the inventory first, in as many commits as the
// limits of the store require, so every listed record has its inventory. If a commit fails,
// the record is not listed.
//
// Write returns [namespace.ErrInvalid] for an invalid record. It repeats a commit whose
// outcome is unknown. If that does not help, it returns [namespace.ErrUnknownOutcome], and
// the record may exist.
func (l *Log) Write(ctx context.Context, r Record) (Record, error) {
	r, err := complete(r)
	if err != nil {
		return Record{}, err
	}
	e, pages, err := l.entry(r)
	if err != nil {
		return Record{}, err
	}
	value, err := e.encode()
	if err != nil {
		return Record{}, invalid(r.Namespace, "the record cannot be encoded: %v", err)
	}
	for i, page := range pages {
		if err := l.add(ctx, l.keys.page(r.Namespace, r.ID, i), page); err != nil {
			return Record{}, failed(r.Namespace, "write the inventory", err)
		}
	}
	if err := l.add(ctx, l.keys.record(r.Namespace, r.ID), value); err != nil {
		return Record{}, failed(r.Namespace, "write the record", err)
	}
	e.Record.Inventory = r.Inventory
	return e.Record, nil
}

// Operation returns the record as [Log.Write] would store it, and the operation that stores
// it, so that the record can be in the same commit as the change. It takes at most room
// bytes (zero or more than [MaxChanges]: MaxChanges). To fit, it cuts values of changes, and
// then omits changes and replaces Detail by their number. It returns [namespace.ErrInvalid]
// if not even one change fits, or for a record with an inventory.
func (l *Log) Operation(r Record, room int) (Record, store.Operation, error) {
	r, err := complete(r)
	if err != nil {
		return Record{}, store.Operation{}, err
	}
	if r.Inventory != nil {
		return Record{}, store.Operation{}, invalid(r.Namespace, "a record with an inventory does not fit into one commit: use Write")
	}
	key := l.keys.record(r.Namespace, r.ID)
	if room <= 0 || room > MaxChanges {
		room = MaxChanges
	}
	short, value, fits, err := fit(r, room-len(key))
	switch {
	case err != nil:
		return Record{}, store.Operation{}, invalid(r.Namespace, "the record cannot be encoded: %v", err)
	case !fits:
		return Record{}, store.Operation{}, &namespace.Error{
			Kind: namespace.ErrInvalid, Resource: namespace.Resource, Name: r.Namespace, Err: store.ErrTooLarge,
			Message: fmt.Sprintf("audit: namespace %q: the record of this change does not fit into the commit, which has %d bytes left for it", r.Namespace, room),
		}
	}
	return short, store.Put(key, value), nil
}

// attempts bounds the attempts of one commit while its outcome is unknown.
const attempts = 16

// add writes a new entry.
func (l *Log) add(ctx context.Context, key string, value []byte) error {
	return l.commit(ctx, store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, value)}})
}

// commit repeats a commit while its outcome is unknown. No other writer uses the key of a new
// entry, which has random bits. So a conflict after an unknown outcome is with the same commit.
func (l *Log) commit(ctx context.Context, txn store.Txn) error {
	var unknown error
	for attempt := range attempts {
		err := backoff.SleepConflict(ctx, attempt)
		if err == nil {
			_, err = l.store.Commit(ctx, txn)
		}
		switch {
		case errors.Is(err, store.ErrUnknownOutcome):
			unknown = err
		case err == nil, unknown == nil:
			return err
		case errors.Is(err, store.ErrConflict):
			return nil
		default:
			return fmt.Errorf("%w: %w; %w", namespace.ErrUnknownOutcome, unknown, err)
		}
	}
	return fmt.Errorf("%w: %w; all %d attempts had this outcome", namespace.ErrUnknownOutcome, unknown, attempts)
}
