// Package deleter empties namespaces: it deletes all content of one party in
// one namespace, resource type by resource type, and reports what remains.
//
// A host describes its content as sources, one [Source] for each resource type,
// and [New] (or [Discovering], when the types are only known at run time) makes
// one [Deleter] of them. Sources run in parallel; a source that names what it
// comes after waits until all of that is empty. Content that a plain function
// can delete is a [Func].
//
// Whatever fails, a Deleter fails closed (rule R7): it answers without an error
// only if every source answered, or is waived: declared by an operator, with a reason and
// an end, to hold nothing of the namespace ([Target].Waived). DESIGN.md beside this file says how and why.
package deleter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Target is one incarnation of a terminating namespace. Nothing that is done for
// it may touch another incarnation of the same name (rule R8).
type Target struct {
	Namespace string
	UID       string    // the incarnation
	DeletedAt time.Time // when the namespace became Terminating
	// Waived are the sources that count as empty when they fail: resource types
	// ("widgets.example.com"), and groups that cannot be discovered. A name that may be
	// read as both ("metrics.example.com": the type metrics of example.com, and a group)
	// stands for both. An operator has declared that they hold nothing of this namespace.
	// They are asked all the same, and what answers is not waived, nor what was seen to
	// have something left: its failure is an [UnwaivedError]. That is known from this
	// pass and the report of the one before; package pass completes its LastSeen from the
	// namespace's status. A [Deleter] may ignore Waived: then no failure is waived.
	Waived []string
}

// Validate returns nil or an error that matches [ErrInvalid]: no field may be
// empty, and the names must be valid UTF-8 without slashes and control characters.
func (t Target) Validate() error {
	if err := t.ValidateView(); err != nil {
		return err
	}
	if t.DeletedAt.IsZero() {
		return fmt.Errorf("%w target %s: DeletedAt is zero, but only a terminating namespace may be emptied", ErrInvalid, t.Namespace)
	}
	return nil
}

// ValidateView is Validate for looking only: DeletedAt may be zero, since the namespace
// may be Active (see [Viewer]).
func (t Target) ValidateView() error {
	if err := checkSegment("target namespace", t.Namespace); err != nil {
		return err
	}
	return checkSegment("target uid", t.UID)
}

func checkSegment(field, s string) error {
	if problems := syntax.PathSegment(s); len(problems) > 0 {
		return fmt.Errorf("%w %s %q: %s", ErrInvalid, field, phase.Truncate(s, 100), strings.Join(problems, ", "))
	}
	return nil
}

// Deleter deletes all content of one party in one namespace.
//
// Delete asks for the deletion of everything there is and reports what remains
// after that. It returns nil only if every source answered or is waived; the error carries
// every cause and the report is as full as it can be in either case. Previous is
// the report of the pass before for the same target (what [Report.Compact] keeps
// of it will do), or the zero Report: types that it knows to be empty for good are
// not asked again. A report of another incarnation is ignored (rule R8).
//
// Delete is idempotent and safe for concurrent use, also for one target. What it
// started has ended when it returns.
type Deleter interface {
	Delete(ctx context.Context, target Target, previous Report) (Report, error)
}

// Waiter is what a [Deleter] may offer beyond: waiting for the moment at which
// another pass is worth while.
type Waiter interface {
	// Wait returns nil as soon as something that report saw remaining has gone, also
	// if that was before the call; [ErrNotSupported] at once when no source with
	// remaining content can tell; ctx's cause when ctx ends. Sources that cannot tell
	// are not waited for, so bound ctx by the time at which to look again anyway.
	Wait(ctx context.Context, target Target, report Report) error
}
