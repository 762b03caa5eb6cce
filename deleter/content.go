package deleter

import (
	"context"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Source is one resource type of a composed [Deleter].
type Source struct {
	Resource namespace.ResourceType
	Content  Content // for plain functions see [Funcs]
	// After lists resource types. The source starts in a pass only when all of them are
	// empty and none of them failed.
	After []namespace.ResourceType
	// Final declares that an empty listing in a terminating incarnation stays empty (rule
	// R6 holds for the type). Later passes then skip the source.
	Final bool
	// Undeclared marks a type that another version of the host stored and this process does
	// not declare. Its objects are listed, so that reports count them, and never deleted,
	// because their party and order are unknown here. The source fails with
	// [ErrUndeclared] even if no object remains (rule R7).
	Undeclared bool
}

// Content is the objects of one resource type. A source declares further abilities by
// implementing other interfaces of this package ([CollectionDeleter], [Emptier],
// [Estimator], [Notifier], [Viewer], [Counter]), and refuses a call that it does not support
// with [ErrNotSupported].
//
// Every method acts on the target's incarnation only. For another incarnation, or a
// namespace that is not terminating, it does nothing and fails with [ErrIncarnation] (rule
// R8). For an incarnation that was removed it may report no objects instead. An invalid
// target or limit is [ErrInvalid]. Methods return soon after ctx ends, with its cause, and
// are safe for concurrent use.
//
// Package contenttest checks all of that.
type Content interface {
	// List returns a page of at most limit objects (zero: the source chooses) that follow
	// the page with the token next (empty: from the start). It lists an object that exists
	// during the whole listing exactly once, whatever is deleted meanwhile. It returns
	// [ErrExpired] for a token that is too old, and [ErrInvalid] or [ErrExpired] for one
	// that it never issued.
	List(ctx context.Context, target Target, limit int, next string) (Page, error)
	// Delete requests the deletion of one object. It succeeds if the object does not exist
	// or is being deleted. If uid is not empty and the object has another one, Delete
	// deletes nothing and returns [ErrReplaced].
	Delete(ctx context.Context, target Target, name, uid string) error
}

// Page is a part of a listing of [Content].
type Page struct {
	Items     []Item
	Next      string // token of the next page; empty on the last page
	Remaining int    // objects beyond this page, or zero if the source does not know
	Seen      string // position of the listing, for [Notifier]; may be empty
}

// Item is one object.
type Item struct {
	Name       string
	UID        string        // empty if the type has no uids
	Deleting   bool          // its deletion was requested before
	Finalizers []string      // finalizers that block its removal
	Grace      time.Duration // time left of its graceful deletion, or zero
}

// terminating reports whether the deletion of the object has begun.
func (i Item) terminating() bool { return i.Deleting || i.Grace > 0 }

// CollectionDeleter deletes all objects of the type in the target by one call, or in
// batches.
type CollectionDeleter interface {
	// DeleteCollection returns the number of objects that it deleted or newly marked as
	// being deleted, or -1 if it cannot count them, and whether more objects may remain
	// unmarked. Repeated calls come to an end.
	DeleteCollection(ctx context.Context, target Target) (deleted int, more bool, err error)
}

// Emptier deletes everything and counts the remaining objects in one call. List and Delete
// are not called then.
type Emptier interface {
	// Empty returns the outcome. The caller ignores Resource, Err and Waiting of the Result.
	Empty(ctx context.Context, target Target) (Result, error)
}

// Estimator estimates the graceful deletion of the remaining objects.
type Estimator interface {
	// Estimate returns the time until the last object should be gone, or zero if unknown.
	Estimate(ctx context.Context, target Target) (time.Duration, error)
}

// Notifier waits until an object disappears.
type Notifier interface {
	// Wait returns nil once an object of the type has disappeared from the target since the
	// listing with the position seen, also if that happened before the call, or if the
	// position is too old to know. It returns the cause of ctx if that ends.
	Wait(ctx context.Context, target Target, seen string) error
}

// Viewer lists the objects of a namespace in any phase, for previews of a deletion and for
// inventories ([Composed.Inspect]).
type Viewer interface {
	// View is List for an incarnation that may be Active: the target's DeletedAt may be
	// zero ([Target.ValidateView]). For any other incarnation, also one that was removed or
	// never existed, it fails with [ErrIncarnation] (rule R8). A view of an Active
	// namespace is not final (rule R6).
	View(ctx context.Context, target Target, limit int, next string) (Page, error)
}

// Counter counts objects without listing them, for previews of a deletion
// ([Composed.Inspect]) if the content cannot be listed.
type Counter interface {
	// Count returns the number of objects in the target, which may be Active, as in
	// [Viewer].
	Count(ctx context.Context, target Target) (int, error)
}
