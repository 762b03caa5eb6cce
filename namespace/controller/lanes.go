package controller

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// The scheduler. A pass runs in one of three lanes:
//
//	lane   passes of namespaces                                  limit         interrupted without progress for
//	ready  that are new or made progress in their last pass      Workers       Long
//	long   whose pass began in ready and has run for Long        Parked / 2    Long
//	retry  whose sources answered, but without progress          Parked / 8    Long
//	hung   whose last pass ended without an answer for Long      the rest      their allowance, up to MaxPatience
//
// A pass that has run in ready for Long moves to long as soon as that has room. A pass is
// interrupted only if another waits for its place, the one without progress for the
// longest time first. It is queued for hung, and its namespace's allowance doubles. An
// interrupted pass no longer counts, also where its source ignores the end of its context.
//
// Therefore a namespace waits for passes that make no progress only until they have made none
// for Long, unless its own last pass ended so. In the queue of ready, behind n others, it
// starts within (n/Workers + 1) * Long as long as fewer than half of Parked are long and make
// progress. And no namespace waits for ever: places in hung are never taken by others.
const (
	ready = iota
	long
	retry
	hung
	lanes // how many there are
)

// setLimits divides Workers and Parked between the lanes; each has one place at least.
func (l *loop) setLimits() {
	workers, parked := l.options.Workers, l.options.Parked
	l.lanes[ready].limit = workers
	l.lanes[long].limit = parked / 2
	l.lanes[retry].limit = max(parked/8, 1)
	l.lanes[hung].limit = parked - l.lanes[long].limit - l.lanes[retry].limit
}

// lane is a part of the running passes and a queue of the entries that wait to join them.
type lane struct {
	limit   int
	running int
	head    *entry // of the queue, linked by entry.next
	tail    *entry
	idle    []*attempt // passes without progress for their allowance, the longest first
	old     []*attempt // of ready: passes that have run for Long, the longest first
}

// errMakeRoom is the cause for which a pass without progress is interrupted.
var errMakeRoom = errors.New("the pass makes no progress and others wait")

// attempt is one pass under way.
type attempt struct {
	entry       *entry
	ref         Ref   // of the incarnation that it is for
	lane        *lane // nil: it was interrupted and does not count any more
	cancel      context.CancelCauseFunc
	began       time.Duration
	progress    atomic.Int64  // when a source last answered; until then began
	allowance   time.Duration // how long it may go without progress while others wait
	old         bool          // it has run for Long
	interrupted bool          // to make room
	orphaned    bool          // its incarnation is gone
}

func (s *lane) push(e *entry) {
	if s.tail == nil {
		s.head = e
	} else {
		s.tail.next = e
	}
	s.tail = e
}

// pop returns the entry that waits longest, or nil. Entries that were dropped
// meanwhile are skipped.
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
		l.observer.started(e.ref)
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

// supervise sets the timer for when a will have made no progress for its allowance; if that
// time is over, it may be interrupted.
func (l *loop) supervise(a *attempt) {
	if due := time.Duration(a.progress.Load()) + a.allowance; due > l.now() {
		l.timers.set(a.entry, due)
		return
	}
	a.lane.idle = append(a.lane.idle, a)
}

// makeRoom interrupts a pass of s that makes no progress and reports whether there was one.
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

// interrupt ends the context of a and vacates its place.
func (a *attempt) interrupt(cause error) {
	a.vacate()
	a.cancel(cause)
}

// vacate takes a out of its lane.
func (a *attempt) vacate() {
	if a.lane == nil {
		return
	}
	a.lane.running--
	same := func(o *attempt) bool { return o == a }
	a.lane.idle, a.lane.old = slices.DeleteFunc(a.lane.idle, same), slices.DeleteFunc(a.lane.old, same)
	a.lane = nil
}
