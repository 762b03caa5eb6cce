package force

import (
	"context"
	"slices"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// begun is a call that is on record, with its end if that is too.
type begun struct {
	record audit.Record
	end    *audit.Record
}

func (b *begun) open() bool { return b != nil && b.end == nil }

// earlier returns the last call on record that was for the same and was not refused: nil
// if there was none.
func (d *drop) earlier(ctx context.Context) (*begun, error) {
	records, err := d.log.List(ctx, d.req.Name)
	if err != nil {
		return nil, failed(d.req.Name, "read what is on record", err)
	}
	var all []*begun
	for i, r := range records {
		if r.UID != d.req.UID {
			continue
		}
		switch r.Action {
		case audit.Forcing:
			if same(r.Finalizers, d.req.Finalizers) {
				all = append(all, &begun{record: r})
			}
		case audit.Forced, audit.Refused:
			for _, b := range all {
				if b.record.ID == r.Follows && (b.end == nil || b.end.Action == audit.Refused) {
					b.end = &records[i]
				}
			}
		}
	}
	for _, b := range slices.Backward(all) {
		if b.end == nil || b.end.Action == audit.Forced {
			return b, nil
		}
	}
	return nil, nil
}

// same reports whether a and b name the same finalizers, in whatever order.
func same(a, b []finalizer.Name) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// afterwards answers a call when nothing of what it names is held: an earlier one has
// dropped it, and perhaps not recorded that.
func (d *drop) afterwards(ctx context.Context, n *namespace.Namespace, earlier *begun) (Result, error) {
	if earlier == nil {
		return Result{}, d.nothing(n)
	}
	record, err := d.log.Get(ctx, d.req.Name, earlier.record.ID)
	if err != nil {
		return Result{}, failed(d.req.Name, "read what is on record", err)
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
	if earlier.end != nil {
		result.Dropped = slices.Clone(earlier.end.Finalizers)
		return result, nil
	}
	if d.req.DryRun {
		return result, nil
	}
	const detail = "found gone by this caller: dropped by the call that did not get to say so, or taken off by others since, such as their owners"
	return result, d.end(ctx, audit.Forced, record.ID, detail, result.Dropped)
}

// nothing says that there is nothing to be dropped.
func (d *drop) nothing(n *namespace.Namespace) error {
	switch {
	case n != nil:
		return refuse(namespace.ErrConflict, n.Name, "it has none of the finalizers %s; it has %s", list(d.req.Finalizers), list(n.Spec.Finalizers.Names()))
	case d.other != "":
		return refuse(namespace.ErrConflict, d.req.Name, "it has the uid %q now: the incarnation %q is gone", d.other, d.req.UID)
	}
	return refuse(namespace.ErrNotFound, d.req.Name, "not found")
}
