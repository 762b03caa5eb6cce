package watch

import (
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
)

// Filter returns c with only the events whose keys start with prefix, and reports whether any
// are left. If all are left, the result shares the events of c.
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

// sizeOf estimates the memory of c. The events themselves dominate a transaction of many small
// operations.
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

// prefixIndex finds the watches that follow a key. It looks up the prefixes of the key that have
// a length in use, so the number of watches does not matter. The hub's lock guards it.
type prefixIndex struct {
	groups  map[string]*group
	lengths []length // of the prefixes in groups, ascending
	matched []*group // scratch of match
}

// length counts the groups with prefixes of one length.
type length struct{ bytes, groups int }

// group holds the watches of one prefix.
type group struct {
	prefix  string
	watches []*loop
	events  int // of the change that match looks at
}

// add adds w to the group of its prefix.
func (x *prefixIndex) add(w *loop) {
	g := x.groups[w.prefix]
	if g == nil {
		g = &group{prefix: w.prefix}
		x.groups[w.prefix] = g
		i, ok := x.find(len(w.prefix))
		if !ok {
			x.lengths = slices.Insert(x.lengths, i, length{bytes: len(w.prefix)})
		}
		x.lengths[i].groups++
	}
	w.index = len(g.watches)
	g.watches = append(g.watches, w)
}

// remove removes w, and its group if it was the last member.
func (x *prefixIndex) remove(w *loop) {
	g := x.groups[w.prefix]
	end := len(g.watches) - 1
	moved := g.watches[end]
	g.watches[w.index], moved.index = moved, w.index
	g.watches[end] = nil
	g.watches = g.watches[:end]
	if end > 0 {
		return
	}
	delete(x.groups, w.prefix)
	i, _ := x.find(len(w.prefix))
	if x.lengths[i].groups--; x.lengths[i].groups == 0 {
		x.lengths = slices.Delete(x.lengths, i, i+1)
	}
}

func (x *prefixIndex) find(bytes int) (int, bool) {
	return slices.BinarySearchFunc(x.lengths, bytes, func(l length, bytes int) int { return l.bytes - bytes })
}

// match calls f once for each group that follows at least one of the events. all reports
// whether the group follows all of them.
func (x *prefixIndex) match(events []store.Event, f func(g *group, all bool)) {
	if len(x.groups) == 0 {
		return
	}
	for i := range events {
		key := events[i].Key
		for _, l := range x.lengths {
			if l.bytes > len(key) {
				break
			}
			g := x.groups[key[:l.bytes]]
			if g == nil {
				continue
			}
			if g.events == 0 {
				x.matched = append(x.matched, g)
			}
			g.events++
		}
	}
	for i, g := range x.matched {
		all := g.events == len(events)
		g.events = 0
		f(g, all)
		x.matched[i] = nil
	}
	x.matched = x.matched[:0]
}
