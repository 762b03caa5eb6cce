package hold

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/follow"
	"github.com/nslifecycle/nslifecycle/namespace/internal/priority"
)

// entry is the state of one namespace on hold. It is in exactly one of three places: in
// loop.ends until its hold ends and a worker is free, in loop.retries after an attempt that
// did not delete the namespace, or in an attempt.
type entry struct {
	ref      namespace.Ref
	until    time.Time // the end of the hold
	due      time.Time // of the next attempt
	refusal  uint64    // digest of the refusal of this hold that was reported last
	slot     int32     // in ends or retries; zero in an attempt
	failures int32     // of attempts since the hold ended
	listing  uint32    // the last listing that contained it
	retrying bool      // in retries, or in an attempt that was there before
	failed   bool      // a failure of this hold was reported
	moved    bool      // the hold changed during the attempt
	gone     bool      // no longer on hold
}

// maxIdle bounds the time between two looks at the clock: no timer fires when the clock is
// set forward or the machine wakes up.
const maxIdle = time.Minute

// loop is one Run. One goroutine owns it. The watch and the attempts run in goroutines of
// their own and report over channels.
type loop struct {
	namespaces Namespaces
	options    Options
	entries    map[string]*entry
	ends       *priority.Queue[*entry] // by time of day
	retries    *priority.Queue[*entry] // by monotonic time
	running    int                     // attempts
	retrying   int                     // attempts of entries from retries
	listing    uint32                  // the number of the last listing

	tasks   sync.WaitGroup
	updates chan follow.Update
	results chan result
}

func newLoop(n Namespaces, o Options) *loop {
	queue := func() *priority.Queue[*entry] {
		return priority.New(func(a, b *entry) bool { return a.due.Before(b.due) }, func(e *entry) *int32 { return &e.slot })
	}
	return &loop{
		namespaces: n, options: o, entries: map[string]*entry{}, ends: queue(), retries: queue(),
		updates: make(chan follow.Update), results: make(chan result),
	}
}

