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
//	lane   passes                                                    limit        one that makes room
//	ready  of namespaces that are new or made progress last time,    Workers      has run for Long: it moves to long
//	       for no more than Long
//	long   that began in ready and have run for Long                 half Parked  has made no progress for Long
//	retry  of namespaces that made none last time                    half Parked  has made no progress for its allowance
//
// A pass makes room only for one that waits for its place. The one without progress for
// the longest time is interrupted and queued for retry; each time its namespace's
// allowance doubles, up to MaxPatience. An interrupted pass no longer counts, also
// where its source ignores the end of its context.
//
// Therefore: a namespace in the queue of ready waits for no pass that makes no
// progress, except during the first Long of it. Behind n others it starts within
// (n/Workers + 1) * Long, as long as fewer than half of Parked are long and make
// progress. And no namespace waits for ever: places for retry are never taken by others.
const (
	ready = iota
	long
	retry
	lanes // how many there are
)

// lane is a part of the running passes and a queue of the entries that wait to join them.
type lane struct {
	limit   int
	running int
	head    *entry // of the queue, linked by entry.next
	tail    *entry
	idle    []*attempt // passes that make room when needed, the longest idle first
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
		for len(first.idle) > 0 && aside.running < aside.limit {
			l.moveAside(first.idle[0])
		}
		l.fill(first)
		if first.head == nil || len(first.idle) == 0 || !l.makeRoom(aside) {
			break
		}
	}
	l.fill(&l.lanes[retry])
	for l.lanes[retry].head != nil && l.makeRoom(&l.lanes[retry]) {
		l.fill(&l.lanes[retry])
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
	a.lane, a.allowance = &l.lanes[long], l.options.Long
	a.lane.running++
	l.supervise(a)
}

// supervise sets the timer for when a, which runs beside ready, will have made no progress for
// its allowance; if that time is over, it may be interrupted.
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
	a.lane.idle = slices.DeleteFunc(a.lane.idle, func(o *attempt) bool { return o == a })
	a.lane = nil
}
