// Package controller runs passes for every namespace that is terminating: it
// watches, queues, retries and reports. It is the deepest way to embed the
// library: [New], [Controller.Run], and forget.
//
// Nothing waits for a fixed period. The first pass of a namespace begins when the
// watch tells that it is terminating; the next one when the deleter tells that some
// of its content has gone ([deleter.Waiter]), else when that should have gone by
// estimate, and in any case after an exponential backoff of that namespace alone.
//
// A hanging namespace does not delay others (rule R10). A namespace that is new, or whose
// sources answered in its last pass, waits for a pass with unresponsive sources for at most
// [Options.Long]. If it is new or made progress and n others are ahead of it in the queue,
// it starts within (n/Workers + 1) * Long, however many passes hang, as long as fewer than
// half of Parked run long and make progress.
//
// A namespace is never processed by two workers of one controller at once, and any
// number of controllers, of one party or several, may share one [pass.Namespaces]
// (rule R11).
//
// Several controllers of one party do the work of one when they divide it
// ([Options.Division]); package replicas does that through a store.
//
// A namespace that waits costs a few hundred bytes: of its last report the
// controller keeps which types are empty for good and how much is left of the others.
package controller

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Namespaces is what the controller needs of the place where namespaces are
// kept: what a pass needs, and to be told which are terminating.
type Namespaces interface {
	pass.Namespaces
	// Terminating yields, when after is empty, one [namespace.EventTerminating] for
	// each namespace that is terminating now, then one [namespace.EventSynced], and
	// after that each namespace that becomes terminating (again with every finalizer
	// that is added to a terminating one) or is removed. When after is the Token of
	// an earlier event it yields only what happened since, and an EventSynced as soon
	// as that is caught up. Further EventSynced may follow at any time: they only
	// move the token on. [namespace.ErrGone] says that it cannot tell what happened
	// since, and the caller starts anew. The loop runs in the caller's goroutine
	// until the caller breaks or ctx ends; then the last error is ctx's cause.
	Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error]
}

// ErrRunning is the answer to a second Run beside the first.
var ErrRunning = errors.New("the controller is running already")

// Controller finalizes the namespaces of one party. Its methods are safe for
// concurrent use.
type Controller struct {
	namespaces Namespaces
	deleter    deleter.Deleter
	waiter     deleter.Waiter // the deleter, if it can tell; else nil
	party      namespace.Party
	options    Options
	delays     delays
	busy       atomic.Bool
}

// New returns a controller of party's finalizer that deletes party's content with
// d. The zero Party selects the owner of the finalizer that namespaces adds to every
// namespace ([pass.PartyOf]). A nil opts means the defaults. For a missing argument, an
// invalid finalizer or an option out of range New returns [namespace.ErrBadRequest].
func New(namespaces Namespaces, d deleter.Deleter, party namespace.Party, opts *Options) (*Controller, error) {
	if namespaces == nil {
		return nil, optionError("a controller needs namespaces")
	}
	if d == nil {
		return nil, optionError("a controller needs a deleter")
	}
	party, err := pass.PartyOf(namespaces, party)
	if err != nil {
		return nil, err
	}
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	waiter, _ := d.(deleter.Waiter)
	return &Controller{
		namespaces: namespaces,
		deleter:    d,
		waiter:     waiter,
		party:      party,
		options:    options,
		delays:     delays{options.MinDelay, options.MaxDelay},
	}, nil
}

// Run works until ctx ends and returns nil then; nothing that it started runs on.
// It may be called again after it returned, but not beside itself: that is
// [ErrRunning]. What was under way when ctx ended is interrupted, and the next run,
// of this or any other controller, takes it up (rule R11).
//
// No failure ends it: a lost watch is resumed, a failed pass repeated, and a panic
// of a hook, of the logger, of the deleter or of the place where namespaces are kept
// survived.
func (c *Controller) Run(ctx context.Context) error {
	if ctx == nil {
		return optionError("a controller needs a context to run")
	}
	if !c.busy.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.busy.Store(false)
	newLoop(ctx, c).run()
	return nil
}
