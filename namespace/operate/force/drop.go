package force

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Request is a request to drop finalizers.
type Request struct {
	Name       string
	UID        string           // the incarnation (rule R8)
	Finalizers []finalizer.Name // the finalizers in spec.finalizers to drop; the namespace must have all of them
	// By is the operator. If the context has an authenticated user ([audit.WithActor]), By
	// must be empty or that user. Otherwise it is required, and not verified.
	By     string
	Reason string // why the finalizers are dropped
	// Incomplete accepts sources that do not answer, although the inventory then lacks their
	// objects. The record says so.
	Incomplete bool
	// DryRun returns the expected result and writes nothing.
	DryRun bool
}

// Result is the result of [Drop].
type Result struct {
	// ID is the record for [Sweep]. It is empty in a dry run, and if neither this call nor an
	// earlier one that it completed dropped a finalizer.
	ID        string
	Inventory audit.Inventory     // the remaining content before the drop
	Dropped   []finalizer.Name    // in a dry run: the finalizers that would be dropped
	Removed   bool                // no finalizer is left, so the namespace is removed
	Namespace namespace.Namespace // as last read or written; zero if it did not exist
}

// Drop removes finalizers from a terminating namespace by force. It takes the inventory,
// records it with the request ([audit.Forcing]), removes the finalizers, and records that
// ([audit.Forced]) or the reason for its failure ([audit.Refused]). If no other finalizer
// holds the namespace, the same write removes it (rule R1).
//
// After a failure or a crash, the same call again completes the earlier one. It drops
// finalizers that the namespace still has, after a new inventory, and records those that are
// gone as dropped, even if another client removed some of them. If the earlier call was
// complete, it returns the result of that. If other clients remove all of the finalizers
// between the record and the write, nothing is dropped: Drop returns no error, and an empty
// Dropped and ID. If such a client was another Drop, this
// call returns its result, and records its end if that is missing.
//
// The errors:
//
//   - [namespace.ErrInvalid]: an invalid request, also one without By or Reason.
//   - [namespace.ErrNotFound]: the namespace does not exist.
//   - [namespace.ErrConflict]: another incarnation, or a finalizer that the namespace does not
//     have, before or after the inventory.
//   - [namespace.ErrForbidden]: the namespace is not terminating, or By is not the
//     authenticated user.
//   - [ErrIncomplete]: a source did not answer.
//   - Errors of the log before the write: nothing is changed.
//   - Errors of Finalize; [namespace.ErrUnknownOutcome] if a second read did not show whether
//     the finalizers were dropped.
//   - [ErrUnrecorded]: the finalizers are dropped, and the last record is missing.
func Drop(ctx context.Context, namespaces Namespaces, content Lister, log Log, req Request) (Result, error) {
	d := drop{namespaces: namespaces, content: content, log: log, req: req}
	if err := d.validate(ctx); err != nil {
		return Result{}, err
	}
	n, held, earlier, err := d.observe(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(held) == 0 {
		return d.complete(ctx, n, earlier)
	}
	if err := d.check(*n, held, earlier); err != nil {
		return Result{}, err
	}
	inventory, wrong := d.inventory(ctx, *n)
	// The inventory is of this incarnation only if that still exists (rule R8).
	n, held, earlier, err = d.observe(ctx)
	switch {
	case err != nil:
		return Result{}, err
	case len(held) == 0:
		return d.complete(ctx, n, earlier)
	}
	if err := d.check(*n, held, earlier); err != nil {
		return Result{}, err // an owner removed a finalizer meanwhile
	}
	result := Result{Inventory: inventory, Namespace: *n}
	switch {
	case wrong != nil:
		return result, wrong
	case req.DryRun:
		result.Dropped, result.Removed = held, namespace.Removable(without(*n, held))
		return result, nil
	}
	return d.drop(ctx, inventory, earlier)
}

// drop is a running call.
type drop struct {
	namespaces Namespaces
	content    Lister
	log        Log
	req        Request
	other      string // the uid of another incarnation that has the name
}

func (d *drop) validate(ctx context.Context) (err error) {
	name := d.req.Name
	if err := checkName(name); err != nil {
		return err
	}
	if err := (deleter.Target{Namespace: name, UID: d.req.UID}).ValidateView(); err != nil {
		return refuse(namespace.ErrInvalid, name, "UID must be the uid of the namespace: %v", err)
	}
	if len(d.req.Finalizers) == 0 {
		return refuse(namespace.ErrInvalid, name, "Finalizers is empty: list the finalizers to drop")
	}
	if err := checkFinalizers(name, "Finalizers", d.req.Finalizers); err != nil {
		return err
	}
	if d.req.By, err = operator(ctx, name, d.req.By); err != nil {
		return err
	}
	if err := checkRecord(d.record(audit.Forcing, "", "")); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failed(name, "start", context.Cause(ctx))
	}
	return nil
}

