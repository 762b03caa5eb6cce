package controller

import (
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Join returns hooks that tell each of several listeners, in their order: metrics and
// an explanation, say. One that panics does not keep the others from being told. What
// no listener wants to hear is left out.
func Join(listeners ...Hooks) Hooks {
	var ended []func(namespace.Ref, pass.Result, error, time.Duration)
	var retried []func(namespace.Ref, time.Duration, Reason)
	for _, h := range listeners {
		if h.PassEnded != nil {
			ended = append(ended, h.PassEnded)
		}
		if h.Retried != nil {
			retried = append(retried, h.Retried)
		}
	}
	joined := Hooks{
		Queued:      joinRefs(listeners, func(h Hooks) func(namespace.Ref) { return h.Queued }),
		PassStarted: joinRefs(listeners, func(h Hooks) func(namespace.Ref) { return h.PassStarted }),
		Left:        joinRefs(listeners, func(h Hooks) func(namespace.Ref) { return h.Left }),
		Finalized:   joinRefs(listeners, func(h Hooks) func(namespace.Ref) { return h.Finalized }),
		Removed:     joinRefs(listeners, func(h Hooks) func(namespace.Ref) { return h.Removed }),
	}
	if len(ended) > 0 {
		joined.PassEnded = func(ref namespace.Ref, result pass.Result, err error, took time.Duration) {
			tell(ended, func(f func(namespace.Ref, pass.Result, error, time.Duration)) { f(ref, result, err, took) })
		}
	}
	if len(retried) > 0 {
		joined.Retried = func(ref namespace.Ref, delay time.Duration, reason Reason) {
			tell(retried, func(f func(namespace.Ref, time.Duration, Reason)) { f(ref, delay, reason) })
		}
	}
	return joined
}

// joinRefs returns a hook that calls that of every listener that has it; nil if none
// has.
func joinRefs(listeners []Hooks, hook func(Hooks) func(namespace.Ref)) func(namespace.Ref) {
	var all []func(namespace.Ref)
	for _, h := range listeners {
		if f := hook(h); f != nil {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return func(ref namespace.Ref) {
		tell(all, func(f func(namespace.Ref)) { f(ref) })
	}
}

// tell calls call with each of fs, in their order, also with those after one that
// panics.
func tell[F any](fs []F, call func(F)) {
	if len(fs) == 0 {
		return
	}
	defer tell(fs[1:], call)
	call(fs[0])
}
