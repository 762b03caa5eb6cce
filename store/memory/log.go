package memory

import (
	"context"
	"fmt"
	"iter"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

// Watch implements [store.Store].
func (s *Store) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return s.hub.Watch(ctx, prefix, after)
}

// Bounds of one call of readLog, which holds the lock and so blocks commits.
const (
	maxRead   = 1024 // changes read
	maxReturn = 128  // changes returned
)

// readLog is the [watch.ReadFunc].
func (s *Store) readLog(_ context.Context, prefix string, after, upTo store.Revision) ([]store.Change, store.Revision, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, 0, store.ErrClosed
	}
	if after < s.compacted {
		return nil, 0, gone(after, s.compacted)
	}
	var found []store.Change
	for end := min(upTo, after+maxRead); after < end && len(found) < maxReturn; after++ {
		if c, ok := watch.Filter(s.log.at(int(after-s.compacted)), prefix); ok {
			found = append(found, c)
		}
	}
	return found, after, nil
}

func gone(wanted, compacted store.Revision) error {
	return fmt.Errorf("%w: revision %d, the history starts at %d", store.ErrGone, wanted, compacted)
}

// ring is a queue of changes in one slice, which grows and never shrinks. The zero ring is empty.
type ring struct {
	changes []store.Change // the length is a power of two, or zero
	head    int
	n       int
}

func (r *ring) len() int { return r.n }

func (r *ring) at(i int) store.Change { return r.changes[(r.head+i)&(len(r.changes)-1)] }

func (r *ring) push(c store.Change) {
	if r.n == len(r.changes) {
		grown := make([]store.Change, max(16, 2*r.n))
		for i := range r.n {
			grown[i] = r.at(i)
		}
		r.changes, r.head = grown, 0
	}
	r.changes[(r.head+r.n)&(len(r.changes)-1)] = c
	r.n++
}

// pop removes the oldest change; there must be one.
func (r *ring) pop() store.Change {
	c := r.changes[r.head]
	r.changes[r.head] = store.Change{}
	r.head = (r.head + 1) & (len(r.changes) - 1)
	r.n--
	return c
}
