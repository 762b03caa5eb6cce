package storetest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// cut returns e with at most 1 MiB of its value.
func cut(e *store.Entry) *store.Entry {
	if e == nil {
		return nil
	}
	short := *e
	short.Value = short.Value[:min(len(short.Value), 1<<20)]
	return &short
}

func limitMutants() []mutant {
	const large = "the largest transaction is whole"
	const values = "the largest values come back everywhere"
	return []mutant{
		{of: large, broken: "conditions behind the 1,000th are not judged", says: "answered revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) { txn.If = txn.If[:min(1000, len(txn.If))] })
		}},
		{of: large, broken: "live changes are split at 1,000 events", says: "on a live watch", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) (all []store.Change) {
				for ; len(c.Events) > 1000; c.Events = c.Events[1000:] {
					all = append(all, store.Change{Position: c.Position, Events: c.Events[:1000]})
				}
				return append(all, c)
			})
		}},
		{of: large, broken: "a replay ends a transaction at 1,000 events", says: "on a replay", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				now, _ := m.List(ctx, store.Query{Limit: 1})
				return changing(m, func(_ int, c store.Change) []store.Change {
					if c.Position.Revision <= now.Position.Revision {
						c.Events = c.Events[:min(1000, len(c.Events))]
					}
					return []store.Change{c}
				})(ctx, prefix, after)
			}
		}},
		{of: values, broken: "a conflict carries 1 MiB at most", says: "the current entry in a conflict", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
					err = conflictOf(conflict.Condition, cut(conflict.Current))
				}
				return r, err
			}
		}},
		{of: values, broken: "Prev has 1 MiB at most", says: "Prev of change", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				out := store.Change{Position: c.Position}
				for _, e := range c.Events {
					e.Prev = cut(e.Prev)
					out.Events = append(out.Events, e)
				}
				return []store.Change{out}
			})
		}},
		{of: values, broken: "the past has 1 MiB of each value", says: "in the listing at its revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				for i := range p.Entries {
					if q.At.Revision > 0 {
						p.Entries[i] = *cut(&p.Entries[i])
					}
				}
				return p, err
			}
		}},
		{of: "identical puts are changes", broken: "a put of the current value changes nothing", says: "the revision of a put of the same value", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				var do []store.Operation
				for _, op := range txn.Do {
					if now := current(m, op.Key); op.Delete || now == nil || !bytes.Equal(now.Value, op.Value) {
						do = append(do, op)
					}
				}
				txn.Do = do
			})
		}},
		{of: "prefixes as long as keys", broken: "a listing cuts the prefix", says: "the keys with", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) { q.Prefix = q.Prefix[:min(len(q.Prefix), m.Limits().Key-1)] })
		}},
		{of: "prefixes as long as keys", broken: "a watch cuts the prefix", says: "the events of a watch with", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return m.Watch(ctx, prefix[:min(len(prefix), m.Limits().Key-1)], after)
			}
		}},
		{of: "conditions do not need history", broken: "a compacted revision is gone for conditions too", says: "a condition of the transaction failed", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				for _, c := range txn.If {
					if _, err := m.List(ctx, store.Query{At: store.Position{Revision: c.Revision}, Limit: 1}); errors.Is(err, store.ErrGone) {
						return 0, err
					}
				}
				return m.Commit(ctx, txn)
			}
		}},
		{of: "pages keep concurrently deleted entries", broken: "entries that are deleted now are left out", says: "were deleted meanwhile", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				var left []store.Entry
				for _, e := range p.Entries {
					if current(m, e.Key) != nil {
						left = append(left, e)
					}
				}
				p.Entries = left
				return p, err
			}
		}},
		{of: "pages of an index under churn", broken: "further pages show the current entries", says: "the pages of an index show", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) { q.At = store.Position{} })
		}},
		{of: "a waiting watch sees commits of another handle", broken: "a handle's watches wake with its own calls only", says: errPatience.Error(), hangs: true, mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Second = func(context.Context) (store.Store, error) { return deaf(m), nil }
		}},
		{of: "bare revisions of another epoch are gone", broken: "the restored store counts from its entries", says: "of before the restore", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.NewEpoch = func(ctx context.Context) (store.Store, error) {
				restored, err := memory.New(nil)
				for range 9 {
					_, err = restored.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", nil)}})
				}
				return restored, err
			}
		}},
		{of: "watch from now begins with a bookmark", broken: "a watch dies at once", says: "ended without an error", mutate: func(_ *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(context.Context, string, store.Position) iter.Seq2[store.Change, error] {
				return func(func(store.Change, error) bool) {}
			}
		}},
		{of: "quiet prefix advances", broken: "a watch dies after its first bookmark", says: "the stream broke", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					for c, err := range m.Watch(ctx, prefix, after) {
						if yield(c, err) {
							yield(store.Change{}, errors.New("the stream broke"))
						}
						return
					}
				}
			}
		}},
	}
}

// deaf returns a handle whose watches read the store only when a call is made through the handle.
func deaf(m *memory.Store) store.Store {
	s := reopened(m)
	var mu sync.Mutex
	called := make(chan struct{})
	s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
		r, err := m.Commit(ctx, txn)
		mu.Lock()
		defer mu.Unlock()
		close(called)
		called = make(chan struct{})
		return r, err
	}
	s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			mu.Lock()
			wake := called
			mu.Unlock()
			for c, err := range m.Watch(ctx, prefix, after) {
				if err == nil && !c.Bookmark() {
					select {
					case <-wake:
					case <-ctx.Done():
					}
					mu.Lock()
					wake = called
					mu.Unlock()
				}
				if !yield(c, err) {
					return
				}
			}
		}
	}
	return s
}

func backlogMutants() []mutant {
	const backlog = "a backlog larger than any chunk"
	deep := func(b *Backend, watch func(m *memory.Store) watchFunc) {
		b.Deep = func(context.Context) (store.Store, error) {
			m, err := memory.New(nil)
			return &mutated{Store: m, watch: watch(m)}, err
		}
	}
	return []mutant{
		{of: backlog, broken: "a chunk of 1,000 events ends within a transaction", says: "the events at revision", mutate: func(_ *memory.Store, b *Backend, _ *mutated) {
			deep(b, func(m *memory.Store) watchFunc {
				return func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
					read := 0
					return changing(m, func(_ int, c store.Change) []store.Change {
						left := 1000 - read%1000
						c.Events = c.Events[:min(left, len(c.Events))]
						read += len(c.Events)
						return []store.Change{c}
					})(ctx, prefix, after)
				}
			})
		}},
		{of: backlog, broken: "a chunk without an event of the prefix ends the catch-up", says: "the changes of a watch of \"quiet/\"", mutate: func(_ *memory.Store, b *Backend, _ *mutated) {
			deep(b, func(m *memory.Store) watchFunc {
				return func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
					return dropping(m, func(n int, c store.Change) bool { return strings.HasPrefix(prefix, "quiet/") && n > 3 && !c.Bookmark() })(ctx, prefix, after)
				}
			})
		}},
		{of: "no bookmark ahead of a catch-up that ends", broken: "the last bookmark is of the store, not of the watch", says: "came from a watch whose context ended", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					for c, err := range m.Watch(ctx, prefix, after) {
						if err != nil {
							now, _ := m.List(context.Background(), store.Query{Limit: 1})
							if !yield(store.Change{Position: now.Position}, nil) {
								return
							}
						}
						if !yield(c, err) {
							return
						}
					}
				}
			}
		}},
	}
}
