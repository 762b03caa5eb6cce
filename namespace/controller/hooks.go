package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Hooks are told what a controller does, for metrics, traces and explanations.
// Each is optional. They are called one at a time, in the order in which things
// happen, from the goroutine that schedules; so they must be quick. One that panics
// is logged, and the controller goes on.
type Hooks struct {
	// Queued: the namespace waits for a worker. Its pass does not begin if it has
	// become another controller's meanwhile ([Options.Division]).
	Queued func(ref namespace.Ref)
	// PassStarted: a worker has taken it up.
	PassStarted func(ref namespace.Ref)
	// PassEnded: a pass has ended with result or err, after took.
	PassEnded func(ref namespace.Ref, result pass.Result, err error, took time.Duration)
	// Retried: the namespace will be looked at again after delay at the latest.
	Retried func(ref namespace.Ref, delay time.Duration, reason Reason)
	// Left: the namespace is another controller's ([Options.Division]). Nothing but its
	// removal is told of it any more until it is Queued again.
	Left func(ref namespace.Ref)
	// Finalized: a pass has removed the party's finalizer.
	Finalized func(ref namespace.Ref)
	// Removed: the incarnation is gone from storage. It is told once for each
	// incarnation that the controller knew, those of other controllers included
	// ([Options.Division]).
	Removed func(ref namespace.Ref)
}

// Reason is why a namespace is looked at again.
type Reason string

// The reasons.
const (
	ReasonFailed      Reason = "failed"      // something failed: backoff
	ReasonRemaining   Reason = "remaining"   // content is left: backoff
	ReasonEstimate    Reason = "estimate"    // content is left, and should be gone by then
	ReasonInterrupted Reason = "interrupted" // the pass made no progress and made room for another; it is queued for retry
	ReasonStale       Reason = "stale"       // the read contradicts the watch: backoff
)

// observer calls hooks and writes the log. It belongs to the scheduling goroutine.
type observer struct {
	hooks    Hooks
	log      *slog.Logger
	panicked map[string]bool // hooks whose panic was logged
}

// call runs f, the hook of that name, and survives its panic.
func (o *observer) call(hook string, f func()) {
	defer func() {
		v := recover()
		if v == nil || o.panicked[hook] {
			return
		}
		if o.panicked == nil {
			o.panicked = map[string]bool{}
		}
		o.panicked[hook] = true
		o.line(slog.LevelError, "a hook of the namespace controller panicked; further panics of it are not logged",
			slog.String("hook", hook), slog.String("panic", fmt.Sprint(v)))
	}()
	f()
}

func (o *observer) queued(ref namespace.Ref) {
	if o.hooks.Queued != nil {
		o.call("Queued", func() { o.hooks.Queued(ref) })
	}
}

func (o *observer) started(ref namespace.Ref) {
	if o.hooks.PassStarted != nil {
		o.call("PassStarted", func() { o.hooks.PassStarted(ref) })
	}
}

func (o *observer) ended(ref namespace.Ref, d done) {
	if o.hooks.PassEnded != nil {
		o.call("PassEnded", func() { o.hooks.PassEnded(ref, d.result, d.err, d.took) })
	}
}

func (o *observer) retried(ref namespace.Ref, delay time.Duration, reason Reason) {
	if o.hooks.Retried != nil {
		o.call("Retried", func() { o.hooks.Retried(ref, delay, reason) })
	}
}

func (o *observer) left(ref namespace.Ref) {
	if o.hooks.Left != nil {
		o.call("Left", func() { o.hooks.Left(ref) })
	}
}

func (o *observer) finalized(ref namespace.Ref) {
	if o.hooks.Finalized != nil {
		o.call("Finalized", func() { o.hooks.Finalized(ref) })
	}
}

// removed tells that a namespace of this controller is gone, and which sources' failures
// the pass waived that removed it, if any.
func (o *observer) removed(ref namespace.Ref, waived []string) {
	attrs := []slog.Attr{slog.String("namespace", ref.Name), slog.String("uid", ref.UID)}
	if len(waived) > 0 {
		attrs = append(attrs, slog.Any("waived", waived))
	}
	o.line(slog.LevelInfo, "namespace removed", attrs...)
	o.gone(ref)
}

// gone tells that a namespace is gone, whosever it was.
func (o *observer) gone(ref namespace.Ref) {
	if o.hooks.Removed != nil {
		o.call("Removed", func() { o.hooks.Removed(ref) })
	}
}

// line writes a line to the log and survives a logger that panics.
func (o *observer) line(level slog.Level, message string, attrs ...slog.Attr) {
	defer func() { _ = recover() }() // there is nowhere left to tell it
	o.log.LogAttrs(context.Background(), level, message, attrs...)
}

// changed logs what the pass came to, if that is not what was logged last.
func (o *observer) changed(e *entry, d done) {
	if d.result.Outcome == pass.Interrupted {
		return
	}
	level, message := slog.LevelInfo, "namespace has content left"
	switch d.result.Outcome {
	case pass.Waiting:
	case pass.Failed:
		level, message = slog.LevelWarn, "namespace could not be emptied; it will be tried again"
	case pass.Finalized:
		message = "namespace finalized; others hold it still"
	case pass.NotHeld:
		message = "namespace is held by others only"
	default:
		message = "namespace was not found as the watch told of it"
	}
	waived := waivedSources(d.result.Report)
	state := message
	if d.result.Outcome == pass.NotHeld {
		state = "namespace finalized; others hold it still" // the next resync checks it again
	}
	if sum := stateOf(state, d.result.Report, waived); sum != e.told {
		e.told = sum
		attrs := []slog.Attr{
			slog.String("namespace", e.ref.Name), slog.String("uid", e.ref.UID), slog.Int("remaining", d.result.Report.Remaining()),
		}
		if len(waived) > 0 {
			attrs = append(attrs, slog.Any("waived", waived))
		}
		if d.err != nil {
			attrs = append(attrs, slog.Any("err", d.err))
		}
		o.line(level, message, attrs...)
	}
}

// stateOf sums up what a change of is worth a line in the log: which sources fail, not how
// they do.
func stateOf(message string, r deleter.Report, waived []string) uint64 {
	state := fnv.New64a()
	mark := func(mark, text string) {
		state.Write([]byte(mark))
		state.Write([]byte(text))
	}
	mark("", message)
	failed := func(err error, source string) {
		mark("\x00", source)
		if unwaived := (*deleter.UnwaivedError)(nil); errors.As(err, &unwaived) {
			mark("\x01", "")
		}
	}
	for _, one := range r.Results {
		if one.Err != nil {
			failed(one.Err, one.Resource.String())
		}
	}
	for _, err := range r.Discovery {
		each(err, func(err error) {
			mark("\x02", "")
			failed(err, deleter.SourceOf(err))
		})
	}
	if len(r.Parsing) > 0 {
		mark("\x03", "")
	}
	if r.Failed != nil {
		mark("\x04", "")
	}
	for _, source := range waived {
		mark("\x05", source)
	}
	return state.Sum64()
}

// each calls f for every error that err combines.
func each(err error, f func(error)) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		f(err)
		return
	}
	for _, one := range several.Unwrap() {
		each(one, f)
	}
}

// waivedSources names the sources whose failures a pass waived, nil if it waived none.
func waivedSources(r deleter.Report) []string {
	var sources []string
	for _, err := range r.Waived {
		sources = append(sources, deleter.SourceOf(err))
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}
