package controller

import (
	"errors"
	"math"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// report tells of the end of a pass.
func (l *loop) report(d done) {
	d.attempt.cancel(nil)
	if d.result.Outcome == pass.Finalized || d.result.Outcome == pass.Removed {
		l.observer.finalized(d.attempt.ref)
	}
	switch {
	case d.result.Outcome == pass.Removed:
		l.observer.removed(d.attempt.ref, waivedSources(d.result.Report))
	case d.attempt.orphaned:
		l.observer.removed(d.attempt.ref, nil)
	}
}

// finish takes up the end of a pass.
func (l *loop) finish(d done) {
	a, e := d.attempt, d.attempt.entry
	a.vacate()
	l.passes--
	l.timers.remove(e)
	e.state, e.attempt = resting, nil
	l.report(d)
	switch {
	case a.orphaned:
		if e.forgotten {
			l.forget(e)
			return
		}
		l.enqueue(e) // the name was taken by another incarnation meanwhile
	case d.result.Outcome == pass.Removed:
		*e = entry{ref: e.ref, slot: -1, listing: e.listing, removed: true}
	default:
		l.next(e, d)
	}
}

// next decides when e is looked at again after a pass.
func (l *loop) next(e *entry, d done) {
	progress := l.learn(e, d)
	l.observer.changed(e, d)
	if !l.owns(e) {
		l.leave(e)
		return
	}
	switch {
	case d.err != nil && l.now()-time.Duration(d.attempt.progress.Load()) >= l.options.Long:
		e.lane = hung
	case progress:
		e.lane = ready
	default:
		e.lane = retry
	}
	switch {
	case d.attempt.interrupted && d.err != nil:
		l.observer.retried(e.ref, 0, ReasonInterrupted)
		l.enqueue(e)
	case e.dirty:
		l.enqueue(e)
	case d.result.Outcome == pass.Waiting && progress && d.result.Report.More():
		l.enqueue(e) // behind the others: large namespaces take turns
	case d.result.Outcome == pass.Finalized || d.result.Outcome == pass.NotHeld:
		// Nothing to do until a finalizer is added, of which an event tells; it begins
		// anew then.
		e.tries, e.nearest, e.clouded = 0, farthest, farthest
	default:
		l.later(e, d, progress)
	}
}

// learn keeps what the pass came to and reports whether it got on.
func (l *loop) learn(e *entry, d done) (progress bool) {
	report, before := d.result.Report, e.remembered
	if report.UID != "" || len(report.Results) > 0 || len(report.Clean) > 0 {
		e.remembered = l.catalog.remember(report)
	}
	if !d.result.Outcome.Again() {
		e.remembered = remembered{}
	}
	if d.result.Namespace.UID == e.ref.UID {
		e.deleted = d.result.Namespace.DeletionTimestamp.Time
	}
	closer := e.remembered.cleaned() > before.cleaned()
	if answered := d.err == nil && d.result.Outcome == pass.Waiting; answered {
		if now := distanceOf(report); now.less(e.nearest) {
			e.nearest, closer = now, true
		}
	} else if now := distanceOf(report); report.Deleted() > 0 && (report.More() || now.less(e.clouded)) {
		// How far it is cannot be told, only that what was seen got less, or that there is
		// too much to see.
		e.clouded, closer = now, true
	}
	switch late := (*pass.PatienceError)(nil); {
	case errors.As(d.err, &late):
		e.allowance = doubled(late.Patience, 1, l.options.MaxPatience)
	case d.attempt.interrupted && d.err != nil: // whether it waited for a source or for namespace storage
		e.allowance = doubled(max(e.allowance, d.attempt.allowance), 1, l.options.MaxPatience)
	case d.took < l.options.Patience: // a longer pass still needs the raised allowance
		e.allowance = 0
	}
	// Content that comes back as fast as it is deleted is no reason to hurry.
	if closer {
		e.tries = 0
	}
	return closer || report.Deleted() > 0
}

// distance is how far a namespace is from being empty: by the resource types that
// wait for others, and among the same by what is left of the types that were asked,
// which grows when a type's turn has come. It never goes down and up for ever.
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

// later lets e rest until its delay is over or content has gone. Between two passes
// it rests at least as long as the last one took, so that a namespace whose content
// goes object by object takes half of a worker at most.
func (l *loop) later(e *entry, d done, progress bool) {
	delay, reason := l.delays.after(e.tries), ReasonRemaining
	e.tries = more(e.tries)
	floor := min(d.took, l.options.MaxDelay)
	futile := e.woken && !progress
	e.woken = false
	switch {
	case d.result.Outcome == pass.Waiting && d.result.After > delay:
		delay, reason = min(d.result.After, l.options.MaxDelay), ReasonEstimate
	case d.err != nil:
		reason = ReasonFailed
	case d.result.Outcome != pass.Waiting:
		reason = ReasonStale // the watch says that it is terminating
	}
	now := l.now()
	l.timers.set(e, now+max(delay, floor))
	l.observer.retried(e.ref, max(delay, floor), reason)
	if futile { // it was woken for nothing; notices alone must not spin
		floor = max(delay, floor)
	}
	l.await(e, d.result.Report, now+floor, futile)
}
