package force

import (
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

// SweepRequest is what [Sweep] is to do.
type SweepRequest struct {
	Name    string
	ID      string           // of the record with the inventory: [Result].ID
	By      string           // who does it, as in [Request]
	Reason  string           // why
	Release []finalizer.Name // finalizers to be taken off the objects, whoever owns them
	// Recreated accepts that the namespace was made again, and may use by now what was
	// left: an update of an object keeps its uid. That is on record.
	Recreated bool
	// DryRun answers what would be removed, and does and writes nothing.
	DryRun bool
	// Parallel is how many objects are removed at once; default 8.
	Parallel int
	// CallTimeout bounds the removal of one object; default one minute.
	CallTimeout time.Duration
	// Progress is told how far it is after every object, one call at a time. It must be
	// quick. Nil: nobody is told. If it panics it is told nothing more, which is among the
	// errors.
	Progress func(SweepProgress)
}

// SweepProgress tells how far a sweep is.
type SweepProgress struct {
	Objects int // of the inventory
	Gone    int // not there any more
	Held    int // deleted, and there still: held by finalizers that were not released, or ending gracefully
	Failed  int // could not be removed
}

// SweepResult is what [Sweep] did. What is neither gone nor held nor failed was not
// reached.
type SweepResult struct {
	SweepProgress
	ID   string         // of the record that says so; empty in a dry run
	Left []audit.Object // everything that is not gone, in the order of the inventory
	// Failures are what failed, one for each resource type, and the sources that did not
	// answer when the inventory was taken: what they hold is not known, and not swept.
	Failures []audit.Failure
}

// Sweep removes what the inventory of a [Drop] names, whether the namespace is still
// terminating, gone, or made again. Each object is removed only if it still has the uid
// that is in the inventory, so that nothing that another incarnation has made is touched
// (rule R8); one that had no uid is left, since nobody can tell it from another. What a
// source that did not answer then may hold is not in the inventory, so it is not swept
// either. What is left shows in a namespace that is made again under the name, and may be
// taken over there: sweep before. A sweep of a name that is taken is refused unless
// [SweepRequest].Recreated accepts that. It asks when it begins, and again before every
// 64th object and after each second; if the name is taken by then it stops. What it has
// removed since it asked last, and the calls under way, may have been taken over.
//
// Types take turns, in no other order (deleter.Source.After does not count): one that is
// slow takes its share of the calls only, and one that fails several times in a row comes
// last.
//
// That it begins is put on record first ([audit.Sweeping]), and what it did last
// ([audit.Swept], with an inventory of what is left, if anything is). An object that
// fails, or that finalizers hold, does not hold up the others. The same call again goes
// on: what is gone costs one read each.
//
// The errors: [namespace.ErrInvalid] for a request that makes no sense;
// [namespace.ErrForbidden] for a By that is not who asks; [namespace.ErrNotFound] without
// such a record; [namespace.ErrConflict] for one that is not of a Drop that was finished,
// and for a namespace that was made again; those of the log and of the first read of the
// namespace, which leave everything as it was; those of the objects, joined, and what cut
// it short (the cause of a context that ended, a later read that failed, a namespace that
// was made again meanwhile), both beside a full result; and [ErrUnrecorded].
func Sweep(ctx context.Context, namespaces Getter, content Content, log Log, req SweepRequest) (SweepResult, error) {
	s := sweep{namespaces: namespaces, content: content, log: log, req: req}
	if err := s.validate(ctx); err != nil {
		return SweepResult{}, err
	}
	forcing, err := s.find(ctx)
	if err != nil {
		return SweepResult{}, err
	}
	accepted, err := s.recreated(ctx, forcing.UID)
	if err != nil {
		return SweepResult{}, err
	}
	s.take(forcing)
	s.accepted = accepted != ""
	if req.DryRun {
		return s.result(), nil
	}
	if _, err := log.Write(ctx, s.record(audit.Sweeping, accepted)); err != nil {
		return s.result(), failed(req.Name, "nothing was removed, since it could not be put on record", err)
	}
	err = s.run(ctx)
	result := s.result()
	return result, errors.Join(err, s.end(ctx, &result, err))
}

func (s *sweep) validate(ctx context.Context) (err error) {
	name := s.req.Name
	switch {
	case ctx == nil:
		return refuse(namespace.ErrInvalid, name, "the context is nil")
	case s.namespaces == nil || s.content == nil || s.log == nil:
		return refuse(namespace.ErrInvalid, name, "where the namespaces, the content and the records are is required")
	case s.req.Parallel < 0:
		return refuse(namespace.ErrInvalid, name, "Parallel is %d, it must not be negative", s.req.Parallel)
	case s.req.CallTimeout < 0:
		return refuse(namespace.ErrInvalid, name, "CallTimeout is %v, it must not be negative", s.req.CallTimeout)
	}
	if err := checkName(name); err != nil {
		return err
	}
	if err := checkFinalizers(name, "Release", s.req.Release); err != nil {
		return err
	}
	if s.req.By, err = asker(ctx, name, s.req.By); err != nil {
		return err
	}
	s.uid = "u" // any will do for the check
	if err := checkWhy(s.record(audit.Sweeping, "")); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failed(name, "not begun", context.Cause(ctx))
	}
	return nil
}

