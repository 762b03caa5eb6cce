package force

import (
	"context"
	"slices"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// earlier returns the last recorded call for the same incarnation and finalizers, or nil.
func (d *drop) earlier(ctx context.Context) (*audit.Drop, error) {
	records, err := d.log.List(ctx, d.req.Name)
	if err != nil {
		return nil, failed(d.req.Name, "read the audit records", err)
	}
	for _, call := range slices.Backward(audit.Drops(records)) {
		if r := call.Forcing; r != nil && r.UID == d.req.UID && same(r.Finalizers, d.req.Finalizers) {
			return &call, nil
		}
	}
	return nil, nil
}

// unfinished reports whether an earlier call has no end on record.
func unfinished(earlier *audit.Drop) bool { return earlier != nil && earlier.Forced == nil }

// same reports whether a and b have the same finalizers in any order.
func same(a, b []finalizer.Name) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// complete handles a request whose finalizers are all gone: an earlier call dropped them, and
// may not have recorded its end.
func (d *drop) complete(ctx context.Context, n *namespace.Namespace, earlier *audit.Drop) (Result, error) {
	if earlier == nil {
		return Result{}, d.nothingToDrop(n)
	}
	record, err := d.log.Get(ctx, d.req.Name, earlier.Forcing.ID)
	if err != nil {
		return Result{}, failed(d.req.Name, "read the audit records", err)
	}
	result := Result{Dropped: slices.Clone(record.Finalizers), Removed: n == nil}
	if !d.req.DryRun {
		result.ID = record.ID
	}
	if record.Inventory != nil {
		result.Inventory = *record.Inventory
	}
	if n != nil {
		result.Namespace = *n
	}
	if earlier.Forced != nil {
		result.Dropped = slices.Clone(earlier.Forced.Finalizers)
		return result, nil
	}
	if d.req.DryRun {
		return result, nil
	}
	const detail = "the finalizers were gone at the next call: the recorded call dropped them before it ended, or other clients removed them, such as their owners"
	return result, d.end(ctx, audit.Forced, record.ID, detail, result.Dropped)
}

// nothingToDrop returns the reason why the finalizers are gone without an earlier call.
func (d *drop) nothingToDrop(n *namespace.Namespace) error {
	switch {
	case n != nil:
		return refuse(namespace.ErrConflict, n.Name, "it has none of the finalizers %s; its finalizers are %s", list(d.req.Finalizers), list(n.Spec.Finalizers.Names()))
	case d.other != "":
		return refuse(namespace.ErrConflict, d.req.Name, "the incarnation %q is gone; the namespace now has the uid %q", d.req.UID, d.other)
	}
	return refuse(namespace.ErrNotFound, d.req.Name, "not found")
}
