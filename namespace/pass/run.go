package pass

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// attempts bounds how often one pass decides and writes, the first time included. Each
// conflict is the progress of another writer, so more attempts would only spin.
const attempts = 6

// Run does one pass. It reads the namespace, stops if there is nothing to do, calls d to delete the
// party's content, decides ([namespace.Decide]), writes the status if it changed, and removes the
// party's finalizer once all content is gone. Without conflicts that is one read, at most one
// status write (two if a waiver ends meanwhile) and at most one finalize. Run does not write the
// status of a namespace that the finalize removes.
//
// The read precedes the deletion, so d observes the content after the namespace became
// Terminating (rule R7). If a write conflicts, because another party wrote too, the pass
// reads again and decides again from the same observation. It stops if the incarnation has
// changed (rule R8).
//
// Content that any earlier pass saw, even in another process, blocks a waiver until its
// source answers: the conditions record it ([phase.ContentLastSeen]).
//
// Run passes the valid, unexpired waivers ([declare.Waivers]) of the namespace to d as
// [deleter.Target].Waived. It accepts a waived failure only if the waiver is in force at the
// decision, and again after the write of the conditions if the finalizer is removed next. Each
// check uses the clock and the namespace as last read or written. Otherwise the failure counts
// ([ErrNotWaived]).
//
// The error is nil unless the outcome is [Failed] or [Interrupted]. It holds every cause for
// [errors.Is] and [errors.As]: the deleter's errors, a [*deleter.PanicError] if the deleter
// panicked, and a [*StorageError] for the read or the last write of the namespace that failed. Even
// then the conditions are written as the pass observed them, or the error holds the reason why they
// could not be (rule R9). Run refuses an invalid request with [namespace.ErrBadRequest] before it
// reads anything.
//
// Run is safe for concurrent use if namespaces and d are.
func Run(ctx context.Context, namespaces Namespaces, d deleter.Deleter, party namespace.Party, req Request) (result Result, err error) {
	if t := req.Trace; t != nil {
		ctx = t.begin(ctx, req)
		defer func() { t.finish(ctx, result, err) }()
	}
	p := run{namespaces: namespaces, deleter: d, party: party, req: req}
	defer func() {
		if v := recover(); v != nil {
			result, err = p.end(&deleter.PanicError{In: "the storage of the namespaces", Value: v, Stack: debug.Stack()})
		}
	}()
	if err := p.validate(ctx); err != nil {
		return Result{Outcome: Failed}, err
	}
	if stop, err := p.read(ctx); stop || err != nil {
		return p.end(err)
	}
	if err := p.deleteContent(ctx); err != nil {
		p.result.Outcome = Interrupted
		return p.result, fmt.Errorf("pass for namespace %q: %w", req.Name, err)
	}
	return p.end(p.writeOutcome(ctx))
}

// run is a running pass.
type run struct {
	namespaces Namespaces
	deleter    deleter.Deleter
	party      namespace.Party
	req        Request
	result     Result
	seen       namespace.Observed
}

func (p *run) validate(ctx context.Context) error {
	message := ""
	switch {
	case p.namespaces == nil:
		message = "a pass needs namespaces"
	case p.deleter == nil:
		message = "a pass needs a deleter"
	case p.req.Name == "":
		message = "a pass needs the name of a namespace"
	case p.req.Patience < 0:
		message = fmt.Sprintf("Request.Patience must not be negative, is %v", p.req.Patience)
	default:
		var err error
		if p.party, err = PartyOf(p.namespaces, p.party); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
	return refusal(p.req.Name, "%s", message)
}

// PartyOf returns the party to use if party is requested for namespaces, or
// [namespace.ErrBadRequest]. Only the host configures the finalizer that it adds to every
// namespace ([HostParty]), because a mismatch between two configurations would surface only
// as a stuck deletion:
//
//	party                          host has a party     any other host
//	no finalizer                   the host's party     refused
//	the host's finalizer           the host's party     -
//	another finalizer              party                party
//	another finalizer, primary     refused              party
//
// A party of another finalizer is an additional one: a process for the host's party must
// run too. It cannot be primary, since both would write the same conditions (rule R9). The
// owner of [finalizer.Kubernetes] is always primary.
func PartyOf(namespaces Namespaces, party namespace.Party) (namespace.Party, error) {
	host, ok := namespaces.(HostParty)
	if !ok {
		return party, checkFinalizer(party)
	}
	own := host.Party()
	if party.Finalizer == "" || party.Finalizer == own.Finalizer {
		return own, checkFinalizer(own)
	}
	if party.Primary || party.Finalizer == finalizer.Kubernetes {
		return party, refusal("", "finalizer %q cannot be primary: every namespace of this host has the finalizer %q, whose owner is the primary party; "+
			"leave Party.Finalizer empty to act as that party", party.Finalizer, own.Finalizer)
	}
	return party, checkFinalizer(party)
}

func checkFinalizer(party namespace.Party) error {
	if err := party.Finalizer.Validate(); err != nil {
		return refusal("", "the party's finalizer %q is not valid: %w", party.Finalizer, err)
	}
	return nil
}

// refusal returns a [namespace.ErrBadRequest]. name is the namespace, or empty.
func refusal(name, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &namespace.Error{
		Kind: namespace.ErrBadRequest, Resource: namespace.Resource, Name: name, Message: err.Error(), Err: errors.Unwrap(err),
	}
}

// end returns the result. An error makes its outcome Failed.
func (p *run) end(err error) (Result, error) {
	if err == nil {
		return p.result, nil
	}
	p.result.Outcome = Failed
	return p.result, fmt.Errorf("pass for namespace %q: %w", p.req.Name, err)
}

// read reads the namespace. It reports true, with the outcome set, if the pass has nothing to
// do.
func (p *run) read(ctx context.Context) (stop bool, err error) {
	var ns namespace.Namespace
	err = storageCall(ctx, "read", func(ctx context.Context) (err error) {
		ns, err = p.namespaces.Get(ctx, p.req.Name)
		return err
	})
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		p.result.Outcome = Gone
		return true, nil
	case err != nil:
		return false, err
	}
	p.result.Namespace = ns
	if p.req.UID == "" {
		p.req.UID = ns.UID
	}
	switch {
	case ns.UID != p.req.UID:
		p.result.Outcome = Replaced
	case p.party.HasWork(ns):
		return false, nil
	case ns.Phase() == phase.Active:
		p.result.Outcome = Active
	default:
		p.result.Outcome = NoFinalizer
	}
	return true, nil
}

