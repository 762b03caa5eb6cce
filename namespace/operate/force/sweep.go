package force

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// SweepRequest is a request to sweep the objects that a [Drop] left.
type SweepRequest struct {
	Name    string
	ID      string           // the record with the inventory: [Result].ID
	By      string           // the operator, as in [Request]
	Reason  string           // why the objects are removed
	Release []finalizer.Name // finalizers to remove from the objects, regardless of their owners
	// Recreated accepts that the namespace was created again and may use remaining objects,
	// because an update of an object keeps its uid. The record says so.
	Recreated bool
	// DryRun returns the objects that would be removed, and writes nothing.
	DryRun bool
	// Parallel bounds the concurrent removals; default 8.
	Parallel int
	// CallTimeout bounds the removal of one object; default one minute.
	CallTimeout time.Duration
	// Progress is called after each object, one call at a time, and must be quick. After a
	// panic, which Sweep returns as an error, it is not called again.
	Progress func(SweepProgress)
}

func (r SweepRequest) withDefaults() SweepRequest {
	r.Parallel = cmp.Or(r.Parallel, 8)
	r.CallTimeout = cmp.Or(r.CallTimeout, time.Minute)
	return r
}

// SweepProgress is the progress of a sweep.
type SweepProgress struct {
	Objects int // in the inventory
	Gone    int // removed, or gone before
	Held    int // being deleted: held by finalizers that Release does not list, or ending gracefully
	Failed  int // their removal failed
}

// SweepResult is the result of [Sweep]. Objects that are neither gone nor held nor failed were
// not reached.
type SweepResult struct {
	SweepProgress
	ID   string         // the final record; empty in a dry run
	Left []audit.Object // all objects that are not gone, in the order of the inventory
	// Failures lists failed removals, one for each resource type, and the sources that did not
	// answer for the inventory. Their objects are unknown and not swept.
	Failures []audit.Failure
}

// Sweep removes the objects in the inventory of a [Drop], whether the namespace is still
// terminating, gone, or created again. It removes an object only if it still has the uid in
// the inventory, so it never touches content that another incarnation created (rule R8). It
// leaves objects without a uid, and the unknown objects of sources that did not answer.
//
// A namespace created again under the name sees the remaining objects and may take them over,
// so sweep before that. Otherwise Sweep refuses, unless [SweepRequest].Recreated accepts it.
// It checks at the start, before every 64th object, and every second, and stops if the name is
// taken. Objects removed since the last check, or at that moment, may have been taken over.
//
// The types share the calls evenly, without regard to deleter.Source.After. A slow type takes
// only its share, and a type with several failures in a row comes last. A failed or held
// object does not stop the sweep.
//
// Sweep records its start first ([audit.Sweeping]) and its result last ([audit.Swept], with
// an inventory of objects that still remain). The same call again continues; an object that is
// gone costs one read.
//
// The errors:
//
//   - [namespace.ErrInvalid]: an invalid request.
//   - [namespace.ErrForbidden]: By is not the authenticated user.
//   - [namespace.ErrNotFound]: there is no such record.
//   - [namespace.ErrConflict]: the record is not of a completed Drop, or the namespace was
//     created again.
//   - Errors of the log, and of the first read of the namespace: nothing is changed.
//   - Together with a full result: the errors of the objects, joined; the reason why the sweep
//     was cut short; and [ErrUnrecorded].
func Sweep(ctx context.Context, namespaces Getter, content Content, log Log, req SweepRequest) (SweepResult, error) {
	s := sweep{namespaces: namespaces, content: content, log: log, req: req.withDefaults()}
	if err := s.validate(ctx); err != nil {
		return SweepResult{}, err
	}
	forcing, err := s.find(ctx)
	if err != nil {
		return SweepResult{}, err
	}
	accepted, err := s.checkIncarnation(ctx, forcing.UID)
	if err != nil {
		return SweepResult{}, err
	}
	s.queue(forcing)
	s.accepted = accepted != ""
	if req.DryRun {
		return s.result(), nil
	}
	if _, err := log.Write(ctx, s.record(audit.Sweeping, accepted)); err != nil {
		return s.result(), failed(req.Name, "nothing was removed, because the audit record could not be written", err)
	}
	err = s.run(ctx)
	result := s.result()
	return result, errors.Join(err, s.end(ctx, &result, err))
}

