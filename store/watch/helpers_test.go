package watch

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
)

const epoch = "e"

// fakeLog is a driver: a log of dense revisions with a hub.
type fakeLog struct {
	hub *Hub

	mu        sync.Mutex
	changes   []store.Change // changes[r-1] made revision r
	compacted store.Revision
	chunk     int // maximum number of changes that one call of read returns
	reads     int
	err       error  // of read
	during    func() // called by read, without the lock, after reading
}

func open(t testing.TB, options Options) *fakeLog {
	l := &fakeLog{chunk: 3}
	l.hub = New(l.read, store.Position{Epoch: epoch}, options)
	t.Cleanup(l.hub.Close)
	return l
}

func (l *fakeLog) read(_ context.Context, _ string, after, upTo store.Revision) ([]store.Change, store.Revision, error) {
	l.mu.Lock()
	during := l.during
	defer func() {
		l.mu.Unlock()
		if during != nil {
			during()
		}
	}()
	l.reads++
	if l.err != nil {
		return nil, 0, l.err
	}
	if after < l.compacted {
		return nil, 0, store.ErrGone
	}
	through := min(after+store.Revision(l.chunk), upTo)
	return slices.Clone(l.changes[after:through]), through, nil
}

// write appends a change of keys to the log without publishing it.
func (l *fakeLog) write(keys ...string) store.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := store.Change{Position: at(len(l.changes) + 1)}
	for _, key := range keys {
		c.Events = append(c.Events, store.Event{Key: key, Value: []byte("value")})
	}
	l.changes = append(l.changes, c)
	return c
}

func (l *fakeLog) commit(keys ...string) { l.hub.Publish(l.write(keys...)) }

func (l *fakeLog) compact(revision store.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compacted = revision
}

func (l *fakeLog) readCalls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

func at(revision int) store.Position {
	return store.Position{Epoch: epoch, Revision: store.Revision(revision)}
}

// advance is commit for a driver that publishes revisions only.
func (l *fakeLog) advance(keys ...string) { l.hub.Advance(l.write(keys...).Position.Revision) }

// watchers returns the number of watches in the hub.
func (h *Hub) watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, g := range h.watches.groups {
		n += len(g.watches)
	}
	return n
}

// seen records the changes and the error that a watch has yielded.
type seen struct {
	mu      sync.Mutex
	changes []store.Change
	err     error
}

func (s *seen) add(c store.Change, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return
	}
	s.changes = append(s.changes, c)
}

// got returns the revisions yielded so far, negated for bookmarks.
func (s *seen) got() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []int{}
	for _, c := range s.changes {
		r := int(c.Position.Revision)
		if c.Bookmark() {
			r = -r
		}
		out = append(out, r)
	}
	return out
}

func (s *seen) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// follow watches in a goroutine until the test ends. Before each change it calls
// pause, if not nil.
func follow(t testing.TB, h *Hub, prefix string, after store.Position, pause func(store.Change)) *seen {
	ctx, cancel := context.WithCancel(context.Background())
	var s seen
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := range h.Watch(ctx, prefix, after) {
			s.add(c, err)
			if err == nil && pause != nil {
				pause(c)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return &s
}

// span returns first to last.
func span(first, last int) []int {
	out := []int{}
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}
