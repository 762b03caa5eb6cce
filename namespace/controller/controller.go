// Package controller runs passes for every terminating namespace: it watches, queues,
// passes and requeues. It is the deepest way to embed the library: call [New] and
// [Controller.Run].
//
// The first pass of a namespace begins when the watch reports that it is terminating. The next
// one begins when a [deleter.Waiter] reports that content is gone; otherwise after the estimate of
// its sources or the exponential backoff of that namespace alone, whichever is longer.
//
// A hanging namespace does not delay others (rule R10). Passes of namespaces that are new or make
// progress have workers of their own, and each pass occupies one for at most [Options.Long]. After
// that it continues beside them, and is interrupted only if it makes no progress and another pass
// needs its slot. So a new namespace with n others ahead of it in the queue starts within
// (n/Workers + 1) * Long, whatever hangs. The bound fails only while SlowWorkers/2 or more passes
// have run longer than Long and still make progress.
//
// One controller never runs two passes for a namespace at once. Any number of controllers,
// of one party or several, may share one [pass.Namespaces] (rule R11). Controllers of one
// party can divide the namespaces between them ([Options.Division]); package replicas does
// that through a store.
//
// An idle namespace costs a few hundred bytes: the controller keeps of its last report only
// which types are empty for good and how many objects the others have left.
package controller

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Namespaces is the storage of namespaces as the controller uses it. Package registry
// implements it, and package controllertest checks other implementations.
type Namespaces interface {
	pass.Namespaces
	// Terminating watches the terminating namespaces.
	//
	// If after is empty, it yields one [namespace.EventPresent] for each terminating
	// namespace, one [namespace.EventSynced], and then each change: a namespace becomes
	// terminating, gets another finalizer while terminating, or is removed. If after is the
	// Token of an earlier event, it yields the changes since, one EventSynced, and then
	// each change. Further EventSynced may follow at any time to advance the token.
	//
	// It ends with [namespace.ErrGone] if it no longer knows the changes since after; the
	// controller then lists again. It runs in the caller's goroutine until the caller
	// breaks or ctx ends; in the latter case the last error is ctx's cause.
	Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error]
}

// ErrRunning is the error of a second concurrent Run.
var ErrRunning = errors.New("the controller is already running")

// Controller finalizes the namespaces of one party. Its methods are safe for concurrent
// use.
type Controller struct {
	namespaces Namespaces
	deleter    deleter.Deleter
	waiter     deleter.Waiter // the deleter, if it implements Waiter; else nil
	party      namespace.Party
	options    Options
	backoff    backoff.Exponential
	running    atomic.Bool
}

// New returns a controller that removes party's finalizer from namespaces once d has
// deleted their content. The zero Party selects the owner of the finalizer that every
// namespace gets at its creation ([pass.PartyOf]). A nil opts selects the defaults. New
// returns an error if an argument is missing, the finalizer is invalid, or an option is out
// of range.
func New(namespaces Namespaces, d deleter.Deleter, party namespace.Party, opts *Options) (*Controller, error) {
	if namespaces == nil || d == nil {
		return nil, errors.New("controller: New needs namespaces and a deleter")
	}
	party, err := pass.PartyOf(namespaces, party)
	if err != nil {
		return nil, err
	}
	var options Options
	if opts != nil {
		options = *opts
	}
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	waiter, _ := d.(deleter.Waiter)
	return &Controller{
		namespaces: namespaces,
		deleter:    d,
		waiter:     waiter,
		party:      party,
		options:    options,
		backoff:    backoff.Exponential{Min: options.MinDelay, Max: options.MaxDelay},
	}, nil
}

// Run works until ctx ends. It then interrupts the running passes, waits for every
// goroutine that it started, and returns nil. The next Run, of this or any other
// controller, continues their work (rule R11). A concurrent second Run returns
// [ErrRunning].
//
// No failure ends Run: it resumes a lost watch, repeats a failed pass, and survives a panic
// of a hook, of the logger, of the deleter, of the division or of the namespaces.
func (c *Controller) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	newLoop(ctx, c).run()
	return nil
}
