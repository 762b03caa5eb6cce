package storetest

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func flowMutants() []mutant {
	return []mutant{
		{of: "every revision once in order", broken: "the 290th change is lost", says: "against the acknowledged commits", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = dropping(m, func(n int, c store.Change) bool { return n == 290 && !c.Bookmark() })
		}},
		{of: "every revision once in order", broken: "the 290th change comes twice", says: "is not greater than", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(n int, c store.Change) []store.Change {
				if n == 290 {
					return []store.Change{c, c}
				}
				return []store.Change{c}
			})
		}},
		{of: "every revision once in order", broken: "two commits get one revision", says: "was given to the commits", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				return r &^ 1, err
			}
		}},
		{of: "list then watch has no gap", broken: "the position of the empty store means now", says: "the first commit of the store", hangs: true, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = from(m, func(_ context.Context, after *store.Position) {
				if after.Revision == 0 {
					*after = store.Position{}
				}
			})
		}},
		{of: "list then watch has no gap", broken: "the change after the position is lost", says: "against the listing", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return dropping(m, func(n int, c store.Change) bool { return n == 1 && !c.Bookmark() && after.Revision > 0 })(ctx, prefix, after)
			}
		}},
		{of: "a watch starts at any revision that was read", broken: "a commit can be read before watches know it", says: "the first bookmark of a watch was at", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			lagging(m, s, false)
		}},
		{of: "a watch starts at any revision that was read", broken: "a watch from an unknown revision is refused", says: "was refused", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			lagging(m, s, true)
		}},
		{of: "log replay equals state", broken: "the log has no deletions", says: "had an entry before revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				var events []store.Event
				for _, e := range c.Events {
					if !e.Deleted {
						events = append(events, e)
					}
				}
				return []store.Change{{Position: c.Position, Events: events}}
			})
		}},
		{of: "slow watch never skips", broken: "a watch that fell behind goes on from now", says: "the revision of a bookmark before change", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = skipping(m)
		}},
		{of: "slow watch never skips", broken: "a watch that fell behind skips 290 changes", says: "the revision of change", mutate: func(_ *memory.Store, _ *Backend, s *mutated) {
			s.Store, _ = memory.New(nil) // it keeps everything
			s.watch = dropping(s.Store, func(n int, _ store.Change) bool { return n > 20 && n <= 310 })
		}},
		{of: "slow watch ends with gone", broken: "history has no bound", says: "yielded all", mutate: func(_ *memory.Store, _ *Backend, s *mutated) {
			s.Store, _ = memory.New(nil)
		}},
		{of: "slow watch delays no other client", broken: "a commit waits until every watch has read it", says: "committing while one watch is not read", hangs: true, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			(&lockstep{read: map[int]store.Revision{}}).mutate(m, s)
		}},
	}
}

// lagging makes watches see a commit only some time after reads do. If refuse is set, a watch
// after a revision that it has not seen is refused as ahead of the store.
func lagging(m *memory.Store, s *mutated, refuse bool) {
	var known atomic.Int64
	s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
		r, err := m.Commit(ctx, txn)
		time.Sleep(time.Millisecond) // readers see the commit meanwhile
		known.Store(max(known.Load(), int64(r)))
		return r, err
	}
	s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			now := store.Revision(known.Load())
			if refuse && after.Revision > now {
				yield(store.Change{}, &store.FutureError{Asked: after.Revision, Current: now})
				return
			}
			for c, err := range m.Watch(ctx, prefix, after) {
				if !refuse && c.Bookmark() {
					c.Position.Revision = min(c.Position.Revision, now)
				}
				if !yield(c, err) {
					return
				}
			}
		}
	}
}

// lockstep makes commits wait for all watches.
type lockstep struct {
	mu    sync.Mutex
	loops int
	read  map[int]store.Revision // by loop
}

func (l *lockstep) mutate(m *memory.Store, s *mutated) {
	s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
		r, err := m.Commit(ctx, txn)
		for err == nil && l.behind(r) {
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
		}
		return r, err
	}
	s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			l.mu.Lock()
			l.loops++
			loop := l.loops
			l.mu.Unlock()
			for c, err := range m.Watch(ctx, prefix, after) {
				l.mu.Lock()
				l.read[loop] = c.Position.Revision
				l.mu.Unlock()
				if !yield(c, err) {
					return
				}
			}
		}
	}
}

func (l *lockstep) behind(r store.Revision) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, read := range l.read {
		if read < r {
			return true
		}
	}
	return false
}