// find returns the record that the sweep goes by, if finalizers were dropped after it.
func (s *sweep) find(ctx context.Context) (audit.Record, error) {
	forcing, err := s.log.Get(ctx, s.req.Name, s.req.ID)
	if err != nil {
		return audit.Record{}, failed(s.req.Name, "read the record of what was left", err)
	}
	if forcing.Action != audit.Forcing {
		return audit.Record{}, refuse(namespace.ErrConflict, s.req.Name,
			"the record %s is one of %q: take that of a Drop (%q)", s.req.ID, forcing.Action, audit.Forcing)
	}
	records, err := s.log.List(ctx, s.req.Name)
	if err != nil {
		return audit.Record{}, failed(s.req.Name, "read what is on record", err)
	}
	if !slices.ContainsFunc(records, func(r audit.Record) bool { return r.Action == audit.Forced && r.Follows == s.req.ID }) {
		return audit.Record{}, refuse(namespace.ErrConflict, s.req.Name,
			"the record %s is not followed by one that says that finalizers were dropped; finish the Drop first, by calling it again", s.req.ID)
	}
	return forcing, nil
}

// recreated refuses a name that another incarnation has by now, or says that this was
// accepted.
func (s *sweep) recreated(ctx context.Context, uid string) (accepted string, err error) {
	n, err := s.namespaces.Get(ctx, s.req.Name)
	switch {
	case errors.Is(err, namespace.ErrNotFound), err == nil && n.UID == uid:
		return "", nil
	case err != nil:
		return "", failed(s.req.Name, "see whether it was made again", err)
	case !s.req.Recreated:
		return "", refuse(namespace.ErrConflict, s.req.Name,
			"it was made again, with the uid %q, and may use what was left; look, and set Recreated to remove it all the same", n.UID)
	}
	return fmt.Sprintf("the namespace was made again, with the uid %q, which was accepted", n.UID), nil
}

func (s *sweep) record(action audit.Action, detail string) audit.Record {
	return audit.Record{
		Action: action, Namespace: s.req.Name, UID: s.uid, By: s.req.By, Reason: s.req.Reason,
		Finalizers: slices.Clone(s.req.Release), Follows: s.req.ID, Detail: detail,
	}
}

// end records what was done, also when ctx has ended.
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
		detail += fmt.Sprintf("; %d source(s) did not answer when the inventory was taken", n)
	}
	if s.since != "" {
		detail += "; " + s.since
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
		return failed(s.req.Name, "the sweep of "+s.req.ID, because(ErrUnrecorded, err))
	}
	result.ID = record.ID
	return nil
}
