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
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// entry is what a loop knows of one namespace on hold.
type entry struct {
	ref     namespace.Ref
	until   time.Time
	at      time.Time // when its timer fires
	timers  *timers   // where that is
	slot    int       // in there; -1: it has none
	state   state
	tries   uint8  // since its hold is over
	listing uint32 // the last listing that had it
	refused uint64 // the refusal that was told last of its hold, see refusal
	failed  bool   // that it failed was told of its hold
	anew    bool   // its hold has changed while it ran
	over    bool   // it is on hold no longer
}

type state uint8

const (
	resting state = iota // until its timer
	queued
	running
)

// most is the longest time for which the time of day is not looked at.
const most = time.Minute

// loop is one Run. One goroutine owns all of it; the watch and the attempts run in
// goroutines of their own and report over channels.
type loop struct {
	ctx        context.Context
	namespaces Namespaces
	options    Options
	entries    map[string]*entry
	ends       timers // of holds, by the time of day
	retries    timers // by the time that has passed, whatever the clock is set to
	fresh      queue  // first attempts
	again      queue  // others
	listing    uint32
	lost       bool // the watch is lost, and that was told

	news  chan news
	done  chan done
	tasks sync.WaitGroup
}

// queue are entries that wait for a worker, and how many have one.
type queue struct {
	waiting []*entry
	running int
}

func newLoop(ctx context.Context, n Namespaces, o Options) *loop {
	return &loop{
		ctx: ctx, namespaces: n, options: o, entries: map[string]*entry{},
		news: make(chan news), done: make(chan done),
	}
}

// run works until ctx ends, and then until everything that it started has ended.
func (l *loop) run() {
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithCancel(l.ctx)
	defer l.tasks.Wait()
	defer cancel()
	w := watcher{namespaces: l.namespaces, tell: l.news, options: &l.options}
	l.tasks.Go(func() { w.run(l.ctx) })
	timer := time.NewTimer(most)
	defer timer.Stop()
	for l.ctx.Err() == nil {
		timer.Reset(l.idle(time.Now()))
		select {
		case n := <-l.news:
			l.heard(n)
		case d := <-l.done:
			l.finish(d)
		case <-timer.C:
			l.fire(time.Now())
		case <-l.ctx.Done():
			return
		}
		l.dispatch()
	}
}

// idle returns the time until the next hold is due, at most most: a clock that is set
// forward, or a machine that slept, fires no timer.
func (l *loop) idle(now time.Time) time.Duration {
	return min(l.ends.next(now), l.retries.next(now), most)
}

// fire queues what is due.
func (l *loop) fire(now time.Time) {
	for e := l.ends.pop(now); e != nil; e = l.ends.pop(now) {
		l.fresh.push(e)
	}
	for e := l.retries.pop(now); e != nil; e = l.retries.pop(now) {
		l.again.push(e)
	}
}

// dispatch starts attempts while there are workers. One is for further attempts if
// there are any to make, at most half of them are.
func (l *loop) dispatch() {
	for l.fresh.running+l.again.running < l.options.Workers {
		started := l.again.running == 0 && l.start(&l.again) || l.start(&l.fresh) ||
			l.again.running < l.options.Workers/2 && l.start(&l.again)
		if !started {
			return
		}
	}
}

func (q *queue) push(e *entry) {
	e.state = queued
	q.waiting = append(q.waiting, e)
}

// pop returns the next entry that is on hold still, or nil.
func (q *queue) pop() *entry {
	for len(q.waiting) > 0 {
		e := q.waiting[0]
		q.waiting[0] = nil
		if q.waiting = q.waiting[1:]; !e.over {
			return e
		}
	}
	q.waiting = nil
	return nil
}

// start begins an attempt for the next one in q, and reports whether there is one.
func (l *loop) start(q *queue) bool {
	e := q.pop()
	if e == nil {
		return false
	}
	e.state, e.anew = running, false
	q.running++
	ref := e.ref
	l.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, l.options.Patience)
		defer cancel()
		d := attempt(ctx, l.namespaces, ref)
		d.entry, d.queue = e, q
		select {
		case l.done <- d:
		case <-l.ctx.Done():
		}
	})
	return true
}

