package controller

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/follow"
	"github.com/nslifecycle/nslifecycle/namespace/internal/priority"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// entry is the state of one terminating namespace.
type entry struct {
	ref         namespace.Ref
	deleted     time.Time     // when it became Terminating, once known
	next        *entry        // in the queue of its lane
	attempt     *attempt      // while running
	wait        *wait         // for content to go, while idle
	last        snapshot      // of the report of its last pass
	due         time.Duration // when its timer fires
	best        distance      // the smallest after a pass in which every source answered
	bestPartial distance      // the smallest after another pass
	logged      uint64        // the state that was logged last
	patience    time.Duration // of its next pass, and in hung its allowance there; zero: the default
	slot        int32         // in the timers
	listing     uint32        // the last listing that contained it
	failures    int32         // passes since the last progress
	state       state
	lane        uint8 // for its next pass: ready, retry or hung
	dirty       bool  // an event arrived during the pass
	woken       bool  // the end of a wait started the pass
	removed     bool  // a pass removed it; the watch has not reported that yet
	absent      bool  // the watch reported its removal
}

type state uint8

const (
	idle    state = iota // its timer, the end of its wait, or an event enqueues it
	queued               // in the queue of its lane
	running              // in a pass
	foreign              // belongs to another controller ([Division])
)

func newEntry(ref namespace.Ref, listing uint32) entry {
	return entry{ref: ref, listing: listing, best: farthest, bestPartial: farthest}
}

// loop is one Run. One goroutine owns it. The watch, the passes and the waits run in
// goroutines of their own and report over channels.
type loop struct {
	*Controller
	ctx       context.Context
	began     time.Time
	observer  observer
	catalog   catalog
	entries   map[string]*entry
	timers    *priority.Queue[*entry]
	lanes     [lanes]lane
	waits     list.List // of *wait, oldest first, without canceled ones
	waiting   int       // goroutines of waits, including canceled ones
	listing   uint32    // the number of the last listing
	division  Division
	redivided <-chan struct{} // closed when the division has changed

	tasks   sync.WaitGroup
	updates chan follow.Update
	ended   chan ending
	woken   chan *wait
}

func newLoop(ctx context.Context, c *Controller) *loop {
	l := &loop{
		Controller: c,
		ctx:        ctx,
		began:      time.Now(),
		observer:   observer{hooks: c.options.Hooks, log: c.options.Logger, panicked: map[string]bool{}},
		division:   c.options.Division,
		entries:    map[string]*entry{},
		timers:     priority.New(func(a, b *entry) bool { return a.due < b.due }, func(e *entry) *int32 { return &e.slot }),
		updates:    make(chan follow.Update),
		ended:      make(chan ending),
		woken:      make(chan *wait),
	}
	l.setLimits()
	return l
}

func (l *loop) now() time.Duration { return time.Since(l.began) }

// run schedules until ctx ends, and then until everything that it started has ended.
func (l *loop) run() {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	l.ctx = ctx
	if host, ok := l.namespaces.(pass.HostParty); ok && host.Party().Finalizer != l.party.Finalizer {
		l.observer.write(slog.LevelInfo, "this controller removes an additional finalizer; another process must remove the one that every namespace has",
			slog.String("finalizer", string(l.party.Finalizer)), slog.String("other", string(host.Party().Finalizer)))
	}
	l.tasks.Go(func() {
		follow.Run(ctx, follow.Options{
			Watch:   l.namespaces.Terminating,
			Backoff: l.backoff,
			Resync:  l.options.Resync,
		}, l.updates)
	})
	l.watchDivision()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(l.untilDue())
		select {
		case u := <-l.updates:
			l.update(u)
		case end := <-l.ended:
			l.finish(end)
		case w := <-l.woken:
			l.waitEnded(w)
		case <-l.redivided:
			l.divide()
		case <-timer.C:
			l.fire()
		case <-ctx.Done():
			continue
		}
		l.dispatch()
	}
	l.drain()
}

// drain waits for everything that runs. It reports the passes that end.
func (l *loop) drain() {
	drained := make(chan struct{})
	go func() {
		l.tasks.Wait()
		close(drained)
	}()
	for {
		select {
		case end := <-l.ended:
			l.report(end)
		case <-l.woken:
		case <-drained:
			return
		}
	}
}

// untilDue returns the time until the first timer fires.
func (l *loop) untilDue() time.Duration {
	if first, ok := l.timers.First(); ok {
		return first.due - l.now()
	}
	return math.MaxInt64
}

func (l *loop) setTimer(e *entry, due time.Duration) {
	e.due = due
	l.timers.Set(e)
}

// fire handles the timers that are due.
func (l *loop) fire() {
	now := l.now()
	for {
		e, ok := l.timers.First()
		if !ok || e.due > now {
			return
		}
		l.timers.Remove(e)
		if e.state == idle {
			l.enqueue(e)
		} else {
			l.attemptDue(e.attempt)
		}
	}
}

// update handles an update of the watch.
func (l *loop) update(u follow.Update) {
	switch u.Kind {
	case follow.Listing:
		l.listing++
	case follow.Item, follow.Change:
		ref := namespace.Ref{Name: u.Event.Name, UID: u.Event.UID}
		switch u.Event.Type {
		case namespace.EventPresent:
			l.handlePresent(ref, u.Kind == follow.Item)
		case namespace.EventAbsent:
			if e := l.entries[ref.Name]; e != nil && e.ref == ref {
				l.handleAbsent(e)
			}
		}
	case follow.Complete:
		for _, e := range l.entries {
			if e.listing != l.listing {
				l.handleAbsent(e)
			}
		}
	case follow.Lost:
		l.observer.write(slog.LevelWarn, "the watch of terminating namespaces failed; it will be resumed", slog.Any("err", u.Err))
	case follow.Resumed:
		l.observer.write(slog.LevelInfo, "the watch of terminating namespaces works again")
	}
}

