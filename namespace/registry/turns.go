package registry

import (
	"context"
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// turns has writers that get into each other's way go one after another. There is
// a line for each key that admission had join a commit and that somebody else was
// faster at: who was overtaken there takes a turn, and so do those who are to write
// that key as well while others stand in line. Who only holds a key is in nobody's
// way, and everybody else never waits (rule R10). It is about speed alone, and
// about the writers of one process: what is right is decided by the conditions of
// the commit.
type turns struct {
	mu    sync.Mutex
	lines map[string]*line // of keys that somebody stands in line for
}

type line struct {
	people int           // with the turn or waiting for it
	turn   chan struct{} // holds one value while somebody has the turn
}

// turn is that of one write: the places it has, by key. It waits for keys beyond
// those it has only, so that no two writes wait for each other. The zero turn never
// waits.
type turn struct {
	*turns
	held []place
}

type place struct {
	key string
	*line
}

// insideWrite marks the context that a link is called with.
type insideWrite struct{}

// turnAt returns the turn of a write that is asked for with ctx. A link that writes
// itself has none: it may have to wait for the very write that asks it.
func (c *core) turnAt(ctx context.Context) turn {
	if !c.asks() || ctx.Value(insideWrite{}) != nil {
		return turn{}
	}
	return turn{turns: &c.turns}
}

// behind returns the keys at which others stand in line, and t has no turn, of those
// that admission has a commit write: on condition of their revision, and not its
// own.
func (t *turn) behind(conditions []store.Condition, do []store.Operation, own func(key string) bool) []string {
	if t.turns == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for _, c := range conditions {
		if t.lines[c.Key] == nil || c.Want != store.WantRevision || own != nil && own(c.Key) {
			continue
		}
		writes := func(op store.Operation) bool { return op.Key == c.Key }
		if !t.has(c.Key) && slices.ContainsFunc(do, writes) {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

func (t *turn) has(key string) bool {
	return slices.ContainsFunc(t.held, func(p place) bool { return p.key == key })
}

// take waits for the turns at keys, beside those that t has. It gives up those that
// come later for a while.
func (t *turn) take(ctx context.Context, keys []string) error {
	if t.turns == nil || len(keys) == 0 {
		return nil
	}
	all := slices.Clone(keys)
	for _, p := range t.held {
		all = append(all, p.key)
	}
	slices.Sort(all)
	for i, key := range slices.Compact(all) {
		if i < len(t.held) && t.held[i].key == key {
			continue
		}
		t.giveFrom(i)
		p := place{key: key, line: t.join(key)}
		select {
		case p.turn <- struct{}{}:
			t.held = append(t.held, p)
		case <-ctx.Done():
			t.part(p)
			return context.Cause(ctx)
		}
	}
	return nil
}

// give lets the next ones have the turns.
func (t *turn) give() { t.giveFrom(0) }

func (t *turn) giveFrom(i int) {
	for _, p := range t.held[i:] {
		<-p.turn
		t.part(p)
	}
	t.held = t.held[:i]
}

func (t *turns) join(key string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[key]
	if l == nil {
		if t.lines == nil {
			t.lines = map[string]*line{}
		}
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[key] = l
	}
	l.people++
	return l
}

func (t *turns) part(p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.people--; p.people == 0 {
		delete(t.lines, p.key)
	}
}
