package controller

import (
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Join returns hooks that tell each of several listeners, in their order: metrics and
// an explanation, say.
func Join(listeners ...Hooks) Hooks {
	return Hooks{
		Queued:      each(listeners, func(h Hooks) func(Ref) { return h.Queued }),
		PassStarted: each(listeners, func(h Hooks) func(Ref) { return h.PassStarted }),
		PassEnded: func(ref Ref, result pass.Result, err error, took time.Duration) {
			for _, h := range listeners {
				if h.PassEnded != nil {
					h.PassEnded(ref, result, err, took)
				}
			}
		},
		Retried: func(ref Ref, delay time.Duration, reason Reason) {
			for _, h := range listeners {
				if h.Retried != nil {
					h.Retried(ref, delay, reason)
				}
			}
		},
		Finalized: each(listeners, func(h Hooks) func(Ref) { return h.Finalized }),
		Removed:   each(listeners, func(h Hooks) func(Ref) { return h.Removed }),
	}
}

// each returns a hook that calls that of every listener that has it.
func each(listeners []Hooks, hook func(Hooks) func(Ref)) func(Ref) {
	return func(ref Ref) {
		for _, h := range listeners {
			if f := hook(h); f != nil {
				f(ref)
			}
		}
	}
}
