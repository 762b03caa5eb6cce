// Package force drops finalizers of a terminating namespace whose owners cannot remove them.
// It records the operation, lists the remaining content before, and can remove it afterwards.
//
// [Drop] removes named finalizers from a namespace. Before that it takes an inventory of the
// remaining content and writes it to the audit log, with the operator and the reason. Without
// that record it drops nothing. Afterwards, [Sweep] removes the objects of the inventory, each
// only if it still has the recorded uid. Any process may call both again after a failure or a
// crash; they then complete the earlier call.
//
// The rules hold:
//
//   - R1: if no finalizer of either kind remains, the write that drops the last one removes
//     the namespace. Finalizers of the object itself (metadata.finalizers) stay.
//   - R2, R3: only a terminating namespace is forced. An Active one is refused: DELETE it
//     first, so that protections and holds apply.
//   - R4: only finalize changes the finalizers.
//   - R7: no party drops its finalizer unseen; an operator does, by name, with a reason. Other
//     finalizers stay, and their parties must see their content empty. If a source does not
//     answer, Drop refuses, unless the operator accepts that on record.
//   - R8: a request is for one incarnation, by uid. The write is conditional on the namespace
//     as read, and the inventory is of that incarnation, which existed before and after it. A
//     sweep goes by the uid of each object. A namespace created again may have taken over a
//     remaining object by an update, which keeps the uid. So a sweep refuses to run then, and
//     stops when it notices, unless the operator accepts that on record. It checks from time
//     to time; objects taken over since the last check may be removed.
//   - R9: force writes no conditions. The next pass of a remaining party does.
//   - R10: conflicts are retried within a bound. A slow or failing type does not delay the
//     others in a sweep.
//   - R11: concurrent callers write more records, and drop and remove nothing more.
//   - R12: force ends a namespace whose finalizer's owner is gone for good.
//
// Package force does not stop the controllers. A pass that deletes a collection names no uids.
// If it is under way on a cluster while the namespace is removed and created again, it may
// delete objects of the new one. Stop that controller first, or let it delete one by one
// (OneByOne of package deleter/kubernetes).
//
// Finalize requests by others are not recorded. Permit them to controllers only.
package force

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Getter reads the current namespace.
type Getter interface {
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Namespaces reads and finalizes namespaces, as registry.Registry and deleter/kubernetes do.
// If a failed Finalize may have been committed, its error is [namespace.ErrUnknownOutcome].
type Namespaces interface {
	Getter
	Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error)
}

// Lister lists the content of a namespace, as [*deleter.Composed] does.
type Lister interface {
	Inventory(ctx context.Context, target deleter.Target) (deleter.Inventory, error)
}

// Content removes remaining objects, as registry.Registry does. RemoveObject removes one object if it
// still has that uid, after it took the finalizers in release off it. It reports whether no
// object with that uid exists any more.
type Content interface {
	RemoveObject(ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name) (gone bool, err error)
}

// Log keeps the records, as [*audit.Log] does.
type Log interface {
	Write(ctx context.Context, r audit.Record) (audit.Record, error)
	List(ctx context.Context, name string) ([]audit.Record, error)
	Get(ctx context.Context, name, id string) (audit.Record, error)
}

var (
	_ Lister = (*deleter.Composed)(nil)
	_ Log    = (*audit.Log)(nil)
)

var (
	// ErrIncomplete is an incomplete inventory, which the request does not accept.
	ErrIncomplete = errors.New("the inventory is incomplete")
	// ErrUnrecorded means that the operation was carried out, as its first record announces,
	// and the record of its end could not be written. The same call again writes it.
	ErrUnrecorded = errors.New("done, but the end is not on record; call again with the same request to record it")
)

// closing bounds the write of a final record. It has its own time, because the caller's context
// may have ended.
const closing = 10 * time.Second

// detached returns a context for a final record.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}

// refuse returns the refusal of a request for a namespace.
func refuse(kind error, name, format string, args ...any) error {
	return &namespace.Error{Kind: kind, Resource: namespace.Resource, Name: name,
		Message: fmt.Sprintf("force: namespace %.80q: ", name) + fmt.Sprintf(format, args...)}
}

func failed(name, what string, err error) error {
	return fmt.Errorf("force: namespace %q: %s: %w", name, what, err)
}

// because adds causes to err, in one line. It skips nil causes.
func because(err error, causes ...error) error {
	for _, cause := range causes {
		if cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	return err
}

// checkName refuses an invalid name.
func checkName(name string) error {
	if wrong := namespace.ValidateName(name); len(wrong) > 0 {
		return refuse(namespace.ErrInvalid, name, "the name is invalid: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// operator returns the user that a server authenticated, otherwise by. An authenticated user
// cannot act under another name.
func operator(ctx context.Context, name, by string) (string, error) {
	actor := audit.Actor(ctx)
	switch {
	case actor == "":
		return by, nil
	case by != "" && by != actor:
		return "", refuse(namespace.ErrForbidden, name, "By is %.80q, but the authenticated user is %.80q: leave By empty", by, actor)
	}
	return actor, nil
}

// checkRecord refuses a request whose record is invalid or has no By or Reason.
func checkRecord(r audit.Record) error {
	for _, text := range [...]struct{ field, value string }{{"By", r.By}, {"Reason", r.Reason}} {
		if strings.TrimSpace(text.value) == "" {
			return refuse(namespace.ErrInvalid, r.Namespace, "%s is required for the audit record", text.field)
		}
	}
	if err := audit.Check(r); err != nil {
		return refuse(namespace.ErrInvalid, r.Namespace, "its audit record is invalid: %v", err)
	}
	return nil
}

// checkFinalizers refuses invalid names and duplicates.
func checkFinalizers(name, field string, finalizers []finalizer.Name) error {
	seen := make(map[finalizer.Name]bool, len(finalizers))
	for _, f := range finalizers {
		if err := f.Validate(); err != nil {
			return refuse(namespace.ErrInvalid, name, "%s: %v", field, err)
		}
		if seen[f] {
			return refuse(namespace.ErrInvalid, name, "%s lists %q twice", field, f)
		}
		seen[f] = true
	}
	return nil
}

// maxText limits the texts of a record, in bytes.
const maxText = 4 << 10
