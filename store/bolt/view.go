package bolt

import (
	"context"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// landing records which transactions of the engine have been synced and published.
// Reads wait for it, because the engine exposes a commit as soon as it is written. Before
// the sync a crash of the machine can still lose that commit, and before it is published a
// watch from its revision would be refused as ahead of the store.
type landing struct {
	synced  atomic.Int64                  // the newest transaction that is in the file for good
	current atomic.Pointer[chan struct{}] // closed when the latest commit has been synced, or has failed
}

// commit runs f, which commits and publishes the engine's transaction number.
func (l *landing) commit(number int, f func() error) error {
	done := make(chan struct{})
	defer close(done)
	l.current.Store(&done)
	err := f()
	if err == nil {
		l.synced.Store(int64(number))
	}
	return err
}

// opened takes over what is in a file that has just been opened, and synced.
func (l *landing) opened(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		l.synced.Store(int64(tx.ID()))
		return nil
	})
}

// wait returns when the commit that a read transaction of this number sees is
// synced, or reports that it was not. While it waits db must stay what it is.
func (l *landing) wait(ctx context.Context, number int) (synced bool, err error) {
	current := l.current.Load() // before synced: so it is not of an earlier commit than number
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

// view runs f in a read transaction that sees synced commits only. It never yields
// to a caller's code: a read transaction that stays open holds on to pages of the
// file.
func (s *Store) view(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	for {
		if done, err := s.tryView(ctx, f); done || err != nil {
			return err
		}
	}
}

// tryView is not done if it met a commit that failed: the file is about to be opened
// again.
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
	defer func() { _ = s.engine(tx.Rollback) }() // of a read it only ends it
	if synced, err := s.landing.wait(ctx, tx.ID()); err != nil || !synced {
		return false, err
	}
	return true, guard(func() error { return f(tx) })
}
