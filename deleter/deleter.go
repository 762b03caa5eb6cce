// Package deleter empties namespaces: it deletes all content of one party in one namespace,
// resource type by resource type, and reports the remaining objects.
//
// A host describes its content as sources, one [Source] for each resource type. [New], or
// [Discovering] if the types are only known at run time, makes a [Deleter] of them. Sources
// run in parallel. A source with After starts once the types listed there are empty. For
// content that plain functions delete see [Funcs].
//
// A Deleter fails closed (rule R7): an error, or a source that was not called, leaves
// [Report.Empty] false. An operator waives a source by declaring, with a reason and an end, that it
// holds nothing of the namespace ([Target].Waived). DESIGN.md explains the decisions behind this
// package.
//
// # Content without uids
//
// Rule R8 demands that a pass for one incarnation never deletes content of another one with
// the same name. A pass can be late: it may have been started before the tenant "acme" was
// removed, and its DELETE may reach the database after a new tenant "acme" was created.
// [Target].UID names the incarnation. A host whose tables have only the tenant's name keeps
// the rule in one of these ways:
//
//   - Condition each delete on the tenant's row. Give the row a creation id, use it as the
//     uid of the namespace, and compare it in the statement that deletes:
//
//     delete from invoices where tenant = $1
//     and exists (select from tenants where name = $1 and id = $2 and deleted for share)
//
//     If it deletes nothing, read the tenant in the same transaction, and return
//     [ErrIncarnation] if its id differs or it is not deleted. A creation time works as
//     well if no two tenants of a name can share it.
//
//   - Key content by the creation id instead of the name ("tenants/acme-4f2c/..."). A late
//     delete then finds nothing. This suits object stores and search indexes, which have no
//     transactions.
//
//   - Do not reuse names. Refuse to create a tenant whose name was ever used, or hand out
//     names with a random suffix.
//
// Package registry does the first for content in its own store. Package contenttest checks
// the rule for any source. The example of [Funcs] shows a service that keeps it.
package deleter

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Target is one incarnation of a terminating namespace. An operation for a target must not
// affect another incarnation of the same name (rule R8).
type Target struct {
	Namespace string
	UID       string    // the incarnation
	DeletedAt time.Time // when the namespace became Terminating
	// Waived lists the sources that count as empty if they fail, because an operator has
	// declared that they hold nothing of this namespace: resource types
	// ("widgets.example.com") and groups that cannot be discovered. A name that can be read
	// as both ("metrics.example.com": the type metrics of example.com, and a group) means
	// both. A waived source is called as usual. If it answers, its answer counts. If it
	// fails, and this pass or the previous report saw objects of it, the waiver is refused
	// with an [UnwaivedError]. Package pass completes the previous report from the status
	// of the namespace. A [Deleter] may ignore Waived: then it waives no failure.
	Waived []string
}

// Validate returns nil or an error that matches [ErrInvalid]. No field but Waived may be
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

// ValidateView is Validate for read-only calls: DeletedAt may be zero, because the namespace
// may be Active (see [Viewer]).
func (t Target) ValidateView() error {
	if err := checkText("target namespace", t.Namespace); err != nil {
		return err
	}
	return checkText("target uid", t.UID)
}

// maxText bounds names. A longer name fits neither a DNS name nor a Kubernetes object name.
const maxText = 253

func checkText(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w %s: must not be empty", ErrInvalid, field)
	case len(s) > maxText:
		return fmt.Errorf("%w %s: must be no more than %d bytes, has %d", ErrInvalid, field, maxText, len(s))
	case !utf8.ValidString(s):
		return fmt.Errorf("%w %s %q: must be valid UTF-8", ErrInvalid, field, s)
	case s == "." || s == "..":
		return fmt.Errorf("%w %s %q: must not be a path", ErrInvalid, field, s)
	case strings.ContainsFunc(s, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }):
		return fmt.Errorf("%w %s %q: must not contain slashes or control characters", ErrInvalid, field, s)
	}
	return nil
}

// Deleter deletes all content of one party in one namespace.
//
// Delete requests the deletion of all content and reports the remaining objects. A nil
// error means that no call failed; sources that wait for others may not have been called, so
// check [Report.Empty]. With an error, which holds every cause, the report is still as complete
// as possible. Previous is the report of the last pass for
// the same target ([Report.Compact] keeps enough of it), or the zero Report. Types that it
// lists as Clean are not called again. A report of another incarnation is ignored (rule R8).
//
// Delete is idempotent and safe for concurrent use, also for one target. When it returns, no
// goroutine that it started is running.
type Deleter interface {
	Delete(ctx context.Context, target Target, previous Report) (Report, error)
}

// Waiter is an optional interface of a [Deleter].
type Waiter interface {
	// Wait returns nil once an object that report counts as remaining has disappeared, also
	// if that happened before the call. It returns [ErrNotSupported] at once if no source
	// with remaining objects can wait, and the cause of ctx if that ends. It does not cover
	// sources that cannot wait, so end ctx when the next pass is due anyway.
	Wait(ctx context.Context, target Target, report Report) error
}
