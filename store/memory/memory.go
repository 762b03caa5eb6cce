// Package memory is a [store.Store] in the memory of one process: a driver for services that need
// no durability, and the standard fake for tests. It starts no goroutine and runs inside a
// synctest bubble.
//
//	s, err := memory.New(nil)
//
// store/DESIGN.md describes the data structures.
package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/tidwall/btree"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

// Options tunes a [Store]. A nil *Options and zero fields mean the defaults. Negative numbers are
// [store.ErrInvalid].
type Options struct {
	// Epoch names the history of the store. The default is random, so that a position of one
	// store never matches another store.
	Epoch string
	// Retain is the number of commits that stay available for watches and for listings of earlier
	// revisions; default 100,000.
	Retain int
	// RetainBytes bounds the estimated memory of the history, which is superseded values, keys and
	// 128 bytes for each event; default 256 MiB. The newest change is retained in any case.
	RetainBytes int
	// Limits bounds what one call may carry. Zero fields take the defaults: keys of
	// 1 KiB, values of 4 MiB, 4096 operations and 16 MiB in a transaction.
	Limits store.Limits
	// Watch tunes the watches.
	Watch watch.Options
}

func (o Options) withDefaults() Options {
	if o.Epoch == "" {
		o.Epoch = rand.Text()
	}
	o.Retain = cmp.Or(o.Retain, 100_000)
	o.RetainBytes = cmp.Or(o.RetainBytes, 256<<20)
	o.Limits.Key = cmp.Or(o.Limits.Key, 1<<10)
	o.Limits.Value = cmp.Or(o.Limits.Value, 4<<20)
	o.Limits.Operations = cmp.Or(o.Limits.Operations, 4096)
	o.Limits.Bytes = cmp.Or(o.Limits.Bytes, 16<<20)
	return o
}

func (o Options) check() error {
	for _, field := range []struct {
		name  string
		value int
	}{
		{"Retain", o.Retain},
		{"RetainBytes", o.RetainBytes},
		{"Limits.Key", o.Limits.Key},
		{"Limits.Value", o.Limits.Value},
		{"Limits.Operations", o.Limits.Operations},
		{"Limits.Bytes", o.Limits.Bytes},
		{"Watch.Queue", o.Watch.Queue},
		{"Watch.QueueBytes", o.Watch.QueueBytes},
		{"Watch.Bookmarks", int(o.Watch.Bookmarks)},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: Options.%s is %d: it must not be negative", store.ErrInvalid, field.name, field.value)
		}
	}
	return nil
}

// Store is the driver. Make one with [New].
type Store struct {
	options Options
	hub     *watch.Hub

	mu        sync.RWMutex
	closed    bool
	revision  store.Revision // of the newest commit
	compacted store.Revision // positions before it are gone
	tables    tables
	log       ring // the changes of the revisions compacted+1 to revision
	bytes     int  // of values that only the history holds
}

// tables holds the entries that List can return.
type tables struct {
	live    *btree.Map[string, *store.Entry]
	history *btree.BTreeG[version]
}

// version is an entry that was valid from its revision up to, but not at, end.
type version struct {
	*store.Entry
	end store.Revision
}

func before(a, b version) bool {
	if a.Key != b.Key {
		return a.Key < b.Key
	}
	return a.end < b.end
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Compactor = (*Store)(nil)
	_ store.Counter   = (*Store)(nil)
	_ store.Limiter   = (*Store)(nil)
)

// New returns an empty store.
func New(options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if err := o.check(); err != nil {
		return nil, store.Wrap("open", "", err)
	}
	o = o.withDefaults()
	s := &Store{options: o, tables: tables{
		live:    btree.NewMap[string, *store.Entry](0),
		history: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}),
	}}
	s.hub = watch.New(s.readLog, store.Position{Epoch: o.Epoch}, o.Watch)
	return s, nil
}

// Limits implements [store.Limiter].
func (s *Store) Limits() store.Limits { return s.options.Limits }

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.get(ctx, key)
	return e, store.Wrap("get", key, err)
}

func (s *Store) get(ctx context.Context, key string) (store.Entry, error) {
	if ctx.Err() != nil {
		return store.Entry{}, context.Cause(ctx)
	}
	if err := store.CheckKey(key, s.options.Limits); err != nil {
		return store.Entry{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.Entry{}, store.ErrClosed
	}
	e, ok := s.tables.live.Get(key)
	if !ok {
		return store.Entry{}, store.ErrNotFound
	}
	return *e, nil
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.hub.Close()
	return nil
}
