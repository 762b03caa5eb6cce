package controller

import (
	"container/list"
	"context"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// wait is one call to [deleter.Waiter.Wait]: it ends when content is gone and another pass
// is worthwhile. The timer of its entry runs beside it.
type wait struct {
	entry   *entry
	cancel  context.CancelFunc
	floor   time.Duration // earliest time for the next pass
	doubted bool          // the wait before it started a pass without progress
	err     error
	element *list.Element // in loop.waits
}

// waitForContent waits for content of e, which report saw last, to go. If too many waits
// run already, it cancels the oldest instead, whose slot then serves the next wait: content
// that has not gone for long is the least likely to go soon.
func (l *loop) waitForContent(e *entry, report deleter.Report, floor time.Duration, doubted bool) {
	if l.waiter == nil || report.Remaining() <= 0 {
		return
	}
	if l.waiting >= l.options.Waits {
		if oldest := l.waits.Front(); oldest != nil {
			l.cancelWait(oldest.Value.(*wait).entry)
		}
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	w := &wait{entry: e, cancel: cancel, floor: floor, doubted: doubted}
	e.wait = w
	l.waiting++
	w.element = l.waits.PushBack(w)
	target := deleter.Target{Namespace: e.ref.Name, UID: e.ref.UID, DeletedAt: e.deleted}
	l.tasks.Go(func() {
		defer cancel()
		w.err = deleter.CatchPanic("the deleter's wait", func() error { return l.waiter.Wait(ctx, target, report.Compact()) })
		l.woken <- w
	})
}

// cancelWait cancels the wait of e, if there is one.
func (l *loop) cancelWait(e *entry) {
	if e.wait != nil {
		e.wait.cancel()
		l.waits.Remove(e.wait.element)
		e.wait = nil
	}
}

// waitEnded handles the end of a wait. After a failed one the timer starts the next pass.
func (l *loop) waitEnded(w *wait) {
	l.waiting--
	e := w.entry
	if e.wait != w {
		return // canceled
	}
	l.cancelWait(e)
	if w.err != nil || e.state != idle {
		return
	}
	e.woken = true
	if !w.doubted {
		e.lane = ready
	}
	if w.floor > l.now() {
		l.setTimer(e, min(w.floor, e.due))
		return
	}
	l.enqueue(e)
}
