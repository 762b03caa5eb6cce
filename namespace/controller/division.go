package controller

import (
	"log/slog"
)

// Division divides the namespaces between controllers of one party. Where each is
// owned by one of them, N controllers do the work of one. Where two own a namespace
// for a while both work on it, which is safe (rule R11); one that nobody owns waits
// until somebody does. So a Division must come to give each namespace an owner, and
// tell when it has.
//
// Methods are called often, from the goroutine that schedules, and must be quick. One
// that panics is logged, and the division is not asked again in this run: the
// controller works on all namespaces then.
type Division interface {
	// Owns reports whether the namespace is this controller's now. It is asked before
	// each pass, so that a controller that has lost a namespace does not begin another.
	Owns(name string) bool
	// Changed returns a channel that is closed when Owns may answer otherwise than
	// before this call; nil: it never will. Then the controller asks for all
	// namespaces again, and takes up those that have become its own as if they were new.
	Changed() <-chan struct{}
}

// owns reports whether e is this controller's.
func (l *loop) owns(e *entry) bool {
	owned := true
	l.ask("Division.Owns", func(d Division) { owned = d.Owns(e.ref.Name) })
	return owned
}

// heed makes the loop wait for the next change of the division. It is called before
// the division is asked for names.
func (l *loop) heed() {
	l.moved = nil
	l.ask("Division.Changed", func(d Division) { l.moved = d.Changed() })
}

// ask calls f, a method of the division, if there is one.
func (l *loop) ask(method string, f func(Division)) {
	d := l.division
	if d == nil {
		return
	}
	l.division = nil // in case of a panic
	l.observer.call(method, func() {
		f(d)
		l.division = d
	})
	if l.division == nil { // take up everything
		moved := make(chan struct{})
		close(moved)
		l.moved = moved
	}
}

// leave lets go of e, which another controller finalizes: of what was learnt nothing
// is kept, since it will be old when e comes back.
func (l *loop) leave(e *entry) {
	l.unwait(e)
	l.timers.remove(e)
	*e = entry{ref: e.ref, slot: -1, nearest: farthest, clouded: farthest, listing: e.listing, state: foreign, told: e.told}
	l.observer.left(e.ref)
}

// divide asks the division for all namespaces again. What is queued is asked for when
// its turn comes, and what runs when it has ended.
func (l *loop) divide() {
	l.heed()
	taken, left := 0, 0
	for _, e := range l.entries {
		switch {
		case e.removed || e.forgotten:
			// It is gone from storage, and nobody's.
		case e.state == foreign && l.owns(e):
			e.state = resting
			l.enqueue(e)
			taken++
		case e.state == resting && !l.owns(e):
			l.leave(e)
			left++
		}
	}
	if taken+left > 0 {
		l.observer.line(slog.LevelInfo, "the division of namespaces has changed", slog.Int("taken", taken), slog.Int("left", left))
	}
}
