package hub

import (
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
)

// Filter returns c with only the events whose keys start with prefix, and
// whether there are any. It shares the events when all of them are left.
func Filter(c store.Change, prefix string) (store.Change, bool) {
	n := 0
	for i := range c.Events {
		if strings.HasPrefix(c.Events[i].Key, prefix) {
			n++
		}
	}
	if n == len(c.Events) {
		return c, n > 0
	}
	if n == 0 {
		return store.Change{Position: c.Position}, false
	}
	events := make([]store.Event, 0, n)
	for i := range c.Events {
		if strings.HasPrefix(c.Events[i].Key, prefix) {
			events = append(events, c.Events[i])
		}
	}
	return store.Change{Position: c.Position, Events: events}, true
}

// sizeOf returns about how many bytes of memory c keeps. A transaction of many
// small operations is mostly its events.
func sizeOf(c store.Change) int {
	const overhead = 128 // an event and the entry before it
	n := overhead * len(c.Events)
	for i := range c.Events {
		e := &c.Events[i]
		n += len(e.Key) + len(e.Value)
		if e.Prev != nil {
			n += len(e.Prev.Value)
		}
	}
	return n
}

// interest finds the watches that follow a key. A key has few prefixes of the
// lengths that watches use, so each is looked up; how many watches there are
// does not matter. It is guarded by the hub's lock.
type interest struct {
	groups  map[string]*group
	lengths []length // in use, ascending
	touched []*group // of the change at hand; kept for its memory
}

// length is a length of prefixes and how many groups have it.
type length struct{ bytes, groups int }

// group is the watches of one prefix.
type group struct {
	prefix  string
	watches []*watch
	matched int // events of the change at hand
}

func newInterest() interest { return interest{groups: map[string]*group{}} }

func (n *interest) empty() bool { return len(n.groups) == 0 }

// add registers w under its prefix.
func (n *interest) add(w *watch) {
	g := n.groups[w.prefix]
	if g == nil {
		g = &group{prefix: w.prefix}
		n.groups[w.prefix] = g
		i, ok := n.find(len(w.prefix))
		if !ok {
			n.lengths = slices.Insert(n.lengths, i, length{bytes: len(w.prefix)})
		}
		n.lengths[i].groups++
	}
	w.index = len(g.watches)
	g.watches = append(g.watches, w)
}

// remove takes w out again.
func (n *interest) remove(w *watch) {
	g := n.groups[w.prefix]
	end := len(g.watches) - 1
	moved := g.watches[end]
	g.watches[w.index], moved.index = moved, w.index
	g.watches[end] = nil
	g.watches = g.watches[:end]
	if end > 0 {
		return
	}
	delete(n.groups, w.prefix)
	i, _ := n.find(len(w.prefix))
	if n.lengths[i].groups--; n.lengths[i].groups == 0 {
		n.lengths = slices.Delete(n.lengths, i, i+1)
	}
}

func (n *interest) find(bytes int) (int, bool) {
	return slices.BinarySearchFunc(n.lengths, bytes, func(l length, bytes int) int { return l.bytes - bytes })
}

// each calls f once for every group that follows one of the events; whole tells
// that it follows all of them.
func (n *interest) each(events []store.Event, f func(g *group, whole bool)) {
	for i := range events {
		key := events[i].Key
		for _, l := range n.lengths {
			if l.bytes > len(key) {
				break
			}
			g := n.groups[key[:l.bytes]]
			if g == nil {
				continue
			}
			if g.matched == 0 {
				n.touched = append(n.touched, g)
			}
			g.matched++
		}
	}
	for i, g := range n.touched {
		whole := g.matched == len(events)
		g.matched = 0
		f(g, whole)
		n.touched[i] = nil
	}
	n.touched = n.touched[:0]
}
