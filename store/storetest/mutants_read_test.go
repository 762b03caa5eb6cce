package storetest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// stale returns a Get that answers each key once with its former entry.
func stale(m *memory.Store) func(context.Context, string) (store.Entry, error) {
	var mu sync.Mutex
	last := map[string]store.Entry{}
	return func(ctx context.Context, key string) (store.Entry, error) {
		mu.Lock()
		defer mu.Unlock()
		e, err := m.Get(ctx, key)
		if old, ok := last[key]; ok && err == nil {
			delete(last, key)
			return old, nil
		}
		if err == nil {
			last[key] = e
		}
		return e, err
	}
}

// asking returns a List that changes each query first.
func asking(m *memory.Store, change func(*store.Query)) func(context.Context, store.Query) (store.Page, error) {
	return func(ctx context.Context, q store.Query) (store.Page, error) {
		change(&q)
		return m.List(ctx, q)
	}
}

func readMutants() []mutant {
	return []mutant{
		{of: "reads reflect acknowledged commits", broken: "Get answers from a cache", says: "then Get answered", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.get = stale(m)
		}},
		{of: "reads reflect acknowledged commits", broken: "List answers as of the commit before", says: "then List answered", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				if err == nil && q.At == (store.Position{}) {
					q.At = at(p.Position, max(p.Position.Revision-1, 0))
					return m.List(ctx, q)
				}
				return p, err
			}
		}},
		{of: "two handles are one store", broken: "the other handle has a cache", says: "Get through the other handle", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Second = func(context.Context) (store.Store, error) {
				return &mutated{Store: m, get: stale(m), close: func() error { return nil }}, nil
			}
		}},
		{of: "two handles are one store", broken: "closing a handle closes the store of the other", says: "closed", mutate: func(m *memory.Store, b *Backend, _ *mutated) {
			b.Second = func(context.Context) (store.Store, error) { return m, nil }
		}},
		{of: "prefixes and After cut exactly", broken: "the slash at the end of a prefix is cleaned away", says: `the keys with prefix "a/"`, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) { q.Prefix = strings.TrimSuffix(q.Prefix, "/") })
		}},
		{of: "prefixes and After cut exactly", broken: "After cuts the keys below it too", says: "the keys of", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) {
				if q.After != "" {
					q.After += "\xff"
				}
			})
		}},
		{of: "pages end by their bytes", broken: "Bytes is ignored", says: "1 bytes", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) { q.Bytes *= 1000 })
		}},
		{of: "pages end by their bytes", broken: "a page that was cut says that nothing follows", says: "whether more follow", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				p.More = p.More && q.Bytes == 0
				return p, err
			}
		}},
		{of: "a watch follows exactly its prefix", broken: "the slash at the end of a prefix is cleaned away", says: "the keys that a watch of", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return m.Watch(ctx, strings.TrimSuffix(prefix, "/"), after)
			}
		}},
		{of: "pages add up", broken: "a full page says that more follow", says: "the number of pages", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				p.More = q.Limit > 0 && len(p.Entries) == q.Limit
				return p, err
			}
		}},
		{of: "pages add up", broken: "a page begins with the entry after the next", says: "the pages of", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				if q.After != "" && len(p.Entries) > 1 {
					p.Entries = p.Entries[1:]
				}
				return p, err
			}
		}},
		{of: "pages are one snapshot", broken: "further pages show the current entries", says: "the listing shows", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				first := q.At
				q.At = store.Position{}
				p, err := m.List(ctx, q)
				if first != (store.Position{}) {
					p.Position = first
				}
				return p, err
			}
		}},
		{of: "a page is one snapshot under writers", broken: "a listing is read in two steps", says: "the listing shows", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				first, err := m.List(ctx, store.Query{Prefix: q.Prefix, Limit: 8})
				for p := first; err == nil && p.Position.Revision == first.Position.Revision; {
					runtime.Gosched()
					p, err = m.List(ctx, store.Query{Limit: 1})
				}
				if err != nil || !first.More {
					return first, err
				}
				rest, err := m.List(ctx, store.Query{Prefix: q.Prefix, After: first.Entries[7].Key})
				rest.Entries = append(first.Entries, rest.Entries...)
				return rest, err
			}
		}},
		{of: "old positions read as they were", broken: "a position shows the commit before it", says: "the listing at position", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				asked := q.At
				if q.At.Revision > 1 {
					q.At.Revision--
				}
				p, err := m.List(ctx, q)
				if asked.Revision > 1 {
					p.Position.Revision = asked.Revision
				}
				return p, err
			}
		}},
		{of: "old positions read as they were", broken: "the position of the empty store means now", says: "the listing at position 0", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) {
				if q.At.Revision == 0 {
					q.At = store.Position{}
				}
			})
		}},
		{of: "page gone after compaction", broken: "a compacted position shows the current entries", says: "of a compacted snapshot showed", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				if errors.Is(err, store.ErrGone) {
					q.At = store.Position{}
					return m.List(ctx, q)
				}
				return p, err
			}
		}},
		{of: "future position refused", broken: "a listing of the future shows the current entries", says: "it answered", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				if errors.Is(err, store.ErrFuture) {
					q.At = store.Position{}
					return m.List(ctx, q)
				}
				return p, err
			}
		}},
		{of: "future position refused", broken: "an error lacks the current revision", says: "ErrFuture is a FutureError", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				if errors.Is(err, store.ErrFuture) {
					err = store.ErrFuture
				}
				return p, err
			}
		}},
		{of: "future position refused", broken: "a watch waits for the future", says: "must fail at once", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				if p, err := m.List(ctx, store.Query{Limit: 1}); err == nil && after.Revision > p.Position.Revision {
					after = store.Position{}
				}
				return m.Watch(ctx, prefix, after)
			}
		}},
		{of: "compaction keeps the state", broken: "compaction drops the entries of before", says: "the listing after Compact", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.compact = func(ctx context.Context, r store.Revision) error {
				p, err := m.List(ctx, store.Query{})
				for _, e := range p.Entries {
					if e.Revision < r && err == nil {
						_, err = m.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete(e.Key)}})
					}
				}
				return err
			}
		}},
		{of: "positions of another epoch are gone", broken: "the epoch is not checked", says: "another epoch answered", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = asking(m, func(q *store.Query) { q.At.Epoch = "" })
		}},
		{of: "positions of another epoch are gone", broken: "a watch does not check the epoch", says: "must fail at once", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return m.Watch(ctx, prefix, store.Position{Revision: after.Revision})
			}
		}},
		{of: "positions of another epoch are gone", broken: "positions have no epoch", says: "the epoch of this store", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				p.Position.Epoch = ""
				return p, err
			}
		}},
	}
}
