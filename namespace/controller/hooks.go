package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

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
	// [Namespaces] inherits its values. A tracer starts a span here, and traces the calls
	// below it with [deleter.WithTrace].
	PassStarted func(ctx context.Context, ref namespace.Ref) context.Context
	// PassEnded: the pass has ended with result or err, after took. It gets the context
	// that PassStarted returned, which may have been canceled.
	PassEnded func(ctx context.Context, ref namespace.Ref, result pass.Result, err error, took time.Duration)
	// Retried: the next pass of the namespace is queued after delay at the latest. Of
	// the passes that are queued at once, only an interrupted one is reported, with delay 0.
	Retried func(ref namespace.Ref, delay time.Duration, reason Reason)
	// Released: the namespace now belongs to another controller ([Options.Division]). Until
	// it is Queued again, only its removal is reported.
	Released func(ref namespace.Ref)
	// Finalized: a pass has removed the party's finalizer.
	Finalized func(ref namespace.Ref)
	// Removed: the incarnation is gone from storage. It is reported once for each
	// incarnation that the controller knew, including those of other controllers
	// ([Options.Division]).
	Removed func(ref namespace.Ref)
}

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
			o.write(slog.LevelError, "a hook of the namespace controller panicked; its further panics are not logged",
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

func (o *observer) released(ref namespace.Ref) {
	o.each("Released", ref, func(h Hooks) func(namespace.Ref) { return h.Released })
}

func (o *observer) finalized(ref namespace.Ref) {
	o.each("Finalized", ref, func(h Hooks) func(namespace.Ref) { return h.Finalized })
}

func (o *observer) removed(ref namespace.Ref) {
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

func (o *observer) ended(ctx context.Context, end ending) {
	for _, h := range o.hooks {
		if h.PassEnded != nil {
			o.call("PassEnded", func() { h.PassEnded(ctx, end.attempt.ref, end.result, end.err, end.took) })
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
