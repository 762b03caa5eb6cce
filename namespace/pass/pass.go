// Package pass does one attempt, by one party, to empty one terminating
// namespace: read, delete content, decide, write status, finalize.
//
// It is the middle depth of embedding: for hosts that have a loop of their own,
// such as a cron job, a workflow engine or a reconciler. Package controller is
// that loop, ready-made.
//
// A pass knows namespaces through a small interface of its own, [Namespaces], so
// that a host may keep them wherever it likes. Package registry is one
// implementation of it.
//
// What the caller has to do:
//
//  1. Call [Run] for each namespace that is terminating and again while
//     [Outcome.Again] of its result is true: after [Result.After], or by a backoff of
//     its own when that is zero.
//  2. Hand [Result.Report] back as [Request.Previous] of the next pass for the same
//     incarnation, so that resource types which are empty for good are not asked again.
//  3. Call it again when a finalizer was added to a terminating namespace.
//
// It need not keep two passes for one namespace apart. A duplicate, also in another
// process, costs work and never safety (rule R11).
package pass

import (
	"context"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Namespaces is what a pass needs of the place where namespaces are kept.
// Errors match the kinds of package namespace. Implementations are safe for
// concurrent use; package controllertest checks them.
type Namespaces interface {
	// Get returns the namespace as it is now, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// UpdateStatus writes ns.Status and nothing else, if the namespace is still of
	// ns.UID and at ns.ResourceVersion; otherwise [namespace.ErrConflict], or
	// [namespace.ErrNotFound]. It returns the namespace as written.
	UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	// Finalize writes ns.Spec.Finalizers and nothing else, under the same condition.
	// If that leaves a terminating namespace without finalizers of either kind it is
	// removed in the same write (rule R1); it returns the namespace as written or as
	// removed.
	Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
}

// Primary is an optional interface of [Namespaces]. Party returns the owner of the finalizer
// that every namespace gets at its creation (rule R5). See [PartyOf].
type Primary interface {
	Party() namespace.Party
}

// Request says which namespace a pass is for.
type Request struct {
	Name string
	// UID is the incarnation that the pass is for; nothing is done to another one
	// of the same name (rule R8). Empty: the one that is found by the first read.
	UID string
	// Previous is the report of the pass before for the same incarnation; the zero
	// Report when there was none or it is not known.
	Previous deleter.Report
	// Patience is how long the deleter may take. After that its context is
	// cancelled, and the conditions tell of what did not answer. Zero: as long as
	// the context of the pass lives. A source that hangs can be waived only when it has
	// failed before that: where a call to it may take as long as Patience, or longer
	// ([deleter.Options].CallTimeout), it never is.
	Patience time.Duration
	// Trace traces the pass and its calls; nil traces nothing.
	Trace *Trace
}

// Trace is a set of hooks around a pass and its calls, for tracing and metrics. Any hook may
// be nil.
type Trace struct {
	// Start runs before the pass, which then uses the context that Start returns.
	Start func(ctx context.Context, req Request) context.Context
	// End runs after the pass, with the context that Start returned.
	End func(ctx context.Context, result Result, err error)
	// Calls traces each call to a source and to [Namespaces].
	Calls deleter.Trace
}

func (t *Trace) begin(ctx context.Context, req Request) context.Context {
	if t.Start != nil {
		ctx = t.Start(ctx, req)
	}
	if t.Calls.Start != nil || t.Calls.End != nil {
		ctx = deleter.WithTrace(ctx, &t.Calls)
	}
	return ctx
}

func (t *Trace) finish(ctx context.Context, result Result, err error) {
	if t.End != nil {
		t.End(ctx, result, err)
	}
}

// Result is what a pass came to.
type Result struct {
	Outcome   Outcome
	Namespace namespace.Namespace // as last read or written; the zero Namespace if it was never seen
	Report    deleter.Report      // what the deleter said; the zero Report if it was not asked
	After     time.Duration       // when to look again by the estimate; zero: no estimate, back off
	Conflicts int                 // how many of its writes were refused because somebody else had written
}

// Outcome is how a pass ended.
type Outcome uint8

// The outcomes. The zero Outcome is none.
const (
	Failed      Outcome = iota + 1 // something failed; the error says what
	Interrupted                    // the context ended before the deleter had answered; nothing was written
	Waiting                        // every source answered, and content is left
	Finalized                      // our finalizer is gone; the namespace is held by others
	Removed                        // our finalizer was the last, and the namespace is removed
	Gone                           // there is no such namespace
	Active                         // it is not terminating
	Replaced                       // another incarnation has the name
	NotHeld                        // our finalizer is not there; nothing to do
)

// Again reports whether the party still has something to do for the incarnation
// that the pass was for.
func (o Outcome) Again() bool { return o == Failed || o == Interrupted || o == Waiting }

var outcomes = [...]string{
	Failed: "failed", Interrupted: "interrupted", Waiting: "waiting", Finalized: "finalized", Removed: "removed",
	Gone: "gone", Active: "active", Replaced: "replaced", NotHeld: "not held",
}

// String returns the outcome in lower case, or "none".
func (o Outcome) String() string {
	if o == 0 || int(o) >= len(outcomes) {
		return "none"
	}
	return outcomes[o]
}
