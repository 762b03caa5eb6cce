package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Hooks observe a controller, for metrics, traces and explanations. Each function is
// optional. A hook that panics is logged once, and the controller goes on.
//
// The controller calls the hooks of one namespace in the order in which things happen.
// PassStarted and PassEnded run in the goroutine of the pass, so those of different
// namespaces run concurrently. The others run one at a time in the scheduling goroutine
// and delay every namespace while they run, so they must return quickly.
type Hooks struct {
	// Queued: the namespace waits for a worker. Its pass does not begin if the namespace
	// has become another controller's in the meantime ([Options.Division]).
	Queued func(ref namespace.Ref)
	// PassStarted: a worker begins a pass. The returned context, ctx itself or a child of
	// it, is the context of the pass: every call to the deleter, to its sources and to
	// [Namespaces] inherits its values. A tracer starts its span here.
	PassStarted func(ctx context.Context, ref namespace.Ref) context.Context
	// PassEnded: the pass has ended with result or err, after took. It gets the context
	// that PassStarted returned, which may have been canceled.
	PassEnded func(ctx context.Context, ref namespace.Ref, result pass.Result, err error, took time.Duration)
	// Retried: the next pass of the namespace begins after delay at the latest.
	Retried func(ref namespace.Ref, delay time.Duration, reason Reason)
	// Left: the namespace belongs to another controller ([Options.Division]). Until it is
	// Queued again, only its removal is reported.
	Left func(ref namespace.Ref)
	// Finalized: a pass has removed the party's finalizer.
	Finalized func(ref namespace.Ref)
	// Removed: the incarnation is gone from storage. It is reported once for each
	// incarnation that the controller knew, including those of other controllers
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

// observer calls the hooks and writes the log.
type observer struct {
	hooks []Hooks
	log   *slog.Logger

	mu       sync.Mutex
	panicked map[string]bool // names of hooks whose panic was logged
}

// call runs f, the hook with the given name, and recovers its panic.
func (o *observer) call(hook string, f func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		o.mu.Lock()
		logged := o.panicked[hook]
		o.panicked[hook] = true
		o.mu.Unlock()
		if !logged {
			o.line(slog.LevelError, "a hook of the namespace controller panicked; its further panics are not logged",
				slog.String("hook", hook), slog.String("panic", fmt.Sprint(v)))
		}
	}()
	f()
}

// each calls the hook that selects returns, of each of the hooks that have it.
func (o *observer) each(hook string, ref namespace.Ref, selects func(Hooks) func(namespace.Ref)) {
	for _, h := range o.hooks {
		if f := selects(h); f != nil {
			o.call(hook, func() { f(ref) })
		}
	}
}

func (o *observer) queued(ref namespace.Ref) {
	o.each("Queued", ref, func(h Hooks) func(namespace.Ref) { return h.Queued })
}

func (o *observer) left(ref namespace.Ref) {
	o.each("Left", ref, func(h Hooks) func(namespace.Ref) { return h.Left })
}

func (o *observer) finalized(ref namespace.Ref) {
	o.each("Finalized", ref, func(h Hooks) func(namespace.Ref) { return h.Finalized })
}

// gone reports that an incarnation is gone, whichever controller it belonged to.
func (o *observer) gone(ref namespace.Ref) {
	o.each("Removed", ref, func(h Hooks) func(namespace.Ref) { return h.Removed })
}

// started returns the context of a pass.
func (o *observer) started(ctx context.Context, ref namespace.Ref) context.Context {
	for _, h := range o.hooks {
		if h.PassStarted != nil {
			o.call("PassStarted", func() { ctx = h.PassStarted(ctx, ref) })
		}
	}
	return ctx
}

func (o *observer) ended(ctx context.Context, ref namespace.Ref, d done) {
	for _, h := range o.hooks {
		if h.PassEnded != nil {
			o.call("PassEnded", func() { h.PassEnded(ctx, ref, d.result, d.err, d.took) })
		}
	}
}

func (o *observer) retried(ref namespace.Ref, delay time.Duration, reason Reason) {
	for _, h := range o.hooks {
		if h.Retried != nil {
			o.call("Retried", func() { h.Retried(ref, delay, reason) })
		}
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
		eachError(err, func(err error) {
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

// eachError calls f for every error that err combines.
func eachError(err error, f func(error)) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		f(err)
		return
	}
	for _, one := range several.Unwrap() {
		eachError(one, f)
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