func (s *sweep) validate(ctx context.Context) (err error) {
	name := s.req.Name
	switch {
	case s.req.Parallel < 0:
		return refuse(namespace.ErrInvalid, name, "Parallel is %d: it must not be negative", s.req.Parallel)
	case s.req.CallTimeout < 0:
		return refuse(namespace.ErrInvalid, name, "CallTimeout is %v: it must not be negative", s.req.CallTimeout)
	}
	if err := checkName(name); err != nil {
		return err
	}
	if err := checkFinalizers(name, "Release", s.req.Release); err != nil {
		return err
	}
	if s.req.By, err = operator(ctx, name, s.req.By); err != nil {
		return err
	}
	s.uid = "u" // for the check only
	if err := checkRecord(s.record(audit.Sweeping, "")); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failed(name, "start", context.Cause(ctx))
	}
	return nil
}

// find returns the record with the inventory if its Drop is complete.
func (s *sweep) find(ctx context.Context) (audit.Record, error) {
	forcing, err := s.log.Get(ctx, s.req.Name, s.req.ID)
	if err != nil {
		return audit.Record{}, failed(s.req.Name, "read the record of the Drop", err)
	}
	if forcing.Action != audit.Forcing {
		return audit.Record{}, refuse(namespace.ErrConflict, s.req.Name,
			"the record %s has the action %q: use the record of a Drop (%q)", s.req.ID, forcing.Action, audit.Forcing)
	}
	records, err := s.log.List(ctx, s.req.Name)
	if err != nil {
		return audit.Record{}, failed(s.req.Name, "read the audit records", err)
	}
	if !slices.ContainsFunc(audit.Drops(records), func(d audit.Drop) bool { return d.ID() == s.req.ID && d.Forced != nil }) {
		return audit.Record{}, refuse(namespace.ErrConflict, s.req.Name,
			"the Drop of the record %s is not complete: call it again first", s.req.ID)
	}
	return forcing, nil
}

// checkIncarnation refuses a name that another incarnation has. If the request accepts that, it
// returns the note for the record.
func (s *sweep) checkIncarnation(ctx context.Context, uid string) (accepted string, err error) {
	n, err := s.namespaces.Get(ctx, s.req.Name)
	switch {
	case errors.Is(err, namespace.ErrNotFound), err == nil && n.UID == uid:
		return "", nil
	case err != nil:
		return "", failed(s.req.Name, "check whether the namespace was created again", err)
	case !s.req.Recreated:
		return "", refuse(namespace.ErrConflict, s.req.Name,
			"it was created again with the uid %q and may use the remaining objects; check that, and set Recreated to remove them anyway", n.UID)
	}
	return fmt.Sprintf("the operator accepted that the namespace was created again, with the uid %q", n.UID), nil
}

func (s *sweep) record(action audit.Action, detail string) audit.Record {
	return audit.Record{
		Action: action, Namespace: s.req.Name, UID: s.uid, By: s.req.By, Reason: s.req.Reason,
		Finalizers: slices.Clone(s.req.Release), Follows: s.req.ID, Detail: detail,
	}
}

// end writes the final record, even if ctx has ended.
func (s *sweep) end(ctx context.Context, result *SweepResult, err error) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	p := result.SweepProgress
	detail := fmt.Sprintf("%d of %d objects are gone", p.Gone, p.Objects)
	if p.Gone < p.Objects {
		detail += fmt.Sprintf("; %d are held, %d failed, %d were not reached",
			p.Held, p.Failed, p.Objects-p.Gone-p.Held-p.Failed)
	}
	if n := len(s.unknown); n > 0 {
		detail += fmt.Sprintf("; %d source(s) did not answer for the inventory", n)
	}
	if s.note != "" {
		detail += "; " + s.note
	}
	if err != nil {
		detail += ": " + err.Error()
	}
	record := s.record(audit.Swept, phase.Truncate(detail, maxText))
	if len(result.Left)+len(result.Failures) > 0 {
		record.Inventory = &audit.Inventory{Objects: result.Left, Failures: result.Failures}
	}
	record, err = s.log.Write(ctx, record)
	if err != nil {
		return failed(s.req.Name, "record the end of the sweep of "+s.req.ID, because(ErrUnrecorded, err))
	}
	result.ID = record.ID
	return nil
}
