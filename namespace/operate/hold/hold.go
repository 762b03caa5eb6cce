// Package hold deletes namespaces whose hold has ended ([declare.Hold]).
//
// A hold is an annotation of an Active namespace. Everyone can see it, and can remove it
// until the deletion has begun. [Run] follows the index of holds and waits. When a hold ends,
// it reads the namespace and deletes exactly the incarnation and version that it read. So a
// hold that was removed or moved in time is never carried out, and any number of processes
// may run this package side by side (rules R8 and R11): all of them try, one succeeds. The
// package stores nothing, so a crash costs only time.
//
// An obstacle to the deletion, a protection for example, also applies at the end of a hold.
// The namespace then stays on hold, and the deletion is retried until it succeeds. If a
// client writes the namespace between each read and deletion, the attempt repeats a few
// times at once and then after the backoff; one gap between the client's writes is enough.
//
// This package deletes with its own permissions, so a user who may set a hold may in effect
// delete the namespace: see [declare.HoldAnnotation]. Where holds and graces are used, at
// least one process must run it, or they never end.
//
// Each process needs about 200 bytes for each hold, and no goroutine, timer or request
// until it ends.
//
// # Clocks
//
// The end of a hold is a time of day. Run compares it with the clock of its process at least
// every minute, and before every deletion. If that clock is set forward, holds end early by
// as much. If it is set back, or the machine was suspended, holds end at most a minute after
// the clock shows the time. The storage may check the time again: a registry does not
// delete a namespace with a grace before its hold has ended by the registry's own clock.
package hold

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// Namespaces is the storage of namespaces. Package registry implements it.
type Namespaces interface {
	// Get returns the current namespace, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// Delete deletes a namespace that satisfies only, and returns its new state.
	Delete(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error)
	// Holds yields, if after is empty, a [namespace.EventPresent] for each namespace on hold,
	// a [namespace.EventSynced], and then each change. If after is the Token of an earlier
	// event, it yields the changes since, an EventSynced, and then each change. It ends with
	// [namespace.ErrGone] if it no longer knows the changes since after.
	Holds(ctx context.Context, after string) iter.Seq2[namespace.Event, error]
}

// Options configure [Run]. The zero value of a field selects its default.
type Options struct {
	// Workers bounds the concurrent deletions; default 8, at least 2. Retries get at most
	// half of the workers, so that they do not delay first attempts (rule R10), and at
	// least one.
	Workers int
	// Patience is how long one deletion may take before it counts as failed; default 30 s.
	Patience time.Duration
	// MinDelay and MaxDelay are the first and the longest delay of the exponential backoff
	// of a namespace after a refused or failed deletion, and of the watch after a failure;
	// defaults 1 s and 1 min. Each delay is shortened by up to a quarter at random.
	MinDelay, MaxDelay time.Duration
	// Hooks observe Run. By default there are none.
	Hooks Hooks
	// Logger gets one line for each change of a namespace's state, never one for each
	// attempt. By default nothing is logged.
	Logger *slog.Logger
}

// Hooks observe [Run], for metrics and alerts. Each function is optional. Run calls them one
// at a time in its own goroutine, so they must return quickly. A hook that panics makes Run
// panic, after everything that it started has ended.
type Hooks struct {
	// Deleted: this process has begun the deletion of a namespace whose hold had ended.
	Deleted func(ref namespace.Ref)
	// Refused: the deletion was refused with [namespace.ErrForbidden] or
	// [namespace.ErrInvalid], because of a protection for example. It will be retried, and is
	// reported again only with another cause.
	Refused func(ref namespace.Ref, err error)
	// Failed: the deletion failed. It will be retried, and is reported once for each hold.
	Failed func(ref namespace.Ref, err error)
	// Lost: the watch of the holds failed. It will be resumed, and is reported again only
	// after it has worked in between.
	Lost func(err error)
}

// Run deletes each namespace whose hold ends, regardless of who set the hold, until ctx
// ends. It then waits for every goroutine that it started and returns nil. No failure ends
// it; the only error is that of an option out of range, before Run starts. A nil opts
// selects the defaults.
func Run(ctx context.Context, n Namespaces, opts *Options) error {
	var options Options
	if opts != nil {
		options = *opts
	}
	if err := options.Validate(); err != nil {
		return err
	}
	newLoop(n, options.withDefaults()).run(ctx)
	return nil
}

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, 8)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.MinDelay = cmp.Or(o.MinDelay, time.Second)
	o.MaxDelay = cmp.Or(o.MaxDelay, max(time.Minute, o.MinDelay))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate returns an error if an option is out of range. [Run] calls it.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.Workers < 2:
		return fmt.Errorf("hold: Options.Workers is %d: it must be at least 2", o.Workers)
	case o.Patience < 0:
		return fmt.Errorf("hold: Options.Patience is %v: it must not be negative", o.Patience)
	case o.MinDelay < 0:
		return fmt.Errorf("hold: Options.MinDelay is %v: it must not be negative", o.MinDelay)
	case o.MinDelay > o.MaxDelay:
		return fmt.Errorf("hold: Options.MaxDelay is %v: it must be at least MinDelay (%v)", o.MaxDelay, o.MinDelay)
	}
	return nil
}

func (o Options) backoff() backoff.Exponential {
	return backoff.Exponential{Min: o.MinDelay, Max: o.MaxDelay}
}