// observe returns the namespace and its named finalizers, as read does, and the earlier call.
func (d *drop) observe(ctx context.Context) (*namespace.Namespace, []finalizer.Name, *audit.Drop, error) {
	n, held, err := d.read(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	earlier, err := d.earlier(ctx) // after the read, so that it has the record of any drop that the read shows
	return n, held, earlier, err
}

// read returns the namespace, or nil if the incarnation does not exist, and its finalizers
// among the named ones.
func (d *drop) read(ctx context.Context) (*namespace.Namespace, []finalizer.Name, error) {
	n, err := d.namespaces.Get(ctx, d.req.Name)
	d.other = ""
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, failed(d.req.Name, "read the namespace", err)
	case n.UID != d.req.UID:
		d.other = n.UID
		return nil, nil, nil
	}
	var held []finalizer.Name
	for _, f := range d.req.Finalizers {
		if n.Spec.Finalizers.Has(f) {
			held = append(held, f)
		}
	}
	return &n, held, nil
}

// check refuses a namespace that may not be forced. To complete an earlier call, some of the
// finalizers may be gone.
func (d *drop) check(n namespace.Namespace, held []finalizer.Name, earlier *audit.Drop) error {
	if n.Phase() != phase.Terminating {
		return refuse(namespace.ErrForbidden, n.Name, "it is %s, and only a terminating namespace can be forced: DELETE it first", n.Phase())
	}
	for _, f := range d.req.Finalizers {
		if !unfinished(earlier) && !slices.Contains(held, f) {
			return refuse(namespace.ErrConflict, n.Name, "it does not have the finalizer %q; its finalizers are %s", f, list(n.Spec.Finalizers.Names()))
		}
	}
	return nil
}

// inventory lists the remaining content.
func (d *drop) inventory(ctx context.Context, n namespace.Namespace) (audit.Inventory, error) {
	target := deleter.Target{Namespace: n.Name, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time}
	listed, err := d.content.Inventory(ctx, target)
	if ctx.Err() != nil {
		return audit.Inventory{}, failed(n.Name, "take the inventory", context.Cause(ctx))
	}
	kept := recorded(listed, err)
	if len(kept.Failures) > 0 && !d.req.Incomplete {
		return kept, failed(n.Name, fmt.Sprintf("nothing was dropped, because %d source(s) did not answer; repair them, or set Incomplete to drop the finalizers although the inventory lacks the objects of these sources", len(kept.Failures)),
			because(ErrIncomplete, err))
	}
	return kept, nil
}

