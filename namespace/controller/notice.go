package controller

import (
	"container/list"
	"context"
	"runtime/debug"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// notice is one wait for content to go: for the moment at which another pass is
// worth while. The timer of its entry runs beside it.
type notice struct {
	entry  *entry
	cancel context.CancelFunc
	floor  time.Duration // the next pass does not begin before
	futile bool          // the notice before it led to nothing
	err    error         // how the wait ended
	place  *list.Element // in loop.notices
}

// await begins to wait for content of e to go, which report saw last. When too many
// wait already the longest wait is given up instead, so that its room is there for
// the next one: what has not gone for long is the least likely to go soon.
func (l *loop) await(e *entry, report deleter.Report, floor time.Duration, futile bool) {
	if l.waiter == nil || report.Remaining() <= 0 {
		return
	}
	if l.waits >= l.options.Waits {
		if longest := l.notices.Front(); longest != nil {
			l.unwait(longest.Value.(*notice).entry)
		}
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	n := &notice{entry: e, cancel: cancel, floor: floor, futile: futile}
	e.notice = n
	l.waits++
	n.place = l.notices.PushBack(n)
	target := deleter.Target{Namespace: e.ref.Name, UID: e.ref.UID, DeletedAt: e.deleted}
	go func() {
		defer cancel()
		n.err = errNoReturn
		defer func() { l.woke <- n }()
		n.err = wait(ctx, l.waiter, target, report.Compact())
	}()
}

// wait is w.Wait whose panic is an error.
func wait(ctx context.Context, w deleter.Waiter, target deleter.Target, report deleter.Report) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &deleter.PanicError{In: "the deleter's wait", Value: v, Stack: debug.Stack()}
		}
	}()
	return w.Wait(ctx, target, report)
}

// unwait ends the wait of e, if there is one.
func (l *loop) unwait(e *entry) {
	if e.notice != nil {
		e.notice.cancel()
		l.notices.Remove(e.notice.place)
		e.notice = nil
	}
}

// noticed takes up the end of a wait. One that failed leaves the rest to the timer.
func (l *loop) noticed(n *notice) {
	l.waits--
	e := n.entry
	if e.notice != n {
		return
	}
	l.unwait(e)
	if n.err != nil || e.state != resting {
		return
	}
	e.woken = true
	if !n.futile {
		e.lane = ready
	}
	if n.floor > l.now() {
		l.timers.set(e, min(n.floor, e.due))
		return
	}
	l.timers.remove(e)
	l.enqueue(e)
}
