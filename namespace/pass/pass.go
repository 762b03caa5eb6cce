// Package pass does one attempt, by one party, to empty one terminating namespace: read,
// delete content, decide, write the status, finalize.
//
// It is the middle depth of embedding, for hosts with a loop of their own, such as a cron
// job, a workflow engine or a reconciler. Package controller is a complete loop.
//
// A pass knows namespaces through the small interface [Namespaces], so a host may keep them
// anywhere. Package registry implements it.
//
// The caller must:
//
//  1. Call [Run] for each terminating namespace, and again while [Outcome.Again] of its
//     result is true: after [Result.After], or by a backoff of its own if that is zero.
//  2. Pass [Result.Report] as [Request.Previous] of the next pass for the same incarnation,
//     so that resource types which are empty for good are not called again.
//  3. Call it again when a finalizer was added to a terminating namespace.
//
// Several passes for one namespace may run at once, also in different processes. A duplicate
// costs work, never safety (rule R11).
package pass

import (
	"context"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Namespaces reads and writes namespaces. Its errors match the kinds of package namespace.
// Implementations are safe for concurrent use; package controllertest checks them.
type Namespaces interface {
	// Get returns the current namespace, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// UpdateStatus writes only ns.Status, if the namespace still has ns.UID and
	// ns.ResourceVersion. Otherwise it fails with [namespace.ErrConflict] or
	// [namespace.ErrNotFound]. It returns the namespace as written.
	UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	// Finalize writes only ns.Spec.Finalizers, under the same condition. If that leaves a
	// terminating namespace without finalizers of either kind, the same write removes it
	// (rule R1). It returns the namespace as written or as removed.
	Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
}

// HostParty is an optional interface of [Namespaces]. Party returns the owner of the finalizer
// that every namespace gets at its creation (rule R5). See [PartyOf].
type HostParty interface {
	Party() namespace.Party
}

// Request selects the namespace of a pass.
type Request struct {
	Name string
	// UID is the incarnation. The pass does nothing to another one of the same name (rule
	// R8). Empty: the incarnation that the first read returns.
	UID string
	// Previous is the report of the previous pass for the same incarnation, or the zero
	// Report.
	Previous deleter.Report
	// Patience bounds the time that the deleter may take. After that its context ends, and
	// the conditions report the sources that did not answer. Zero: no bound beside the
	// context of the pass. Patience must exceed [deleter.Options].CallTimeout: a source that
	// hangs is named, and can be waived, only if its call fails first.
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

// Result is the result of a pass.
type Result struct {
	Outcome   Outcome
	Namespace namespace.Namespace // as last read or written; zero if the pass could not read it
	Report    deleter.Report      // the deleter's report; zero if it was not called
	After     time.Duration       // estimated delay until the next pass is useful; zero: unknown, back off
	Conflicts int                 // writes that were refused because of a concurrent write
}

// Outcome is the outcome of a pass.
type Outcome uint8

// The outcomes. The zero Outcome is none.
const (
	Failed      Outcome = iota + 1 // a call failed; the error holds the cause
	Interrupted                    // the context ended while the deleter ran; nothing was written
	Waiting                        // nothing failed, and content remains or may still appear
	Finalized                      // the party's finalizer is removed; other finalizers remain
	Removed                        // the party's finalizer was the last, and the namespace is removed
	Gone                           // the namespace does not exist
	Active                         // the namespace is not terminating
	Replaced                       // another incarnation has the name
	NoFinalizer                    // the namespace does not have the party's finalizer
)

// Again reports whether the party still has work for the incarnation of the pass.
func (o Outcome) Again() bool { return o == Failed || o == Interrupted || o == Waiting }

var outcomes = [...]string{
	Failed: "failed", Interrupted: "interrupted", Waiting: "waiting", Finalized: "finalized", Removed: "removed",
	Gone: "gone", Active: "active", Replaced: "replaced", NoFinalizer: "no finalizer",
}

// String returns the outcome in lower case, or "none".
func (o Outcome) String() string {
	if o == 0 || int(o) >= len(outcomes) {
		return "none"
	}
	return outcomes[o]
}
