package controller

import (
	"errors"
	"log/slog"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// errOrphaned is why a pass for a namespace that is gone was ended.
var errOrphaned = errors.New("the namespace is gone")

// heard takes up what the watcher tells.
func (l *loop) heard(n news) {
	if n.lost != nil {
		if !l.lost {
			l.observer.line(slog.LevelWarn, "watch of terminating namespaces lost", slog.Any("err", n.lost))
		}
		l.lost = true
		return
	}
	if n.anew {
		l.listing++
		return
	}
	ref := namespace.Ref{Name: n.event.Name, UID: n.event.UID}
	switch n.event.Type {
	case namespace.EventTerminating:
		l.terminating(ref, n.listing)
	case namespace.EventRemoved:
		if e := l.entries[ref.Name]; e != nil && e.ref == ref {
			l.drop(e)
		}
	case namespace.EventSynced:
		if n.listing {
			l.sweep()
		}
		if l.lost {
			l.lost = false
			l.observer.line(slog.LevelInfo, "watch of terminating namespaces resumed")
		}
	}
}

// terminating takes up that a namespace is terminating.
func (l *loop) terminating(ref namespace.Ref, listing bool) {
	e := l.entries[ref.Name]
	if e == nil {
		e = &entry{ref: ref, slot: -1, nearest: farthest, clouded: farthest, listing: l.listing}
		l.entries[ref.Name] = e
		if l.enqueue(e); e.state == queued {
			l.observer.line(slog.LevelInfo, "namespace is terminating", slog.String("namespace", ref.Name), slog.String("uid", ref.UID))
		}
		return
	}
	if listing {
		e.listing = l.listing
	}
	switch {
	case e.ref.UID != ref.UID:
		l.drop(e)
		if l.entries[ref.Name] == nil {
			l.terminating(ref, listing)
			return
		}
		*e = entry{ref: ref, attempt: e.attempt, state: e.state, slot: e.slot, due: e.due, nearest: farthest, clouded: farthest, listing: l.listing}
	case e.removed:
		// Told of late.
	case e.forgotten:
		// It is there after all: the listing that did not have it was behind. What is
		// forgotten and still known has a pass under way.
		e.forgotten, e.dirty = false, true
		if e.attempt.ref == e.ref {
			e.attempt.orphaned = false
		}
	case listing && (e.state == running || e.slot >= 0):
		// It is known and keeps its backoff. The next listing finds any change that a
		// running pass has missed.
	default:
		l.rouse(e)
	}
}

// drop takes up that the incarnation of e is gone from storage.
func (l *loop) drop(e *entry) {
	told := e.removed || e.forgotten
	e.forgotten = true
	if e.state == running && e.attempt.ref == e.ref {
		// The pass will find out by itself, and may be the one that did it; only one
		// that runs long is ended.
		e.attempt.orphaned = true
		l.timers.set(e, l.now()+l.options.Long)
		return
	}
	switch {
	case told:
	case e.state == foreign:
		l.observer.gone(e.ref) // its own controller logs it
	default:
		l.observer.removed(e.ref, nil)
	}
	if e.state != running {
		l.unwait(e)
		l.timers.remove(e)
		l.forget(e)
	}
}

func (l *loop) forget(e *entry) {
	delete(l.entries, e.ref.Name)
	if len(l.entries) == 0 {
		l.catalog = catalog{}
	}
}

// sweep drops the entries that a complete listing did not have.
func (l *loop) sweep() {
	for _, e := range l.entries {
		if e.listing != l.listing {
			l.drop(e)
		}
	}
}