// handlePresent handles the event, or with listed the listing item, that ref is terminating.
//
//	the entry is                           effect
//	missing                                add and enqueue it
//	another incarnation, in a pass         remove that one; enqueue ref after the pass
//	another incarnation, not in a pass     remove that one; add and enqueue ref
//	removed by a pass                      none: the event is older than the pass
//	absent, in a pass                      not absent: the listing without it was stale. Another pass follows
//	listed, and in a pass or delayed       none: a listing keeps the backoff
//	in a pass                              another pass follows
//	idle                                   enqueue it in ready
//	queued or foreign                      none
func (l *loop) handlePresent(ref namespace.Ref, listed bool) {
	e := l.entries[ref.Name]
	if e != nil && e.ref != ref && e.state != running {
		l.handleAbsent(e)
		e = nil
	}
	if e == nil {
		added := newEntry(ref, l.listing)
		l.entries[ref.Name] = &added
		if l.enqueue(&added); added.state == queued {
			l.observer.write(slog.LevelInfo, "namespace is terminating", slog.String("namespace", ref.Name), slog.String("uid", ref.UID))
		}
		return
	}
	if listed {
		e.listing = l.listing
	}
	switch {
	case e.ref != ref:
		l.handleAbsent(e)
		replacement := newEntry(ref, l.listing)
		replacement.state, replacement.attempt, replacement.slot, replacement.due = e.state, e.attempt, e.slot, e.due
		*e = replacement
	case e.removed:
	case e.absent:
		e.absent, e.dirty = false, true
		if e.attempt.ref == e.ref {
			e.attempt.orphaned = false
		}
	case listed && (e.state == running || e.slot != 0):
	case e.state == running:
		e.dirty = true
	case e.state == idle:
		e.lane = ready
		l.enqueue(e)
	}
}

// errOrphaned is the cancellation cause of a pass whose namespace is gone.
var errOrphaned = errors.New("the namespace is gone")

// handleAbsent handles the event that e was removed from storage. It cancels a pass for e
// after Long: until then the pass, which may have removed the namespace, can end by itself.
func (l *loop) handleAbsent(e *entry) {
	reported := e.removed || e.absent
	e.absent = true
	if e.state == running && e.attempt.ref == e.ref {
		e.attempt.orphaned = true
		l.setTimer(e, l.now()+l.options.Long)
		return
	}
	switch {
	case reported:
	case e.state == foreign:
		l.observer.removed(e.ref) // its own controller logs it
	default:
		l.observer.logRemoved(e.ref, nil)
	}
	if e.state != running {
		l.forget(e)
	}
}

func (l *loop) forget(e *entry) {
	l.cancelWait(e)
	l.timers.Remove(e)
	delete(l.entries, e.ref.Name)
	if len(l.entries) == 0 {
		l.catalog = catalog{}
	}
}

// enqueue appends e to the queue of its lane, if e belongs to this controller.
func (l *loop) enqueue(e *entry) {
	l.cancelWait(e)
	l.timers.Remove(e)
	if !l.owns(e) {
		l.release(e)
		return
	}
	e.state = queued
	l.lanes[e.lane].push(e)
	l.observer.queued(e.ref)
}

// owns reports whether e belongs to this controller.
func (l *loop) owns(e *entry) bool {
	owned := true
	l.callDivision("Division.Owns", func(d Division) { owned = d.Owns(e.ref.Name) })
	return owned
}

// watchDivision requests notice of the next change. It must be called before the division
// is asked for owners, so that no change is missed.
func (l *loop) watchDivision() {
	l.redivided = nil
	l.callDivision("Division.Changed", func(d Division) { l.redivided = d.Changed() })
}

// callDivision calls f with the division, if there is one. After a panic there is none, and
// all namespaces are taken.
func (l *loop) callDivision(method string, f func(Division)) {
	d := l.division
	if d == nil {
		return
	}
	l.division = nil
	l.observer.call(method, func() {
		f(d)
		l.division = d
	})
	if l.division == nil {
		redivided := make(chan struct{})
		close(redivided)
		l.redivided = redivided
	}
}

// release leaves e to another controller. It keeps none of the state that e has learned,
// which will be outdated when e comes back.
func (l *loop) release(e *entry) {
	l.cancelWait(e)
	l.timers.Remove(e)
	released := newEntry(e.ref, e.listing)
	released.state, released.logged = foreign, e.logged
	*e = released
	l.observer.released(e.ref)
}

// divide takes and releases entries after a change of the division. A queued entry is
// checked when its pass is about to begin, and a running one after its pass.
func (l *loop) divide() {
	l.watchDivision()
	taken, left := 0, 0
	for _, e := range l.entries {
		switch {
		case e.removed || e.absent:
		case e.state == foreign && l.owns(e):
			e.state = idle
			l.enqueue(e)
			taken++
		case e.state == idle && !l.owns(e):
			l.release(e)
			left++
		}
	}
	if taken+left > 0 {
		l.observer.write(slog.LevelInfo, "the division of namespaces changed", slog.Int("taken", taken), slog.Int("left", left))
	}
}