// drop records the request, removes the finalizers, and records the result.
func (d *drop) drop(ctx context.Context, inventory audit.Inventory, earlier *audit.Drop) (Result, error) {
	record := d.record(audit.Forcing, "", "")
	record.Inventory = &inventory
	if unfinished(earlier) {
		record.Follows = earlier.Forcing.ID
	}
	if len(inventory.Failures) > 0 {
		record.Detail = fmt.Sprintf("the operator accepted an incomplete inventory: %d source(s) did not answer", len(inventory.Failures))
	}
	record, err := d.log.Write(ctx, record)
	if err != nil {
		return Result{Inventory: inventory}, failed(d.req.Name, "nothing was dropped, because the audit record could not be written", err)
	}
	result := Result{Inventory: inventory}
	err = d.finalize(ctx, &result)
	switch {
	case errors.Is(err, namespace.ErrUnknownOutcome):
		return result, err // the record stays open until a later call can read the outcome
	case err != nil:
		return result, errors.Join(err, d.end(ctx, audit.Refused, record.ID, err.Error(), nil))
	case len(result.Dropped) == 0:
		return d.overtaken(ctx, result, record.ID)
	}
	result.ID = record.ID
	return result, d.end(ctx, audit.Forced, record.ID, ending(result), result.Dropped)
}

// overtaken handles finalizers that other clients removed after the record. The client may
// have been another Drop that could not record its end.
func (d *drop) overtaken(ctx context.Context, result Result, id string) (Result, error) {
	if err := d.end(ctx, audit.Refused, id, "other clients removed the finalizers meanwhile", nil); err != nil {
		return result, err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	n, held, earlier, err := d.observe(ctx)
	if err != nil || len(held) > 0 || earlier == nil {
		return result, err
	}
	return d.complete(ctx, n, earlier)
}

// ending describes the result for the record.
func ending(r Result) string {
	if r.Removed {
		return "the namespace is removed"
	}
	return "the namespace stays until these finalizers are removed: " + list(append(r.Namespace.Spec.Finalizers.Names(), r.Namespace.Finalizers.Names()...))
}

// recorded converts an inventory for the record. It is complete if it has no failures.
func recorded(listed deleter.Inventory, err error) audit.Inventory {
	var inventory audit.Inventory
	for _, o := range listed.Objects {
		inventory.Objects = append(inventory.Objects, audit.Object{
			Resource: o.Resource.String(), Name: o.Name, UID: o.UID, Finalizers: o.Finalizers,
		})
	}
	report := listed.Report
	for f := range report.Failures() {
		inventory.Failures = append(inventory.Failures, failure(f.Source(), f.Err))
	}
	for _, r := range report.Results {
		if r.Err == nil && (r.More || r.Waiting) {
			inventory.Failures = append(inventory.Failures, audit.Failure{Source: r.Resource.String(), Text: "the listing is incomplete"})
		}
	}
	if err != nil && len(inventory.Failures) == 0 {
		inventory.Failures = append(inventory.Failures, failure("", err))
	}
	return inventory
}

func failure(source string, err error) audit.Failure {
	return audit.Failure{Source: source, Text: phase.Truncate(err.Error(), maxText)}
}

// record returns a record of this request.
func (d *drop) record(action audit.Action, follows, detail string) audit.Record {
	return audit.Record{
		Action: action, Namespace: d.req.Name, UID: d.req.UID, By: d.req.By, Reason: d.req.Reason,
		Finalizers: slices.Clone(d.req.Finalizers), Follows: follows, Detail: phase.Truncate(detail, maxText),
	}
}

// end writes the final record, even if ctx has ended.
func (d *drop) end(ctx context.Context, action audit.Action, follows, detail string, dropped []finalizer.Name) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	record := d.record(action, follows, detail)
	if action == audit.Forced {
		record.Finalizers = dropped
	}
	_, err := d.log.Write(ctx, record)
	switch {
	case err == nil:
		return nil
	case action == audit.Forced:
		err = because(ErrUnrecorded, err)
	}
	return failed(d.req.Name, "record the end of "+follows, err)
}

// list joins names.
func list(names []finalizer.Name) string {
	if len(names) == 0 {
		return "none"
	}
	texts := make([]string, len(names))
	for i, f := range names {
		texts[i] = string(f)
	}
	return strings.Join(texts, ", ")
}
