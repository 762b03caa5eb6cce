package hub

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

const epoch = "e"

// fakeLog is a log of dense revisions with a hub: commit does what a driver does.
type fakeLog struct {
	hub *Hub

	mu        sync.Mutex
	changes   []store.Change // changes[r-1] made revision r
	compacted store.Revision
	chunk     int // changes looked at by one Replay
	replays   int
	err       error  // of Replay
	during    func() // called by Replay, without the lock, after reading
}

func open(t testing.TB, options Options) *fakeLog {
	l := &fakeLog{chunk: 3}
	var err error
	l.hub, err = New(l, store.Position{Epoch: epoch}, options)
	require.NoError(t, err)
	t.Cleanup(l.hub.Close)
	return l
}

func (l *fakeLog) Replay(_ context.Context, prefix string, after store.Revision) ([]store.Change, store.Revision, error) {
	l.mu.Lock()
	during := l.during
	defer func() {
		l.mu.Unlock()
		if during != nil {
			during()
		}
	}()
	l.replays++
	if l.err != nil {
		return nil, 0, l.err
	}
	if after < l.compacted {
		return nil, 0, store.ErrGone
	}
	var found []store.Change
	through := min(after+store.Revision(l.chunk), store.Revision(len(l.changes)))
	for _, c := range l.changes[after:through] {
		if c, ok := Filter(c, prefix); ok {
			found = append(found, c)
		}
	}
	return found, through, nil
}

// write makes a change of keys readable.
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

func (l *fakeLog) replayed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replays
}

func at(revision int) store.Position {
	return store.Position{Epoch: epoch, Revision: store.Revision(revision)}
}

// watchers returns how many watches the hub knows.
func (h *Hub) watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, g := range h.interest.groups {
		n += len(g.watches)
	}
	return n
}

// seen is what a watch yielded: its keys by change, "" for a bookmark.
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

// got returns the revisions yielded so far, bookmarks negative.
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
