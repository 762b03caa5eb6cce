// Package hold begins the deletion of namespaces that are on hold when their time has
// come ([declare.Hold]).
//
// A hold is an annotation of an Active namespace, which everybody can see and, until the
// deletion has begun, take off; where namespaces are kept there is an index of the holds.
// [Run] follows the index and waits. When a hold is over it reads the namespace, and asks
// for the deletion of exactly what it has read: of that incarnation, at that version. So
// a hold that was taken off or moved by then is never carried out, whoever was faster,
// and any number of processes may run it beside each other (rules R8 and R11): all of
// them try, one succeeds, and a crash costs nothing but time, as nothing is kept here.
//
// What keeps a namespace from being deleted does so when its hold is over as well, such
// as a protection. Such a namespace stays on hold, its deletion is tried again from time
// to time, and becomes effective once nothing keeps it any more.
//
// A namespace that somebody writes between each read and the deletion of what was read
// stays on hold for as long: an attempt begins anew a few times at once, and then after
// the backoff, and the first pause of the writer is enough.
//
// Whoever may set a hold may delete the namespace so, as this package asks with its own
// rights: see [declare.HoldAnnotation]. Some process must run it where graces and holds
// are used, otherwise they never end.
//
// A hold that is waited for costs about 230 bytes in each process, and nothing else: no
// goroutine, no timer, no request.
//
// # Clocks
//
// The end of a hold is a time of day. It is compared with the clock of the process that
// runs this package, at least every minute, and before every deletion. Where that clock
// is set forward, holds end early by as much; where it is set back, or the machine was
// suspended, late, but by no more than a minute after the clock shows the time. Where
// namespaces are kept the time may be looked at again: a namespace with a grace is not
// deleted before its hold is over there too.
package hold

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// Namespaces is where namespaces are kept. Package registry has one.
type Namespaces interface {
	// Get returns a namespace as it is now, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// Delete asks for the deletion of a namespace, if it is as only says, and returns it
	// as it is then.
	Delete(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error)
	// Holds yields, when after is empty, a HoldSet for each namespace that is on hold,
	// then a HoldsSynced, then what happens; when it is the Token of an earlier event,
	// what happened since. It ends with [namespace.ErrGone] when that is no longer
	// known.
	Holds(ctx context.Context, after string) iter.Seq2[declare.HoldEvent, error]
}

// Options are what a host may choose. The zero value of each field, and a nil *Options,
// stand for the default; a negative value is refused by [Run].
type Options struct {
	// Workers bounds the deletions that are asked for at the same time; default 8, at
	// least 2. At most half of them are for namespaces whose deletion was tried before,
	// so that these never take the place of others (rule R10).
	Workers int
	// Patience is how long one deletion may take before it counts as failed; default
	// 30 s.
	Patience time.Duration
	// MinDelay and MaxDelay are the first and the longest delay of the exponential
	// backoff after a deletion that was refused or failed, for each namespace on its
	// own, and after a watch that was lost; defaults 1 s and 1 min. The delay is cut by
	// up to a quarter at random.
	MinDelay, MaxDelay time.Duration
	// Hooks are told what happens; default: nobody is.
	Hooks Hooks
	// Logger gets one line for each change of a namespace's state, never one for each
	// try; default: none.
	Logger *slog.Logger
}

// Hooks are told what happens, for metrics and alerts. Each is optional. They are called
// one at a time, by the goroutine that runs [Run]; so they must be quick. One that panics
// makes Run panic, after everything that it started has ended.
type Hooks struct {
	// Deleted: this process has begun the deletion of a namespace whose hold was over.
	Deleted func(ref namespace.Ref)
	// Refused: the deletion was refused, by a protection, say ([namespace.ErrForbidden]
	// or [namespace.ErrInvalid]). It is told once of a hold, until the causes of the error
	// change (one without causes: its text), and will be tried again.
	Refused func(ref namespace.Ref, err error)
	// Failed: the deletion could not be asked for. It is told once of a hold, and will be
	// tried again.
	Failed func(ref namespace.Ref, err error)
	// Lost: the watch of the holds ended, and will be had again. It is told once, until
	// that has happened.
	Lost func(err error)
}

// The defaults of [Options].
const (
	defaultWorkers  = 8
	defaultPatience = 30 * time.Second
	defaultMinDelay = time.Second
	defaultMaxDelay = time.Minute

	minWorkers = 2 // so that half of them is one
)

// Run deletes namespaces whose hold is over, until ctx ends; then it returns nil, and
// nothing that it started runs on. No failure ends it. It deletes what is on hold whoever
// has put it there, which every update of a namespace can. Missing arguments and options out
// of range are refused with [namespace.ErrBadRequest].
func Run(ctx context.Context, n Namespaces, o *Options) error {
	switch {
	case ctx == nil:
		return refused("a context is required")
	case n == nil:
		return refused("the namespaces are nil")
	}
	options, err := o.withDefaults()
	if err != nil {
		return err
	}
	newLoop(ctx, n, options).run()
	return nil
}

// withDefaults returns the options to run with.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Workers == 0 {
		opts.Workers = defaultWorkers
	}
	if opts.Workers < minWorkers {
		return opts, refused(fmt.Sprintf("Options.Workers must be at least %d, got %d", minWorkers, opts.Workers))
	}
	for _, d := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"Patience", &opts.Patience, defaultPatience},
		{"MinDelay", &opts.MinDelay, defaultMinDelay},
		{"MaxDelay", &opts.MaxDelay, max(defaultMaxDelay, opts.MinDelay)},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 {
			return opts, refused(fmt.Sprintf("Options.%s cannot be negative, got %v", d.field, *d.value))
		}
	}
	if opts.MinDelay > opts.MaxDelay {
		return opts, refused(fmt.Sprintf("Options.MinDelay (%v) cannot exceed Options.MaxDelay (%v)", opts.MinDelay, opts.MaxDelay))
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts, nil
}

func refused(why string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: namespace.Resource, Message: "hold: " + why}
}
