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

// Request is what [Drop] is to do.
type Request struct {
	Name       string
	UID        string           // the incarnation that is meant (rule R8)
	Finalizers []finalizer.Name // of spec.finalizers; the namespace must have all of them
	// By is who does it. If the context says that ([audit.WithActor]) it may be left out,
	// and nobody else may be named; else it is a claim.
	By     string
	Reason string // why
	// Incomplete accepts that sources do not answer, so that what they hold is not in
	// the inventory. That is on record.
	Incomplete bool
	// DryRun answers what would be done, and writes nothing.
	DryRun bool
}

// Result is what [Drop] did.
type Result struct {
	// ID is of the record that [Sweep] goes by. It is set only if something was dropped,
	// by this call or by an earlier one that it finished; never in a dry run.
	ID        string
	Inventory audit.Inventory     // what was left before
	Dropped   []finalizer.Name    // in a dry run: those that would be
	Removed   bool                // nothing holds the namespace any more: it is gone
	Namespace namespace.Namespace // as it was last seen; zero if it was gone
}

// Drop takes finalizers off a terminating namespace by force: it takes the inventory,
// records it with the request ([audit.Forcing]), takes the finalizers off, and records
// that ([audit.Forced]), or why it could not ([audit.Refused]). If nothing else holds
// the namespace then it is removed in that same write (rule R1).
//
// The same call again, after a failure or a crash at any moment, finishes what was
// begun: finalizers that are held still are dropped after a new inventory, those that
// are gone are put on record as such, also if some of them went otherwise; one that was
// finished returns what it did. When others have taken them all off between the record
// and the write nothing is left to be done: Dropped and ID are empty then, and there is
// no error. If those others were another such call, this one finishes that.
//
// The errors: [namespace.ErrInvalid] for a request that makes no sense, without By and
// Reason too; [namespace.ErrNotFound], [namespace.ErrConflict] for another incarnation
// or a finalizer that the namespace does not have, also if that came about while the
// inventory was taken; [namespace.ErrForbidden] for one that is not terminating, and for
// a By that is not who asks; [ErrIncomplete]; those of the log, which leave everything as
// it was; those of Finalize; [namespace.ErrUnknownOutcome] if not even a second look told
// whether they were dropped; and [ErrUnrecorded].
func Drop(ctx context.Context, namespaces Namespaces, content Inventory, log Log, req Request) (Result, error) {
	d := drop{namespaces: namespaces, content: content, log: log, req: req}
	if err := d.validate(ctx); err != nil {
		return Result{}, err
	}
	n, held, earlier, err := d.look(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(held) == 0 {
		return d.afterwards(ctx, n, earlier)
	}
	if err := d.check(*n, held, earlier); err != nil {
		return Result{}, err
	}
	inventory, wrong := d.inventory(ctx, *n)
	// What was listed is of this incarnation only if that is there still (rule R8).
	n, held, earlier, err = d.look(ctx)
	switch {
	case err != nil:
		return Result{}, err
	case len(held) == 0:
		return d.afterwards(ctx, n, earlier)
	}
	if err := d.check(*n, held, earlier); err != nil {
		return Result{}, err // an owner is back: it is not as the request says
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

// drop is one call.
type drop struct {
	namespaces Namespaces
	content    Inventory
	log        Log
	req        Request
	other      string // the uid that the name has now, if that is another one
}

func (d *drop) validate(ctx context.Context) (err error) {
	name := d.req.Name
	switch {
	case ctx == nil:
		return refuse(namespace.ErrInvalid, name, "the context is nil")
	case d.namespaces == nil || d.content == nil || d.log == nil:
		return refuse(namespace.ErrInvalid, name, "where the namespaces, the content and the records are is required")
	}
	if err := checkName(name); err != nil {
		return err
	}
	if err := (deleter.Target{Namespace: name, UID: d.req.UID}).ValidateView(); err != nil {
		return refuse(namespace.ErrInvalid, name, "UID says which incarnation is meant: %v", err)
	}
	if len(d.req.Finalizers) == 0 {
		return refuse(namespace.ErrInvalid, name, "Finalizers is empty: name those that are to be dropped")
	}
	if err := checkFinalizers(name, "Finalizers", d.req.Finalizers); err != nil {
		return err
	}
	if d.req.By, err = asker(ctx, name, d.req.By); err != nil {
		return err
	}
	if err := checkWhy(d.record(audit.Forcing, "", "")); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failed(name, "not begun", context.Cause(ctx))
	}
	return nil
}

// look returns the namespace and what of it is held, see read, and the earlier call.
func (d *drop) look(ctx context.Context) (*namespace.Namespace, []finalizer.Name, *begun, error) {
	n, held, err := d.read(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	earlier, err := d.earlier(ctx) // after the read: the record of what that shows is there
	return n, held, earlier, err
}

// read returns the namespace, if the incarnation exists, and which of the named
// finalizers it has.
func (d *drop) read(ctx context.Context) (*namespace.Namespace, []finalizer.Name, error) {
	n, err := d.namespaces.Get(ctx, d.req.Name)
	d.other = ""
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, failed(d.req.Name, "read it", err)
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

// check refuses what may not be forced. When a call is finished that was begun some of
// the finalizers may have gone since.
func (d *drop) check(n namespace.Namespace, held []finalizer.Name, earlier *begun) error {
	if n.Phase() != phase.Terminating {
		return refuse(namespace.ErrForbidden, n.Name, "it is %s: DELETE it first; only what is being deleted is forced", n.Phase())
	}
	for _, f := range d.req.Finalizers {
		if !earlier.open() && !slices.Contains(held, f) {
			return refuse(namespace.ErrConflict, n.Name, "it does not have the finalizer %q; it has %s", f, list(n.Spec.Finalizers.Names()))
		}
	}
	return nil
}

// inventory returns everything that is left.
func (d *drop) inventory(ctx context.Context, n namespace.Namespace) (audit.Inventory, error) {
	target := deleter.Target{Namespace: n.Name, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time}
	listed, err := d.content.Inventory(ctx, target)
	if ctx.Err() != nil {
		return audit.Inventory{}, failed(n.Name, "take the inventory", context.Cause(ctx))
	}
	kept := keep(listed, err)
	if len(kept.Failures) > 0 && !d.req.Incomplete {
		return kept, failed(n.Name, fmt.Sprintf("nothing was dropped, %d source(s) did not answer; repair them, or set Incomplete to do it without", len(kept.Failures)),
			because(ErrIncomplete, err))
	}
	return kept, nil
}

// drop records what is to be done, does it, and records that.
func (d *drop) drop(ctx context.Context, inventory audit.Inventory, earlier *begun) (Result, error) {
	record := d.record(audit.Forcing, "", "")
	record.Inventory = &inventory
	if earlier.open() {
		record.Follows = earlier.record.ID
	}
	if len(inventory.Failures) > 0 {
		record.Detail = fmt.Sprintf("the inventory is not complete, which was accepted: %d source(s) did not answer", len(inventory.Failures))
	}
	record, err := d.log.Write(ctx, record)
	if err != nil {
		return Result{Inventory: inventory}, failed(d.req.Name, "nothing was dropped, since it could not be put on record", err)
	}
	result := Result{Inventory: inventory}
	err = d.finalize(ctx, &result)
	switch {
	case errors.Is(err, namespace.ErrUnknownOutcome):
		return result, err // the record is left open: a call that can see will end it
	case err != nil:
		return result, errors.Join(err, d.end(ctx, audit.Refused, record.ID, err.Error(), nil))
	case len(result.Dropped) == 0:
		return d.beaten(ctx, result, record.ID)
	}
	result.ID = record.ID
	return result, d.end(ctx, audit.Forced, record.ID, ending(result), result.Dropped)
}

// beaten answers a call that found nothing to take off any more after its record. It may
// be that another such call took them off, and did not get to say so.
func (d *drop) beaten(ctx context.Context, result Result, id string) (Result, error) {
	if err := d.end(ctx, audit.Refused, id, "others have taken them off meanwhile", nil); err != nil {
		return result, err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	n, held, earlier, err := d.look(ctx)
	if err != nil || len(held) > 0 || earlier == nil {
		return result, err
	}
	return d.afterwards(ctx, n, earlier)
}

// ending says what became of the namespace.
func ending(r Result) string {
	if r.Removed {
		return "the namespace is removed"
	}
	return "the namespace stays until these are off: " + list(append(r.Namespace.Spec.Finalizers.Names(), r.Namespace.Finalizers.Names()...))
}

// record returns one of this request.
func (d *drop) record(action audit.Action, follows, detail string) audit.Record {
	return audit.Record{
		Action: action, Namespace: d.req.Name, UID: d.req.UID, By: d.req.By, Reason: d.req.Reason,
		Finalizers: slices.Clone(d.req.Finalizers), Follows: follows, Detail: phase.Truncate(detail, maxText),
	}
}

// end writes the record of an end, also when ctx has ended.
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
	return failed(d.req.Name, "put on record how "+follows+" ended", err)
}

// list names finalizers.
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
