package controller

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// entry is what a controller knows of one namespace that is terminating.
type entry struct {
	ref        namespace.Ref
	deleted    time.Time // when it became Terminating
	next       *entry    // in the queue of its lane
	attempt    *attempt  // while it runs
	notice     *notice   // while it waits for content to go
	remembered remembered
	due        time.Duration // when its timer fires
	nearest    distance      // the shortest that a full look saw
	clouded    distance      // the shortest that a pass saw that failed in part
	told       uint64        // the state that was logged last
	slot       int32         // in the timers; -1: none
	listing    uint32        // the last listing that had it
	state      state
	allowance  time.Duration // of its next pass; zero: the default
	tries      uint8         // without progress
	lane       uint8         // for its next pass: ready, retry or hung
	dirty      bool          // an event arrived during the pass
	woken      bool          // a notice started the pass
	removed    bool          // a pass found it removed from storage; the watch event is pending
	forgotten  bool          // the watch reported its removal from storage
}

// errNoReturn is what became of a call that ended its goroutine ([runtime.Goexit]).
var errNoReturn = errors.New("the host's code ended its goroutine instead of returning")

type state uint8

const (
	resting state = iota // until its timer, a notice or an event
	queued
	running
	foreign // another controller's, see [Division]
)

// loop is one run of a controller. One goroutine owns all of it; passes, waits and
// the watch run in goroutines of their own and report over channels.
type loop struct {
	*Controller
	ctx      context.Context
	began    time.Time
	observer observer
	catalog  catalog
	entries  map[string]*entry
	timers   timers
	lanes    [lanes]lane
	notices  list.List // of *notice: those that have not ended, oldest first
	waits    int       // goroutines that wait
	passes   int       // goroutines that run a pass
	listing  uint32    // the number of the last listing
	division Division
	moved    <-chan struct{} // closed when the division has changed since it was asked; nil: there is none
	lost     bool            // the watch is lost, and that was logged

	news chan news
	done chan done
	woke chan *notice
}

// done is the end of a pass.
type done struct {
	attempt *attempt
	result  pass.Result
	err     error
	took    time.Duration
}

func newLoop(ctx context.Context, c *Controller) *loop {
	l := &loop{
		Controller: c,
		ctx:        ctx,
		began:      time.Now(),
		observer:   observer{hooks: c.options.Hooks, log: c.options.Logger, panicked: map[string]bool{}},
		division:   c.options.Division,
		entries:    map[string]*entry{},
		news:       make(chan news),
		done:       make(chan done),
		woke:       make(chan *notice),
	}
	l.setLimits()
	return l
}

func (l *loop) now() time.Duration { return time.Since(l.began) }

// run schedules until ctx ends, and then until everything that it started has
// ended.
func (l *loop) run() {
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithCancel(l.ctx)
	if host, ok := l.namespaces.(pass.Primary); ok && host.Party().Finalizer != l.party.Finalizer {
		l.observer.line(slog.LevelInfo, "an additional party: another process must remove the finalizer that every namespace has",
			slog.String("finalizer", string(l.party.Finalizer)), slog.String("every namespace has", string(host.Party().Finalizer)))
	}
	watching := make(chan struct{})
	w := watcher{namespaces: l.namespaces, tell: l.news, delays: l.delays, resync: l.options.Resync}
	go func() {
		defer close(watching)
		w.run(l.ctx)
	}()
	defer func() {
		if l.ctx.Err() == nil {
			// A hook has ended this goroutine instead of returning.
			l.observer.hooks = nil
		}
		cancel()
		l.drain(watching)
	}()
	l.heed()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	armed := time.Duration(math.MaxInt64)
	for l.ctx.Err() == nil {
		if due, ok := l.timers.next(); ok && due != armed {
			armed = due
			timer.Reset(max(0, due-l.now()))
		}
		select {
		case n := <-l.news:
			l.heard(n)
		case d := <-l.done:
			l.finish(d)
		case n := <-l.woke:
			l.noticed(n)
		case <-l.moved:
			l.divide()
		case <-timer.C:
			armed = math.MaxInt64
			l.fire()
		case <-l.ctx.Done():
			continue
		}
		l.dispatch()
	}
}

// drain waits for everything that runs. Passes that end are still told of.
func (l *loop) drain(watching <-chan struct{}) {
	for l.passes > 0 || l.waits > 0 || watching != nil {
		select {
		case d := <-l.done:
			l.passes--
			l.report(d)
		case <-l.woke:
			l.waits--
		case <-watching:
			watching = nil
		}
	}
}

// fire takes up the entries that are due.
func (l *loop) fire() {
	now := l.now()
	for e := l.timers.pop(now); e != nil; e = l.timers.pop(now) {
		switch {
		case e.state == resting:
			l.unwait(e)
			l.enqueue(e)
		case e.attempt.orphaned:
			e.attempt.interrupt(errOrphaned)
		case e.attempt.lane == nil:
		case e.attempt.lane == &l.lanes[ready] && !e.attempt.old:
			e.attempt.old = true
			e.attempt.lane.old = append(e.attempt.lane.old, e.attempt)
			fallthrough
		default:
			l.supervise(e.attempt)
		}
	}
}

// enqueue appends e to the queue of its lane, if this controller owns it. Its timer
// must not be set.
func (l *loop) enqueue(e *entry) {
	if !l.owns(e) {
		l.leave(e)
		return
	}
	e.state = queued
	l.lanes[e.lane].push(e)
	l.observer.queued(e.ref)
}

// rouse makes e run soon, whatever it waits for.
func (l *loop) rouse(e *entry) {
	switch e.state {
	case running:
		e.dirty = true
	case resting:
		l.unwait(e)
		l.timers.remove(e)
		e.lane = ready
		l.enqueue(e)
	}
}

// start begins a pass for e in lane s.
func (l *loop) start(e *entry, s *lane) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	a := &attempt{entry: e, ref: e.ref, lane: s, cancel: cancel, began: l.now(), allowance: l.options.Long}
	if s == &l.lanes[hung] {
		a.allowance = max(a.allowance, e.allowance)
	}
	a.progress.Store(int64(a.began))
	e.state, e.attempt, e.dirty = running, a, false
	l.passes++
	if s == &l.lanes[ready] {
		l.timers.set(e, a.began+l.options.Long)
	} else {
		l.supervise(a)
	}
	request := pass.Request{
		Name:     e.ref.Name,
		UID:      e.ref.UID,
		Previous: l.catalog.recall(e.ref.UID, e.remembered),
		Patience: max(e.allowance, l.options.Patience),
	}
	ctx = deleter.WithTrace(ctx, &deleter.Trace{End: func(_ context.Context, _ deleter.Call, result deleter.CallResult) {
		if result.Err == nil {
			a.progress.Store(int64(l.now()))
		}
	}})
	go func() {
		d := done{attempt: a, result: pass.Result{Outcome: pass.Failed}, err: errNoReturn}
		ctx := l.observer.started(ctx, a.ref)
		defer func() {
			d.took = l.now() - a.began
			l.observer.ended(ctx, a.ref, d)
			l.done <- d
		}()
		d.result, d.err = pass.Run(ctx, l.namespaces, l.deleter, l.party, request)
	}()
}
