package controller

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// The scheduler. A pass runs in one of three lanes:
//
//	lane   passes of namespaces                                  limit         interrupted without progress for
//	ready  that are new or made progress in their last pass      Workers       Long
//	long   whose pass began in ready and has run for Long        Parked / 2    Long
//	retry  whose sources answered, but without progress          Parked / 8    Long
//	hung   whose last pass ended without an answer for Long      the rest      their allowance, up to MaxPatience
//
// A pass that has run in ready for Long moves to long as soon as long has a free slot. A pass
// is interrupted only if another waits for its slot; the pass longest without progress goes
// first. It is queued for hung, and its namespace's allowance doubles. An interrupted pass
// frees its slot even if its source ignores the canceled context.
//
// Therefore a pass without progress delays a namespace for at most Long, unless the
// namespace's own last pass ended without an answer for Long. Behind n others in the queue of ready, it starts
// within (n/Workers + 1) * Long as long as fewer than half of Parked are long and make
// progress. No namespace starves: other lanes never use the slots of hung.
const (
	ready = iota
	long
	retry
	hung
	lanes // the number of lanes
)

// setLimits divides Workers and Parked between the lanes. Each lane gets at least one slot.
func (l *loop) setLimits() {
	workers, parked := l.options.Workers, l.options.Parked
	l.lanes[ready].limit = workers
	l.lanes[long].limit = parked / 2
	l.lanes[retry].limit = max(parked/8, 1)
	l.lanes[hung].limit = parked - l.lanes[long].limit - l.lanes[retry].limit
}

// lane is a bounded set of running passes with a queue of waiting entries.
type lane struct {
	limit   int
	running int
	head    *entry // of the queue, linked by entry.next
	tail    *entry
	idle    []*attempt // passes without progress for their allowance, oldest first
	old     []*attempt // in ready: passes that have run for Long, oldest first
}

// errMakeRoom is the cancellation cause of an interrupted pass.
var errMakeRoom = errors.New("the pass makes no progress and others wait")

// attempt is one running pass.
type attempt struct {
	entry       *entry
	ref         namespace.Ref // the incarnation
	lane        *lane         // nil: interrupted, no longer counted
	cancel      context.CancelCauseFunc
	began       time.Duration
	progress    atomic.Int64  // time of the last answer of a source, initially began
	allowance   time.Duration // time without progress after which others may take its slot
	old         bool          // ran for Long
	interrupted bool          // to make room
	orphaned    bool          // the incarnation was removed
}

func (s *lane) push(e *entry) {
	if s.tail == nil {
		s.head = e
	} else {
		s.tail.next = e
	}
	s.tail = e
}

// pop removes and returns the head of the queue, or nil. It skips entries that were
// forgotten while queued.
func (s *lane) pop() *entry {
	for s.head != nil {
		e := s.head
		s.head, e.next = e.next, nil
		if s.head == nil {
			s.tail = nil
		}
		if !e.forgotten {
			return e
		}
	}
	return nil
}

// dispatch starts every pass that may start.
func (l *loop) dispatch() {
	first, aside := &l.lanes[ready], &l.lanes[long]
	for {
		for len(first.old) > 0 && aside.running < aside.limit {
			l.moveAside(first.old[0])
		}
		l.fill(first)
		if first.head == nil || len(first.old) == 0 || !l.makeRoom(aside) && !l.makeRoom(first) {
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

func (l *loop) fill(s *lane) {
	for s.running < s.limit {
		e := s.pop()
		if e == nil {
			return
		}
		if !l.owns(e) {
			l.leave(e)
			continue
		}
		s.running++
		l.start(e, s)
	}
}

func (l *loop) moveAside(a *attempt) {
	a.vacate()
	a.lane = &l.lanes[long]
	a.lane.running++
	l.supervise(a)
}

// supervise sets a timer for the end of a's allowance. If the allowance is used up already,
// it marks a as interruptible.
func (l *loop) supervise(a *attempt) {
	if due := time.Duration(a.progress.Load()) + a.allowance; due > l.now() {
		l.timers.set(a.entry, due)
		return
	}
	a.lane.idle = append(a.lane.idle, a)
}

// makeRoom interrupts a pass of s that makes no progress. It reports whether it found one.
func (l *loop) makeRoom(s *lane) bool {
	for len(s.idle) > 0 {
		a := s.idle[0]
		if time.Duration(a.progress.Load())+a.allowance > l.now() {
			s.idle = s.idle[1:]
			l.supervise(a)
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
	a.lane.idle, a.lane.old = slices.DeleteFunc(a.lane.idle, same), slices.DeleteFunc(a.lane.old, same)
	a.lane = nil
}
