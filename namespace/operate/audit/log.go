package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// Writer adds records. [*Log] is one.
type Writer interface {
	Write(ctx context.Context, r Record) (Record, error)
}

// Reader reads them. [*Log] is one.
type Reader interface {
	List(ctx context.Context, name string) ([]Record, error)
	Get(ctx context.Context, name, id string) (Record, error)
}

// Options tunes a [Log]. Zero fields take the defaults.
type Options struct {
	// Prefix is what all keys begin with, one or more path segments; default
	// "registry". Use that of the registry whose namespaces the records are of.
	Prefix string
}

// Log keeps records in a store. Make one with [New]. All methods are safe for
// concurrent use, and any number of logs, in any number of processes, may work on one
// store.
type Log struct {
	store store.Store
	keys  layout
	page  int // bytes of an inventory that one entry takes
}

var (
	_ Writer = (*Log)(nil)
	_ Reader = (*Log)(nil)
)

// New returns a log over s. Nil options are all defaults; options that make no sense
// are [namespace.ErrInvalid]. Nothing is read or written.
func New(s store.Store, options *Options) (*Log, error) {
	if s == nil {
		return nil, invalid("", "the store is nil")
	}
	var o Options
	if options != nil {
		o = *options
	}
	keys, err := newLayout(o.Prefix)
	if err != nil {
		return nil, err
	}
	return &Log{store: s, keys: keys, page: pageSize(keys, store.LimitsOf(s))}, nil
}

// Write adds a record and returns it as it is kept: with its ID, with the time, if it
// had none, and with what its inventory counts. The inventory is written first, in as
// many commits as the store's limits ask for, so that no record is ever without. If
// that or the record itself fails nothing is listed, also if a part of the inventory
// was written.
//
// A record that makes no sense is [namespace.ErrInvalid]. An unknown outcome is read
// back; [namespace.ErrUnknownOutcome] if even that failed: then the record may be
// there.
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

// Operation returns the record as [Log.Write] would keep it, and the operation that
// does: for a record that is to be in the same commit as what it tells of. It has at most
// room bytes (zero, or more than that: [MaxChanges]): values of changes are cut, and if
// that is not enough changes are left out, which Detail then tells instead of what it
// had. If not even one fits the error is [namespace.ErrInvalid]. So is a record with an
// inventory.
func (l *Log) Operation(r Record, room int) (Record, store.Operation, error) {
	r, err := complete(r)
	if err != nil {
		return Record{}, store.Operation{}, err
	}
	if r.Inventory != nil {
		return Record{}, store.Operation{}, invalid(r.Namespace, "a record with an inventory does not fit into one commit: write it before")
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
			Message: fmt.Sprintf("audit: namespace %q: the store leaves no room for the record of this change (%d bytes)", r.Namespace, room),
		}
	}
	return short, store.Put(key, value), nil
}

// attempts bounds how often the write of one entry is tried while its outcome is
// unknown.
const attempts = 16

// add writes an entry that is not there yet. Nobody else writes at its key, which has
// random bits in it. So once an attempt may have been made, an entry that is there is
// ours, and an attempt in flight is held off by the condition.
func (l *Log) add(ctx context.Context, key string, value []byte) error {
	txn := store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, value)}}
	var doubt error
	for attempt := range attempts {
		if err := pause(ctx, attempt); err != nil {
			return unresolved(doubt, err)
		}
		_, err := l.store.Commit(ctx, txn)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrUnknownOutcome):
			doubt = err
		case doubt != nil && errors.Is(err, store.ErrConflict):
			return nil
		default:
			return unresolved(doubt, err)
		}
	}
	return unresolved(doubt, nil)
}

var errBusy = errors.New("it stayed so at every attempt")

// unresolved is err, or that nothing is known if an attempt may have been made.
func unresolved(doubt, err error) error {
	if doubt == nil {
		return err
	}
	if err == nil {
		err = errBusy
	}
	return fmt.Errorf("%w: %w; %w", namespace.ErrUnknownOutcome, doubt, err)
}

// pause waits before another attempt: up to some milliseconds.
func pause(ctx context.Context, attempt int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if attempt == 0 {
		return nil
	}
	timer := time.NewTimer(min(time.Millisecond<<min(attempt-1, 6), 50*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