// run works until ctx ends, and then until everything that it started has ended.
func (l *loop) run(ctx context.Context) {
	defer l.tasks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.tasks.Go(func() {
		follow.Run(ctx, follow.Options{
			Watch:   l.namespaces.Holds,
			Backoff: l.options.backoff(),
		}, l.updates)
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		for e := l.next(time.Now()); e != nil; e = l.next(time.Now()) {
			l.start(ctx, e)
		}
		timer.Reset(l.untilDue(time.Now()))
		select {
		case u := <-l.updates:
			l.update(u)
		case r := <-l.results:
			if ctx.Err() == nil {
				l.finish(r)
			}
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// next returns the entry whose attempt is to start now, or nil. First attempts come before
// retries, but one worker always serves retries if any is due, and at most half of the
// workers do.
func (l *loop) next(now time.Time) *entry {
	if l.running == l.options.Workers {
		return nil
	}
	first, firstDue := l.ends.First()
	retry, retryDue := l.retries.First()
	firstDue = firstDue && !now.Before(first.due)
	retryDue = retryDue && !now.Before(retry.due) && l.mayRetry()
	switch {
	case retryDue && (l.retrying == 0 || !firstDue):
		return retry
	case firstDue:
		return first
	}
	return nil
}

func (l *loop) mayRetry() bool { return l.retrying < l.options.Workers/2 }

// untilDue returns the time until next may return another entry.
func (l *loop) untilDue(now time.Time) time.Duration {
	wait := maxIdle
	if l.running == l.options.Workers {
		return wait
	}
	if first, ok := l.ends.First(); ok {
		wait = min(wait, first.due.Sub(now))
	}
	if retry, ok := l.retries.First(); ok && l.mayRetry() {
		wait = min(wait, retry.due.Sub(now))
	}
	return wait
}

// start begins an attempt for e.
func (l *loop) start(ctx context.Context, e *entry) {
	l.queueOf(e).Remove(e)
	e.moved = false
	l.running++
	if e.retrying {
		l.retrying++
	}
	ref := e.ref
	l.tasks.Go(func() {
		within, cancel := context.WithTimeout(ctx, l.options.Patience)
		defer cancel()
		r := attempt(within, l.namespaces, ref)
		r.entry = e
		select {
		case l.results <- r:
		case <-ctx.Done():
		}
	})
}

// finish handles the end of an attempt. Only the watch decides that a namespace is no longer
// on hold; until it does, attempts follow.
//
//	the attempt                                     the next attempt
//	ended after the namespace had left the index    none
//	ended after the hold was moved                  at the new end of the hold
//	found that the hold lasts longer                at that end
//	anything else                                   after the backoff
func (l *loop) finish(r result) {
	e := r.entry
	l.running--
	if e.retrying {
		l.retrying--
	}
	l.report(r)
	switch {
	case e.gone:
	case e.moved:
		l.waitUntil(e, e.until)
	case r.outcome == early:
		l.waitUntil(e, r.until)
	default:
		e.retrying, e.due = true, time.Now().Add(l.options.backoff().Delay(int(e.failures)))
		e.failures++
		l.retries.Set(e)
	}
}

// waitUntil makes the next attempt for e the first one, at the end of its hold.
func (l *loop) waitUntil(e *entry, until time.Time) {
	l.queueOf(e).Remove(e)
	e.retrying, e.failures, e.due = false, 0, until
	l.ends.Set(e)
}

func (l *loop) queueOf(e *entry) *priority.Queue[*entry] {
	if e.retrying {
		return l.retries
	}
	return l.ends
}

// report logs the outcome of an attempt and calls its hook, unless that has been done for
// the same hold.
func (l *loop) report(r result) {
	e, hooks := r.entry, l.options.Hooks
	if e.moved {
		e = &entry{} // the outcome is of the hold before
	}
	attrs := []slog.Attr{slog.String("namespace", r.ref.Name), slog.String("uid", r.ref.UID)}
	if r.err != nil {
		attrs = append(attrs, slog.Any("err", r.err))
	}
	switch r.outcome {
	case deleted:
		l.log(slog.LevelInfo, "the hold of a namespace has ended; its deletion has begun", attrs...)
		if hooks.Deleted != nil {
			hooks.Deleted(r.ref)
		}
	case refused:
		refusal := digest(r.err)
		if e.refusal == refusal {
			return
		}
		e.refusal = refusal
		l.log(slog.LevelWarn, "the hold of a namespace has ended, but its deletion was refused; it will be retried", attrs...)
		if hooks.Refused != nil {
			hooks.Refused(r.ref, r.err)
		}
	case failed:
		if e.failed {
			return
		}
		e.failed = true
		l.log(slog.LevelWarn, "the hold of a namespace has ended, but its deletion failed; it will be retried", attrs...)
		if hooks.Failed != nil {
			hooks.Failed(r.ref, r.err)
		}
	}
}

// digest identifies a refusal by its causes, if it has any, because its text may change with
// each attempt.
func digest(err error) uint64 {
	h := fnv.New64a()
	var refusal *namespace.Error
	if errors.As(err, &refusal) && len(refusal.Causes) > 0 {
		for _, c := range refusal.Causes {
			fmt.Fprintf(h, "%s\n%s\n", c.Type, c.Field)
		}
	} else {
		h.Write([]byte(err.Error()))
	}
	return h.Sum64()
}

func (l *loop) log(level slog.Level, message string, attrs ...slog.Attr) {
	l.options.Logger.LogAttrs(context.Background(), level, message, attrs...)
}

// update handles an update of the watch.
func (l *loop) update(u follow.Update) {
	switch u.Kind {
	case follow.Listing:
		l.listing++
	case follow.Item, follow.Change:
		switch u.Event.Type {
		case namespace.EventPresent:
			l.hold(u.Event)
		case namespace.EventAbsent:
			if e := l.entries[u.Event.Name]; e != nil {
				l.forget(e)
			}
		}
	case follow.Complete:
		for _, e := range l.entries {
			if e.listing != l.listing {
				l.forget(e)
			}
		}
	case follow.Lost:
		l.log(slog.LevelWarn, "the watch of the holds of namespaces failed; it will be resumed", slog.Any("err", u.Err))
		if l.options.Hooks.Lost != nil {
			l.options.Hooks.Lost(u.Err)
		}
	case follow.Resumed:
		l.log(slog.LevelInfo, "the watch of the holds of namespaces works again")
	}
}

// hold handles the event that a namespace is on hold, possibly as before.
func (l *loop) hold(event namespace.Event) {
	ref := namespace.Ref{Name: event.Name, UID: event.UID}
	e := l.entries[ref.Name]
	switch {
	case e == nil:
		e = &entry{ref: ref, until: event.Until}
		l.entries[ref.Name] = e
		l.waitUntil(e, e.until)
	case e.ref != ref || !e.until.Equal(event.Until):
		e.ref, e.until, e.refusal, e.failed = ref, event.Until, 0, false
		if e.slot == 0 {
			e.moved = true
		} else {
			l.waitUntil(e, e.until)
		}
	}
	e.listing = l.listing
}

func (l *loop) forget(e *entry) {
	delete(l.entries, e.ref.Name)
	l.queueOf(e).Remove(e)
	e.gone = true
}
