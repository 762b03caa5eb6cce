package controller

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A share is a part of the workers and the entries that wait for one of them.
type share struct {
	limit   int
	running int
	head    *entry // of the queue, linked by entry.next
	tail    *entry
	length  int
	overdue []*attempt // run longer than Options.Long here, oldest first
	leaving int        // were interrupted and have not ended yet
}

// The shares, by the reason for which a namespace is looked at.
const (
	fresh  = iota // new, or got on in its last pass
	sick          // did not get on in its last pass
	long          // its passes run long
	shares        // how many there are
)

// errMakeRoom is why a long pass was interrupted.
var errMakeRoom = errors.New("the pass runs long and others wait")

// attempt is one pass under way.
type attempt struct {
	entry       *entry
	ref         Ref // of the incarnation that it is for
	share       *share
	cancel      context.CancelCauseFunc
	began       time.Duration
	interrupted bool // to make room
	orphaned    bool // its incarnation is gone
}

func (s *share) push(e *entry) {
	if s.tail == nil {
		s.head = e
	} else {
		s.tail.next = e
	}
	s.tail = e
	s.length++
}

// pop returns the entry that waits longest, or nil. Entries that were dropped
// meanwhile are passed over.
func (s *share) pop() *entry {
	for s.head != nil {
		e := s.head
		s.head, e.next = e.next, nil
		if s.head == nil {
			s.tail = nil
		}
		s.length--
		if !e.forgotten {
			return e
		}
	}
	return nil
}

// leave takes a pass that ended out of the share.
func (s *share) leave(a *attempt) {
	s.running--
	if a.interrupted {
		s.leaving--
	}
	s.overdue = slices.DeleteFunc(s.overdue, func(o *attempt) bool { return o == a })
}

// dispatch starts what may start.
func (l *loop) dispatch() {
	l.fill(&l.shares[long])
	l.promote()
	for i := range l.shares[:long] {
		s := &l.shares[i]
		l.fill(s)
		for s.length > s.leaving && len(s.overdue) > 0 {
			a := s.overdue[0]
			s.overdue = s.overdue[1:]
			s.leaving++
			a.interrupted = true
			a.cancel(errMakeRoom)
		}
	}
}

func (l *loop) fill(s *share) {
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

// promote moves overdue passes to the share of the long ones while there is room.
func (l *loop) promote() {
	target := &l.shares[long]
	for i := range l.shares[:long] {
		s := &l.shares[i]
		for target.running < target.limit && len(s.overdue) > 0 {
			a := s.overdue[0]
			s.overdue = s.overdue[1:]
			s.running--
			target.running++
			a.share = target
		}
	}
}
