package storetest

import (
	"context"
	"errors"
	"iter"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

type watchFunc = func(context.Context, string, store.Position) iter.Seq2[store.Change, error]

// changing returns a Watch that replaces the n-th change with events of a loop by the result of
// change. A bookmark has the n of the change before it.
func changing(m *memory.Store, change func(n int, c store.Change) []store.Change) watchFunc {
	return func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			n := 0
			for c, err := range m.Watch(ctx, prefix, after) {
				if err != nil {
					yield(c, err)
					return
				}
				if !c.Bookmark() {
					n++
				}
				for _, c := range change(n, c) {
					if !yield(c, nil) {
						return
					}
				}
			}
		}
	}
}

// dropping returns a Watch without the changes that drop selects.
func dropping(m *memory.Store, drop func(n int, c store.Change) bool) watchFunc {
	return changing(m, func(n int, c store.Change) []store.Change {
		if drop(n, c) {
			return nil
		}
		return []store.Change{c}
	})
}

// from returns a Watch that begins at another position.
func from(m *memory.Store, move func(context.Context, *store.Position)) watchFunc {
	return func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			after := after
			move(ctx, &after)
			m.Watch(ctx, prefix, after)(yield)
		}
	}
}

// skipping returns a Watch that continues from now after ErrGone.
func skipping(m *memory.Store) watchFunc {
	return func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			for again := true; again; {
				again = false
				for c, err := range m.Watch(ctx, prefix, after) {
					if again = errors.Is(err, store.ErrGone); again {
						after = store.Position{}
						break
					}
					if !yield(c, err) {
						return
					}
				}
			}
		}
	}
}

func watchMutants() []mutant {
	return []mutant{
		{of: "watch from now begins with a bookmark", broken: "it begins with the commit before", says: "the commit was before the watch", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = from(m, func(ctx context.Context, after *store.Position) {
				p, _ := m.List(ctx, store.Query{Limit: 1})
				*after = at(p.Position, p.Position.Revision-1)
			})
		}},
		{of: "watch from now begins with a bookmark", broken: "the bookmark lags", says: "the position of the first bookmark", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(n int, c store.Change) []store.Change {
				if n == 0 {
					c.Position.Revision--
				}
				return []store.Change{c}
			})
		}},
		{of: "watch signals when it has caught up", broken: "there are no bookmarks", says: "the bookmark after catching up", hangs: true, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = dropping(m, func(_ int, c store.Change) bool { return c.Bookmark() })
		}},
		{of: "watch signals when it has caught up", broken: "the bookmark comes too early", says: "before it has caught up", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(n int, c store.Change) []store.Change {
				if n == 1 && !c.Bookmark() {
					p, _ := m.List(context.Background(), store.Query{Limit: 1})
					return []store.Change{{Position: p.Position}, c}
				}
				return []store.Change{c}
			})
		}},
		{of: "a transaction is one change", broken: "each event comes alone", says: "the change on a watch of everything", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) (all []store.Change) {
				for _, e := range c.Events {
					all = append(all, store.Change{Position: c.Position, Events: []store.Event{e}})
				}
				return all
			})
		}},
		{of: "a transaction is one change", broken: "a watch of a prefix gets the whole transaction", says: "the change on a watch of a/", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, _ string, after store.Position) iter.Seq2[store.Change, error] {
				return m.Watch(ctx, "", after)
			}
		}},
		{of: "events carry the entry before", broken: "a deletion lacks the previous entry", says: "the changes of one key", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				var events []store.Event
				for _, e := range c.Events {
					if e.Deleted {
						e.Prev = nil
					}
					events = append(events, e)
				}
				return []store.Change{{Position: c.Position, Events: events}}
			})
		}},
		{of: "resume at every revision", broken: "the change at the position comes again", says: "the changes after position", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = from(m, func(_ context.Context, after *store.Position) { after.Revision = max(after.Revision-1, 0) })
		}},
		{of: "bookmark never ahead", broken: "a bookmark is stamped one ahead", says: "a change at", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				if c.Bookmark() {
					c.Position.Revision++
				}
				return []store.Change{c}
			})
		}},
		{of: "bookmark never ahead", broken: "a bookmark is stamped from another read", says: "came after a change at", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(n int, c store.Change) []store.Change {
				if n%8 != 7 || c.Bookmark() {
					return []store.Change{c}
				}
				p, err := m.List(context.Background(), store.Query{Limit: 1})
				if err != nil {
					return []store.Change{c}
				}
				return []store.Change{{Position: p.Position}, c}
			})
		}},
		{of: "quiet prefix advances", broken: "only the first bookmark comes", says: "a bookmark at revision", hangs: true, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				first := true
				return dropping(m, func(_ int, c store.Change) bool {
					defer func() { first = false }()
					return c.Bookmark() && !first
				})(ctx, prefix, after)
			}
		}},
		{of: "watch after repeated compaction", broken: "a compacted position goes on from now", says: "must fail at once", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = skipping(m)
		}},
		{of: "watch after repeated compaction", broken: "after a compaction the last change comes again", says: "the changes of a watch that kept up", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			compacted := 0
			s.compact = func(ctx context.Context, r store.Revision) error {
				compacted++
				return m.Compact(ctx, r)
			}
			s.watch = changing(m, func(n int, c store.Change) []store.Change {
				if compacted == 2 && n == 11 {
					return []store.Change{c, c}
				}
				return []store.Change{c}
			})
		}},
		{of: "several loops are several watches", broken: "a loop goes on where the one before ended", says: "the changes of one more loop", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = func(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
				return func(yield func(store.Change, error) bool) {
					for c, err := range m.Watch(ctx, prefix, after) {
						if !c.Bookmark() {
							after = c.Position
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
