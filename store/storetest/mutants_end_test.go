package storetest

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func endMutants() []mutant {
	return []mutant{
		{of: "a cancelled watch ends with the cause", broken: "it ends with another error", says: "the last error of a watch", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					for c, err := range m.Watch(ctx, prefix, after) {
						if err != nil {
							err = errors.New("the stream broke")
						}
						if !yield(c, err) {
							return
						}
					}
				}
			}
		}},
		{of: "a cancelled watch ends with the cause", broken: "it does not end", says: "it ignores the context", hangs: true, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					if ctx.Err() == nil {
						ctx = context.WithoutCancel(ctx)
					}
					m.Watch(ctx, prefix, after)(yield)
				}
			}
		}},
		{of: "ended watches leave nothing running", broken: "each watch starts a goroutine that ends with the store", says: "goroutines remain", hangs: true, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			closed := make(chan struct{})
			s.close = func() error {
				close(closed)
				return m.Close()
			}
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					go func() { <-closed }()
					m.Watch(ctx, prefix, after)(yield)
				}
			}
		}},
		{of: "close ends watches", broken: "watches go on", says: "watch", hangs: true, mutate: func(_ *memory.Store, _ *Backend, s *mutated) {
			s.close = func() error { return nil }
		}},
		{of: "close ends watches", broken: "watches end without an error", says: "watch", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					for c, err := range m.Watch(ctx, prefix, after) {
						if errors.Is(err, store.ErrClosed) || !yield(c, err) {
							return
						}
					}
				}
			}
		}},
		{of: "closed store refuses calls", broken: "it goes on", says: "Get", mutate: func(_ *memory.Store, _ *Backend, s *mutated) {
			s.close = func() error { return nil }
		}},
		{of: "closed store refuses calls", broken: "a second Close fails", says: "a second Close", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			closed := false
			s.close = func() error {
				if closed {
					return store.ErrClosed
				}
				closed = true
				return m.Close()
			}
		}},
		{of: "close is honest under commits", broken: "a commit that Close meets fails with another error", says: "a commit that Close met", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if errors.Is(err, store.ErrClosed) {
					err = context.Canceled
				}
				return r, err
			}
		}},
		{of: "acknowledged survives a crash", broken: "the last entry is lost", says: "the entries after crash", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Reopen = func(context.Context) (store.Store, error) {
				s := reopened(m)
				s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
					p, err := m.List(ctx, q)
					p.Entries = p.Entries[:max(len(p.Entries)-1, 0)]
					return p, err
				}
				return s, nil
			}
		}},
		{of: "acknowledged survives a crash", broken: "the last commit is lost", says: "the position after the crash", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Reopen = func(ctx context.Context) (store.Store, error) {
				s := reopened(m)
				now, err := m.List(ctx, store.Query{Limit: 1})
				s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
					q.At = at(now.Position, now.Position.Revision-1)
					return m.List(ctx, q)
				}
				return s, err
			}
		}},
		{of: "history survives a crash", broken: "it does not", says: "no longer in the history", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Reopen = func(ctx context.Context) (store.Store, error) {
				now, err := m.List(ctx, store.Query{Limit: 1})
				if err != nil {
					return nil, err
				}
				return reopened(m), m.Compact(ctx, now.Position.Revision)
			}
		}},
		{of: "revision never reused after a crash", broken: "the revision is that of the newest entry", says: "the revision of the store after a deletion", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Reopen = func(context.Context) (store.Store, error) {
				s := reopened(m)
				s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
					p, err := m.List(ctx, store.Query{})
					p.Position.Revision = 0
					for _, e := range p.Entries {
						p.Position.Revision = max(p.Position.Revision, e.Revision)
					}
					return p, err
				}
				return s, nil
			}
		}},
		{of: "epoch change is gone", broken: "the epoch stays", says: "the epoch after a restore", mutate: func(_ *memory.Store, b *Backend, _ *mutated) {
			b.NewEpoch = b.Reopen
		}},
		{of: "epoch change is gone", broken: "the restored store does not check it", says: "of before the restore", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.NewEpoch = func(ctx context.Context) (store.Store, error) {
				s, err := copyOf(ctx, m)
				if err != nil {
					return nil, err
				}
				restored := s.(*memory.Store)
				return &mutated{Store: restored, list: asking(restored, func(q *store.Query) { q.At.Epoch = "" })}, nil
			}
		}},
	}
}

// reopened returns another handle on m.
func reopened(m *memory.Store) *mutated {
	return &mutated{Store: m, close: func() error { return nil }}
}

func ruleMutants() []mutant {
	return []mutant{
		{of: "no orphan", broken: "the gate is checked before the commit, not in it", says: "the listing after termination", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			checkThenAct(m, s)
		}},
		{of: "status update does not conflict with gated creates", broken: "a transaction conflicts with every commit since the one before it", says: "create", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			optimistic(m, s)
		}},
		{of: "old incarnation refused", broken: "At compares how often the key was written in this life", says: "answered revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			writes := map[string]int{}                      // since the key was created
			writesAt := map[string]map[store.Revision]int{} // at each revision
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				txn.If = slices.Clone(txn.If)
				for i, c := range txn.If {
					if e := current(m, c.Key); e != nil && c.Want == store.WantRevision && writesAt[c.Key][c.Revision] == writes[c.Key] {
						txn.If[i].Revision = e.Revision
					}
				}
				r, err := m.Commit(ctx, txn)
				for _, op := range txn.Do {
					switch {
					case err != nil:
					case op.Delete:
						writes[op.Key] = 0
					default:
						writes[op.Key]++
						if writesAt[op.Key] == nil {
							writesAt[op.Key] = map[store.Revision]int{}
						}
						writesAt[op.Key][r] = writes[op.Key]
					}
				}
				return r, err
			}
		}},
		{of: "linearizable", broken: "Get answers from a cache", says: ErrNotLinearizable.Error(), mutate: func(m *memory.Store, b *Backend, s *mutated) {
			s.get = stale(m)
		}},
		{of: "linearizable", broken: "the second condition is not judged", says: ErrNotLinearizable.Error(), mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) { txn.If = txn.If[:min(1, len(txn.If))] })
		}},
		{of: "linearizable", broken: "every 20th commit is acknowledged and lost", says: ErrNotLinearizable.Error(), mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			var n counter
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				if n.next()%20 == 0 {
					txn.Do = nil
				}
			})
		}},
		{of: "linearizable", broken: "a write that landed answers a conflict", says: ErrNotLinearizable.Error(), mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			var n counter
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if err == nil && len(txn.If) > 0 && n.next()%10 == 0 {
					err = conflictOf(txn.If[0], current(m, txn.If[0].Key))
				}
				return r, err
			}
		}},
	}
}
