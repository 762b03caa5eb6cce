package storetest

import (
	"context"
	"errors"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// counting returns a Count that changes each query first.
func counting(m *memory.Store, change func(*store.Query)) func(context.Context, store.Query) (int, error) {
	return func(ctx context.Context, q store.Query) (int, error) {
		change(&q)
		return m.Count(ctx, q)
	}
}

func countMutants() []mutant {
	const length, refused = "a count is the length of the listing", "a count is refused where a listing is"
	return []mutant{
		{of: length, broken: "the limit does not count", says: "Count {", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = counting(m, func(q *store.Query) { q.Limit = 0 })
		}},
		{of: length, broken: "the place does not count", says: "Count {", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = counting(m, func(q *store.Query) { q.After = "" })
		}},
		{of: length, broken: "the prefix is a segment", says: "Count {", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = counting(m, func(q *store.Query) {
				if q.Prefix == "c" {
					q.Prefix = "c/"
				}
			})
		}},
		{of: length, broken: "an old position is now", says: "Count {", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = counting(m, func(q *store.Query) { q.At = store.Position{} })
		}},
		{of: refused, broken: "a refused query is empty", says: "answered 0", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = func(ctx context.Context, q store.Query) (int, error) {
				n, err := m.Count(ctx, q)
				if errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrFuture) {
					err = nil
				}
				return n, err
			}
		}},
		{of: refused, broken: "the context is not looked at", says: "a context that has ended", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = func(ctx context.Context, q store.Query) (int, error) {
				return m.Count(context.WithoutCancel(ctx), q)
			}
		}},
		{of: "closed store refuses calls", broken: "a closed store counts", says: "Count", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.count = func(context.Context, store.Query) (int, error) { return 0, nil }
		}},
	}
}
