package controller

import (
	"errors"
	"math"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// After a pass, finish and requeue decide when the next pass of the namespace begins. The
// first row that applies counts:
//
//	the pass                                               the next pass begins
//	was for an incarnation that is gone                    for its successor at once; never without one
//	removed the namespace                                  never; the watch confirms the removal
//	ended after the namespace got another controller       when it comes back
//	was interrupted to make room for another               at once
//	ended after an event for the namespace                 at once
//	failed nowhere, and had too many objects for one pass  at once
//	removed the finalizer, or the namespace lacks it       after an event: a finalizer was added
//	found content that is estimated to last longer         after the estimate, at most MaxDelay
//	  than the backoff
//	found content, failed or contradicts the watch         after the backoff
//
// In the last two rows a notice that content is gone starts the pass earlier
// ([deleter.Waiter]), but not before the namespace was idle for as long as the pass took. So a namespace whose content
// goes object by object takes half of a worker at most. If such a notice led to a pass
// without progress, the next notice does not shorten the backoff.
//
// The next pass runs in the lane
//
//	hung    if the pass failed and no source answered for its last Long
//	ready   if the pass made progress, or an event or the first notice after it starts the next
//	retry   otherwise
//
// Progress is content that was deleted, or a smaller distance than ever before. Deleting alone
// does not reset the backoff, so that content which comes back as fast as it is deleted does
// not keep the controller busy. A new smallest distance resets it, as does a type that is
// empty for good, or a failed pass that deleted objects and has more.

// Reason is why a namespace gets another pass.
type Reason string

// The reasons.
const (
	ReasonFailed      Reason = "failed"      // the pass failed; after the backoff
	ReasonRemaining   Reason = "remaining"   // content is left; after the backoff
	ReasonEstimate    Reason = "estimate"    // content is left and should be gone by then
	ReasonInterrupted Reason = "interrupted" // the pass made no progress and was interrupted to make room for another; at once
	ReasonStale       Reason = "stale"       // a read of the namespace contradicts the watch; after the backoff
)

// Reasons returns all reasons, for hosts that count them.
func Reasons() []Reason {
	return []Reason{ReasonFailed, ReasonRemaining, ReasonEstimate, ReasonInterrupted, ReasonStale}
}

// finish handles the end of a pass.
func (l *loop) finish(end ending) {
	a, e := end.attempt, end.attempt.entry
	a.vacate()
	l.timers.Remove(e)
	e.state, e.attempt = idle, nil
	l.report(end)
	switch {
	case a.orphaned && e.absent:
		l.forget(e)
	case a.orphaned:
		l.enqueue(e)
	case end.result.Outcome == pass.Removed:
		*e = newEntry(e.ref, e.listing)
		e.removed = true
	default:
		l.requeue(e, end)
	}
}

// report calls the hooks for the end of a pass.
func (l *loop) report(end ending) {
	end.attempt.cancel(nil)
	if end.result.Outcome == pass.Finalized || end.result.Outcome == pass.Removed {
		l.observer.finalized(end.attempt.ref)
	}
	switch {
	case end.result.Outcome == pass.Removed:
		l.observer.logRemoved(end.attempt.ref, waivedSources(end.result.Report))
	case end.attempt.orphaned:
		l.observer.logRemoved(end.attempt.ref, nil)
	}
}

func (l *loop) requeue(e *entry, end ending) {
	progress := l.learn(e, end)
	l.observer.logEnded(e, end)
	if !l.owns(e) {
		l.release(e)
		return
	}
	switch {
	case end.err != nil && l.now()-time.Duration(end.attempt.progress.Load()) >= l.options.Long:
		e.lane = hung
	case progress:
		e.lane = ready
	default:
		e.lane = retry
	}
	switch {
	case end.attempt.interrupted && end.err != nil:
		l.observer.retried(e.ref, 0, ReasonInterrupted)
		l.enqueue(e)
	case e.dirty:
		l.enqueue(e)
	case end.result.Outcome == pass.Waiting && progress && end.result.Report.More():
		l.enqueue(e)
	case end.result.Outcome == pass.Finalized || end.result.Outcome == pass.NoFinalizer:
		e.failures, e.best, e.bestPartial = 0, farthest, farthest
	default:
		l.delay(e, end, progress)
	}
}

// delay leaves e idle until its delay is over or content has gone.
func (l *loop) delay(e *entry, end ending, progress bool) {
	delay, reason := l.backoff.Delay(int(e.failures)), ReasonRemaining
	e.failures++
	switch {
	case end.result.Outcome == pass.Waiting && end.result.After > delay:
		delay, reason = min(end.result.After, l.options.MaxDelay), ReasonEstimate
	case end.err != nil:
		reason = ReasonFailed
	case end.result.Outcome != pass.Waiting:
		reason = ReasonStale
	}
	floor := min(end.took, l.options.MaxDelay)
	delay = max(delay, floor)
	now := l.now()
	l.setTimer(e, now+delay)
	l.observer.retried(e.ref, delay, reason)
	inVain := e.woken && !progress
	if e.woken = false; inVain {
		floor = delay
	}
	l.waitForContent(e, end.result.Report, now+floor, inVain)
}

// learn updates e by the result of its pass. It reports whether the pass made progress.
func (l *loop) learn(e *entry, end ending) (progress bool) {
	report, before := end.result.Report, e.last
	if report.UID != "" || len(report.Results) > 0 || len(report.Clean) > 0 {
		e.last = l.catalog.snapshot(report)
	}
	if !end.result.Outcome.Again() {
		e.last = snapshot{}
	}
	if end.result.Namespace.UID == e.ref.UID {
		e.deleted = end.result.Namespace.DeletionTimestamp.Time
	}
	closer := e.last.cleaned() > before.cleaned()
	now := distanceOf(report)
	switch answered := end.err == nil && end.result.Outcome == pass.Waiting; {
	case answered && now.less(e.best):
		e.best, closer = now, true
	case !answered && report.Deleted() > 0 && (report.More() || now.less(e.bestPartial)):
		// The distance is not known: a source did not answer. But the others have less
		// content left than ever, or too much to count.
		e.bestPartial, closer = now, true
	}
	l.adaptAllowance(e, end)
	if closer {
		e.failures = 0
	}
	return closer || report.Deleted() > 0
}

// adaptAllowance doubles the allowance of e if its sources did not answer within it, and
// resets it when all of them answered or are waived within Patience.
func (l *loop) adaptAllowance(e *entry, end ending) {
	doubled := func(d time.Duration) time.Duration {
		if d > l.options.MaxPatience/2 {
			return l.options.MaxPatience
		}
		return 2 * d
	}
	switch late := (*pass.PatienceError)(nil); {
	case errors.As(end.err, &late):
		e.patience = doubled(late.Patience)
	case end.attempt.interrupted && end.err != nil: // by a source or by the storage of namespaces
		e.patience = doubled(max(e.patience, end.attempt.allowance))
	case end.err == nil && end.took < l.options.Patience:
		e.patience = 0
	}
}

// distance is how far a namespace is from being empty. The number of waiting resource types is
// compared first, because calling one more type is progress even if more objects are left
// then. The smallest distance so far can therefore shrink only a finite number of times.
type distance struct{ waiting, left int }

var farthest = distance{math.MaxInt, math.MaxInt}

func distanceOf(r deleter.Report) distance {
	d := distance{left: r.Remaining()}
	for _, one := range r.Results {
		if one.Waiting {
			d.waiting++
		}
	}
	return d
}

func (d distance) less(e distance) bool {
	return d.waiting < e.waiting || d.waiting == e.waiting && d.left < e.left
}
