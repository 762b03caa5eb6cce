// Package force drops finalizers of a terminating namespace whose owners will not do
// it, on the record: what is left is listed and kept before, and can be swept after.
//
// [Drop] takes named finalizers off a namespace. Before, it takes an inventory of
// everything that is left and writes it to the audit log, together with who does it and
// why; without that record nothing is dropped. After, [Sweep] removes what the
// inventory names, object by object, each only if it still has the uid that it had.
// Both may be called again after any failure or crash, by anybody, and finish then what
// was begun.
//
// Nobody's rule is weakened by it:
//
//   - R1: a namespace that is left without finalizers of either kind is removed by the
//     write that takes the last one off, as ever. Finalizers of the object itself
//     (metadata.finalizers) are not touched.
//   - R2, R3: only what is terminating already is forced. An Active namespace is refused:
//     DELETE it first, so that protections and holds have their say.
//   - R4: finalizers are taken off by finalize alone.
//   - R5: what is added at creation is not concerned.
//   - R6: no content is created; there is no gate any more.
//   - R7: no party drops its finalizer unseen; an operator does, by name, with a reason.
//     Finalizers that are not named stay, and their parties must see everything empty.
//     Sources that did not answer refuse the call, unless that is accepted, on record.
//   - R8: a request is for one incarnation, by uid. The write is on condition of what was
//     read of it, and the inventory is of that incarnation: it was there before and after.
//     A sweep goes by the uid of each object. An object that was left and that a namespace
//     made again has taken over, by an update, has that uid still; so a sweep is refused
//     then, and stops when it notices, unless that is accepted, on record. It asks now and
//     then, not with every object: what is taken over since it asked last may go.
//   - R9: conditions are not written; the next pass of whoever is left writes them.
//   - R10: conflicts are retried within a bound; one object or type that fails in a sweep
//     does not hold up the others, and neither does one that is slow.
//   - R11: any number of callers may do the same at the same time: they write more
//     records, and drop or remove nothing more.
//   - R12: what ends a namespace whose owner is gone for good.
//
// On a cluster the controller of the namespace goes on with its passes meanwhile, and a
// pass that deletes a collection names no uids: one that is under way when the namespace
// is removed and made again may reach into the new one. Stop that controller first, or
// have it delete one by one (OneByOne of package deleter/kubernetes).
//
// Only what goes through this package is on record. A finalize request of somebody else
// is not: let nobody but controllers make them.
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

// Getter reads a namespace as it is now.
type Getter interface {
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Namespaces is where the namespaces are kept. registry.Registry is one, and so is
// what deleter/kubernetes has for a cluster. A Finalize that may have been made although
// there is an error is to fail with [namespace.ErrUnknownOutcome].
type Namespaces interface {
	Getter
	Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error)
}

// Inventory lists what is in a namespace. [*deleter.Composed] does.
type Inventory interface {
	Inventory(ctx context.Context, target deleter.Target) (deleter.Inventory, error)
}

// Content removes what was left, as registry.Registry.Remove does: one object, only if
// it has that uid still, and the finalizers named in release off it first. It reports
// whether no object of that uid is there any more.
type Content interface {
	Remove(ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name) (gone bool, err error)
}

// Log keeps the records. [*audit.Log] does.
type Log interface {
	audit.Writer
	audit.Reader
}

var (
	_ Inventory = (*deleter.Composed)(nil)
	_ Log       = (*audit.Log)(nil)
)

var (
	// ErrIncomplete refuses what an inventory that is not complete does not allow: see
	// [Request].
	ErrIncomplete = errors.New("the inventory is not complete")
	// ErrUnrecorded is of something that was done, as the record before it says, but
	// whose end could not be recorded: the same call again does that.
	ErrUnrecorded = errors.New("done, but its end is not on record; call again with the same request")
)

// closing bounds how long the record of an end may take when the caller's context has
// ended: what was done is to be on record all the same.
const closing = 10 * time.Second

// detached returns a context for the record of an end.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}

// refuse returns a refusal of what was asked about a namespace.
func refuse(kind error, name, format string, args ...any) error {
	return &namespace.Error{Kind: kind, Resource: namespace.Resource, Name: name,
		Message: fmt.Sprintf("force: namespace %.80q: ", name) + fmt.Sprintf(format, args...)}
}

func failed(name, what string, err error) error {
	return fmt.Errorf("force: namespace %q: %s: %w", name, what, err)
}

// because returns err with what caused it, in one line; nil causes are left out.
func because(err error, causes ...error) error {
	for _, cause := range causes {
		if cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	return err
}

// checkName refuses a name that no namespace can have.
func checkName(name string) error {
	if wrong := namespace.ValidateName(name); len(wrong) > 0 {
		return refuse(namespace.ErrInvalid, name, "no namespace can have this name: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// asker returns who asks: whom a server has authenticated, if it has. Nobody asks in
// the name of somebody else.
func asker(ctx context.Context, name, by string) (string, error) {
	actor := audit.Printable(audit.Actor(ctx))
	switch {
	case actor == "":
		return by, nil
	case by != "" && by != actor:
		return "", refuse(namespace.ErrForbidden, name, "By is %.80q, but it is %.80q who asks: leave it out", by, actor)
	}
	return actor, nil
}

// checkWhy refuses a record of a request that does not say who asks, and why.
func checkWhy(r audit.Record) error {
	for _, text := range [...]struct{ what, is string }{{"By", r.By}, {"Reason", r.Reason}} {
		if strings.TrimSpace(text.is) == "" {
			return refuse(namespace.ErrInvalid, r.Namespace, "%s is required: it is put on record", text.what)
		}
	}
	if err := audit.Check(r); err != nil {
		return refuse(namespace.ErrInvalid, r.Namespace, "it cannot be put on record: %v", err)
	}
	return nil
}

// checkFinalizers refuses names that no finalizer can have, and the same one twice.
func checkFinalizers(name, what string, finalizers []finalizer.Name) error {
	seen := make(map[finalizer.Name]bool, len(finalizers))
	for _, f := range finalizers {
		if err := f.Validate(); err != nil {
			return refuse(namespace.ErrInvalid, name, "%s: %v", what, err)
		}
		if seen[f] {
			return refuse(namespace.ErrInvalid, name, "%s names %q twice", what, f)
		}
		seen[f] = true
	}
	return nil
}

// maxText limits the texts of a record, in bytes.
const maxText = 4 << 10
