package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// guard runs f, which calls the engine. The engine panics on damaged pages and causes a
// memory fault if a mapped page is no longer in the file. guard turns both into ErrCorrupt.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the engine failed: %v", ErrCorrupt, p)
		}
	}()
	return f()
}

// errBroken is returned after the engine has failed with its locks held.
var errBroken = fmt.Errorf("%w: the engine can no longer read the file, restart the process", ErrCorrupt)

// engine guards a call during which the engine holds locks that it does not unlock with
// defer. After a failure the engine is unusable and never called again.
func (s *Store) engine(f func() error) error {
	if s.broken.Load() {
		return errBroken
	}
	err := guard(f)
	if errors.Is(err, ErrCorrupt) {
		s.broken.Store(true)
	}
	return err
}

// begin begins a transaction of the engine.
func (s *Store) begin(writable bool) (tx *bbolt.Tx, err error) {
	err = s.engine(func() (err error) {
		tx, err = s.db.Begin(writable)
		return err
	})
	return tx, err
}

// syncState records which transactions of the engine have been synced and published. Reads wait
// for both, because the engine exposes a commit as soon as it is written. Before the sync, a
// crash of the machine can still lose the commit. Before it is published, a watch from its
// revision would be refused as ahead of the store.
type syncState struct {
	synced  atomic.Int64                  // the newest durable transaction
	current atomic.Pointer[chan struct{}] // closed when the latest commit has been synced or has failed
}

// commit runs f, which commits and publishes transaction number of the engine.
func (l *syncState) commit(number int, f func() error) error {
	done := make(chan struct{})
	defer close(done)
	l.current.Store(&done)
	err := f()
	if err == nil {
		l.synced.Store(int64(number))
	}
	return err
}

// opened records the state of a file that was just opened, which is durable.
func (l *syncState) opened(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		l.synced.Store(int64(tx.ID()))
		return nil
	})
}

// wait waits until transaction number is synced and published, and reports whether it is. The
// caller must prevent the replacement of db meanwhile.
func (l *syncState) wait(ctx context.Context, number int) (synced bool, err error) {
	current := l.current.Load() // load this before synced, or it may belong to a later commit
	if int64(number) <= l.synced.Load() {
		return true, nil
	}
	select {
	case <-*current:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return int64(number) <= l.synced.Load(), nil
}

// view runs f in a read transaction that sees synced commits only. f must not call back into the
// caller of the store, because an open read transaction keeps pages of the file in use.
func (s *Store) view(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	for {
		if done, err := s.tryView(ctx, f); done || err != nil {
			return err
		}
	}
}

// tryView returns done false if the commit that it saw has failed. Then the committer is about to
// reopen the file.
func (s *Store) tryView(ctx context.Context, f func(tx *bbolt.Tx) error) (done bool, err error) {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.refusal != nil {
		return false, s.refusal
	}
	tx, err := s.begin(false)
	if err != nil {
		return false, err
	}
	defer func() { _ = s.engine(tx.Rollback) }() // ends a read; it cannot fail
	if synced, err := s.sync.wait(ctx, tx.ID()); err != nil || !synced {
		return false, err
	}
	return true, guard(func() error { return f(tx) })
}
