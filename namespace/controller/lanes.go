package controller

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// A pass runs in one of four lanes, each with a queue and a limit:
//
//	lane   passes of namespaces                                  limit         interrupted without progress for
//	ready  that are new or made progress in their last pass      Workers       Long
//	long   whose pass began in ready and has run for Long        SlowWorkers / 2    Long
//	retry  whose last pass made no progress                      SlowWorkers / 8    Long
//	hung   whose last pass failed with no answer in its last Long the rest      their allowance, up to MaxPatience
//
// A pass that has run in ready for Long moves to long as soon as long has a free slot. A pass is
// interrupted only if another waits for its slot, or Long after its namespace was removed; the pass
// that stalled first in its lane goes first. It is queued for hung, and its namespace's allowance
// doubles. An interrupted pass frees its slot even if its source ignores the canceled context.
//
// Therefore a namespace waits at most Long for a pass without progress; only one in hung may wait
// longer. Behind n others in the queue of ready, it starts within (n/Workers + 1) * Long as long as
// fewer than half of SlowWorkers are long and make progress. No namespace starves: other lanes
// never use the slots of hung.
const (
	ready = iota
	long
	retry
	hung
	lanes // the number of lanes
)

// setLimits divides Workers and SlowWorkers between the lanes. Each lane gets at least one slot.
func (l *loop) setLimits() {
	workers, slow := l.options.Workers, l.options.SlowWorkers
	l.lanes[ready].limit = workers
	l.lanes[long].limit = slow / 2
	l.lanes[retry].limit = max(slow/8, 1)
	l.lanes[hung].limit = slow - l.lanes[long].limit - l.lanes[retry].limit
}

// lane is a bounded set of running passes with a queue of entries.
type lane struct {
	limit   int
	running int
	head    *entry // of the queue, linked by entry.next
	tail    *entry
	stalled []*attempt // passes without progress for their allowance, oldest first
	overdue []*attempt // in ready: passes that have run for Long, oldest first
}

// attempt is one running pass.
type attempt struct {
	entry       *entry
	ref         namespace.Ref // the incarnation
	lane        *lane         // nil: interrupted, no longer counted
	cancel      context.CancelCauseFunc
	began       time.Duration
	progress    atomic.Int64  // time of the last answer of a source, initially began
	allowance   time.Duration // time without progress after which others may take its slot
	overdue     bool          // has run for Long in ready
	interrupted bool          // to make room for another pass
	orphaned    bool          // the incarnation is gone
}

// ending is the end of a pass.
type ending struct {
	attempt *attempt
	result  pass.Result
	err     error
	took    time.Duration
}

func (s *lane) push(e *entry) {
	if s.tail == nil {
		s.head = e
	} else {
		s.tail.next = e
	}
	s.tail = e
}

// pop removes and returns the head of the queue, or nil. It skips entries that were removed
// while queued.
func (s *lane) pop() *entry {
	for s.head != nil {
		e := s.head
		s.head, e.next = e.next, nil
		if s.head == nil {
			s.tail = nil
		}
		if !e.absent {
			return e
		}
	}
	return nil
}

// dispatch starts every pass that may start.
func (l *loop) dispatch() {
	first, second := &l.lanes[ready], &l.lanes[long]
	for {
		for len(first.overdue) > 0 && second.running < second.limit {
			l.moveToLong(first.overdue[0])
		}
		l.fill(first)
		if first.head == nil || len(first.overdue) == 0 || !l.makeRoom(second) && !l.makeRoom(first) {
			break
		}
	}
	for _, s := range []*lane{&l.lanes[retry], &l.lanes[hung]} {
		l.fill(s)
		for s.head != nil && l.makeRoom(s) {
			l.fill(s)
		}
	}
}

// fill starts passes from the queue of s in its free slots.
func (l *loop) fill(s *lane) {
	for s.running < s.limit {
		e := s.pop()
		switch {
		case e == nil:
			return
		case l.owns(e):
			l.start(e, s)
		default:
			l.release(e)
		}
	}
}

func (l *loop) moveToLong(a *attempt) {
	a.vacate()
	a.lane = &l.lanes[long]
	a.lane.running++
	l.superviseProgress(a)
}

// superviseProgress sets a timer for the end of a's allowance. If the allowance is used up
// already, it marks a as stalled.
func (l *loop) superviseProgress(a *attempt) {
	if due := time.Duration(a.progress.Load()) + a.allowance; due > l.now() {
		l.setTimer(a.entry, due)
		return
	}
	a.lane.stalled = append(a.lane.stalled, a)
}

// attemptDue handles the timer of an entry in a pass.
func (l *loop) attemptDue(a *attempt) {
	switch {
	case a.orphaned:
		a.interrupt(errOrphaned)
		return
	case a.lane == nil:
		return
	case a.lane == &l.lanes[ready] && !a.overdue:
		a.overdue = true
		a.lane.overdue = append(a.lane.overdue, a)
	}
	l.superviseProgress(a)
}

// errMakeRoom is the cancellation cause of an interrupted pass.
var errMakeRoom = errors.New("the pass makes no progress and others wait")

// makeRoom interrupts the pass of s that is stalled longest. It reports whether there was
// one.
func (l *loop) makeRoom(s *lane) bool {
	for len(s.stalled) > 0 {
		a := s.stalled[0]
		if time.Duration(a.progress.Load())+a.allowance > l.now() {
			s.stalled = s.stalled[1:]
			l.superviseProgress(a)
			continue
		}
		a.interrupted = true
		a.interrupt(errMakeRoom)
		return true
	}
	return false
}

// interrupt cancels a and frees its slot.
func (a *attempt) interrupt(cause error) {
	a.vacate()
	a.cancel(cause)
}

// vacate removes a from its lane.
func (a *attempt) vacate() {
	if a.lane == nil {
		return
	}
	a.lane.running--
	same := func(o *attempt) bool { return o == a }
	a.lane.stalled, a.lane.overdue = slices.DeleteFunc(a.lane.stalled, same), slices.DeleteFunc(a.lane.overdue, same)
	a.lane = nil
}

// start begins a pass for e in lane s.
func (l *loop) start(e *entry, s *lane) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	a := &attempt{entry: e, ref: e.ref, lane: s, cancel: cancel, began: l.now(), allowance: l.options.Long}
	if s == &l.lanes[hung] {
		a.allowance = max(a.allowance, e.patience)
	}
	a.progress.Store(int64(a.began))
	s.running++
	e.state, e.attempt, e.dirty = running, a, false
	if s == &l.lanes[ready] {
		l.setTimer(e, a.began+l.options.Long)
	} else {
		l.superviseProgress(a)
	}
	request := pass.Request{
		Name:     e.ref.Name,
		UID:      e.ref.UID,
		Previous: l.catalog.restore(e.ref.UID, e.last),
		Patience: max(e.patience, l.options.Patience),
	}
	ctx = deleter.WithTrace(ctx, &deleter.Trace{End: func(_ context.Context, _ deleter.Call, result deleter.CallResult) {
		if result.Err == nil {
			a.progress.Store(int64(l.now()))
		}
	}})
	l.tasks.Go(func() {
		ctx := l.observer.started(ctx, a.ref)
		end := ending{attempt: a}
		end.result, end.err = pass.Run(ctx, l.namespaces, l.deleter, l.party, request)
		end.took = l.now() - a.began
		l.observer.ended(ctx, end)
		l.ended <- end
	})
}