// finish takes up the end of an attempt. Whatever it was, only the watch tells that a
// namespace is on hold no longer; until then it is looked at again.
func (l *loop) finish(d done) {
	e := d.entry
	d.queue.running--
	e.state = resting
	l.tell(d)
	switch {
	case e.over:
	case e.anew:
		l.rest(e, e.until)
	case d.outcome == notYet:
		l.rest(e, d.until)
	default:
		l.retries.set(e, time.Now().Add(l.options.delay(e.tries)))
		e.tries = more(e.tries)
	}
}

// rest lets e wait for the end of its hold.
func (l *loop) rest(e *entry, until time.Time) {
	e.tries = 0
	l.ends.set(e, until)
}

// tell tells what an attempt came to, unless that was told before of the same hold.
func (l *loop) tell(d done) {
	e := d.entry
	if e.anew { // what is told is of the hold that was
		e = &entry{}
	}
	hooks, attrs := l.options.Hooks, []slog.Attr{slog.String("namespace", d.ref.Name), slog.String("uid", d.ref.UID)}
	if d.err != nil {
		attrs = append(attrs, slog.Any("err", d.err))
	}
	switch d.outcome {
	case deleted:
		l.line(slog.LevelInfo, "the hold of a namespace is over, its deletion has begun", attrs)
		if hooks.Deleted != nil {
			hooks.Deleted(d.ref)
		}
	case keptOut:
		if which := refusal(d.err); e.refused != which {
			e.refused = which
			l.line(slog.LevelWarn, "the hold of a namespace is over, its deletion was refused; it will be tried again", attrs)
			if hooks.Refused != nil {
				hooks.Refused(d.ref, d.err)
			}
		}
	case failed:
		if l.ctx.Err() == nil && !e.failed {
			e.failed = true
			l.line(slog.LevelWarn, "the hold of a namespace is over, its deletion failed; it will be tried again", attrs)
			if hooks.Failed != nil {
				hooks.Failed(d.ref, d.err)
			}
		}
	}
}

// refusal tells refusals apart: by their causes, where they have any, since their texts
// may name what changes all the time.
func refusal(err error) uint64 {
	h := fnv.New64a()
	var refused *namespace.Error
	if errors.As(err, &refused) && len(refused.Causes) > 0 {
		for _, c := range refused.Causes {
			fmt.Fprintf(h, "%s\n%s\n", c.Type, c.Field)
		}
	} else {
		h.Write([]byte(err.Error()))
	}
	return h.Sum64()
}

func (l *loop) line(level slog.Level, message string, attrs []slog.Attr) {
	l.options.Logger.LogAttrs(context.Background(), level, message, attrs...)
}

// heard takes up what the watcher tells.
func (l *loop) heard(n news) {
	switch {
	case n.lost != nil:
		if !l.lost {
			l.lost = true
			l.line(slog.LevelWarn, "watch of the holds of namespaces lost", []slog.Attr{slog.Any("err", n.lost)})
			if l.options.Hooks.Lost != nil {
				l.options.Hooks.Lost(n.lost)
			}
		}
		return
	case n.anew:
		l.listing++
		return
	}
	switch n.event.Type {
	case declare.HoldSet:
		l.held(n.event)
	case declare.HoldOver:
		l.drop(l.entries[n.event.Name])
	case declare.HoldsSynced:
		if n.listing {
			l.sweep()
		}
		if l.lost {
			l.lost = false
			l.line(slog.LevelInfo, "watch of the holds of namespaces resumed", nil)
		}
	}
}

// held takes up that a namespace is on hold, perhaps as it was before.
func (l *loop) held(event declare.HoldEvent) {
	ref := namespace.Ref{Name: event.Name, UID: event.UID}
	e := l.entries[ref.Name]
	if e == nil {
		e = &entry{slot: -1}
		l.entries[ref.Name] = e
	}
	e.listing = l.listing
	if e.ref == ref && e.until.Equal(event.Until) {
		return
	}
	e.ref, e.until, e.refused, e.failed = ref, event.Until, 0, false
	switch e.state {
	case resting:
		l.rest(e, e.until)
	case running:
		e.anew = true
	}
}

// drop forgets an entry, if there is one.
func (l *loop) drop(e *entry) {
	if e == nil {
		return
	}
	delete(l.entries, e.ref.Name)
	e.unset()
	e.over = true
}

// sweep drops what a listing that has ended did not have.
func (l *loop) sweep() {
	for _, e := range l.entries {
		if e.listing != l.listing {
			l.drop(e)
		}
	}
}