// deleteContent calls the deleter. A failure of the deleter is an observation. The error is
// that of the context, if it ended before the deleter answered.
func (p *run) deleteContent(ctx context.Context) error {
	ns := p.result.Namespace
	target := deleter.Target{Namespace: ns.Name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time, Waived: inForce(ns, time.Now())}
	within, cancel := ctx, context.CancelFunc(func() {})
	if p.req.Patience > 0 {
		within, cancel = context.WithTimeoutCause(ctx, p.req.Patience, &PatienceError{p.req.Patience})
	}
	defer cancel()
	previous, unknown := withRecorded(ns, p.party, p.req.Previous)
	if len(unknown) > 0 {
		target.Waived = nil // the waivers may cover such types
	}
	var report deleter.Report
	err := deleter.CatchPanic("the deleter", func() (err error) {
		report, err = p.deleter.Delete(within, target, previous)
		return err
	})
	if err != nil && report.UID == "" && len(report.Results) == 0 { // after a panic, for example
		report.LastSeen = previous.LastCounts()
	}
	p.result.Report = report
	if err != nil && ctx.Err() != nil {
		return multierr.Append(context.Cause(ctx), err)
	}
	if err != nil && within.Err() != nil {
		err = multierr.Append(context.Cause(within), err)
	}
	if err == nil {
		err = report.Err()
	}
	p.seen = namespace.Observed{UID: ns.UID, Observation: report.Observation(), Failed: err, Estimate: report.Estimate()}
	if err != nil || p.seen.Partial() {
		p.seen.LastSeen = append(p.seen.LastSeen, unknown...)
	}
	return nil
}

// writeOutcome writes the decision, again after a fresh read if a concurrent write
// interferes.
func (p *run) writeOutcome(ctx context.Context) error {
	var err error
	for range attempts {
		if err = p.write(ctx); err == nil || !retriable(err) {
			break
		}
		if errors.Is(err, namespace.ErrConflict) {
			p.result.Conflicts++
		}
		stop, readErr := p.read(ctx)
		if readErr != nil {
			err = multierr.Append(readErr, err)
			break
		}
		if stop {
			return nil
		}
	}
	if p.seen.Failed != nil {
		err = multierr.Append(p.seen.Failed, err)
	}
	return err
}

// retriable reports whether err may disappear after a fresh read.
func retriable(err error) bool {
	return errors.Is(err, namespace.ErrConflict) || errors.Is(err, namespace.ErrNotFound) || errors.Is(err, namespace.ErrUnknownOutcome)
}

// write decides on the namespace as last read and carries the decision out.
func (p *run) write(ctx context.Context) error {
	now := time.Now()
	p.checkWaivers(now)
	decision := namespace.Decide(p.result.Namespace, p.party, p.seen, now)
	p.result.Outcome, p.result.After = Waiting, decision.After
	// The status of a namespace that the next write removes is not written.
	if decision.StatusChanged && !decision.Remove {
		if err := p.writeStatus(ctx, decision); err != nil {
			return err
		}
		if decision.Finalize && p.checkWaivers(time.Now()) {
			return p.write(ctx) // a waiver ended during the write, so its failures count
		}
	}
	if !decision.Finalize {
		return nil
	}
	ns := p.result.Namespace
	ns.Spec.Finalizers = decision.Finalizers
	err := storageCall(ctx, "finalize", func(ctx context.Context) (err error) {
		ns, err = p.namespaces.Finalize(ctx, ns)
		return err
	})
	if err != nil {
		if decision.Remove && decision.StatusChanged && !retriable(err) && ctx.Err() == nil {
			// The namespace stays, so its conditions must be true (rule R9).
			err = multierr.Append(err, p.writeStatus(ctx, decision))
		}
		return err
	}
	p.result.Namespace, p.result.Outcome = ns, Finalized
	if namespace.Removable(ns) {
		p.result.Outcome = Removed
	}
	return nil
}

func (p *run) writeStatus(ctx context.Context, decision namespace.Decision) error {
	ns := p.result.Namespace
	ns.Status = decision.Status
	err := storageCall(ctx, "write status", func(ctx context.Context) (err error) {
		ns, err = p.namespaces.UpdateStatus(ctx, ns)
		return err
	})
	if err == nil {
		p.result.Namespace = ns
	}
	return err
}

// storageCall makes one traced call to the storage of the namespaces. Its error is a
// [*StorageError].
func storageCall(ctx context.Context, op string, f func(context.Context) error) error {
	call := deleter.Call{Resource: namespace.ResourceType{Name: namespace.Resource}, Op: deleter.Op(op)}
	err := deleter.TraceCall(ctx, call, func(ctx context.Context) (int, error) { return 0, f(ctx) })
	if err != nil {
		return &StorageError{op, err}
	}
	return nil
}
