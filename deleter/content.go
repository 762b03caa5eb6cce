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
	// After names the resource types that must be empty, all of them and without a
	// failure, before this one is asked for the first time in a pass.
	After []namespace.ResourceType
	// Final says that an empty listing in a terminating incarnation stays empty
	// (rule R6 holds for the type), so that it need not be asked again.
	Final bool
	// Undeclared says that another version of the host has stored content of the type, and
	// that this process does not declare it. The content is listed, so that reports count
	// it, and never deleted: its party and its place in the order are unknown here. The
	// source fails with [ErrUndeclared] even if nothing is left (rule R7).
	Undeclared bool
}

// Content is one resource type's objects: what a source must be able to do.
// Other abilities are declared by implementing further interfaces of this
// package ([CollectionDeleter], [Emptier], [Estimator], [Notifier]), or refused
// with [ErrNotSupported].
//
// Every method acts on the target's incarnation only. For another incarnation,
// or a namespace that is not terminating, it does nothing and fails with
// [ErrIncarnation] (rule R8); for an incarnation that was removed it may as well
// answer that nothing is there. A target or limit that makes no sense is
// [ErrInvalid]. Methods return soon after ctx ended, with its cause, and are safe
// for concurrent use.
//
// Package contenttest checks all of that.
type Content interface {
	// List returns a page of the objects in the target, at most limit of them (zero:
	// the source's own choice), after the page that returned the token next (empty:
	// from the start). An object that is there from the first page to the last is
	// listed once, whatever else is deleted meanwhile. A token that is no longer good
	// answers [ErrExpired], one that never was [ErrInvalid] or [ErrExpired].
	List(ctx context.Context, target Target, limit int, next string) (Page, error)
	// Delete asks for the deletion of one object. Deleting what is not there, or is
	// being deleted, succeeds. If uid is not empty and the object has another one,
	// nothing is deleted and the error is [ErrReplaced].
	Delete(ctx context.Context, target Target, name, uid string) error
}

// Page is a part of a listing of [Content].
type Page struct {
	Items     []Item
	Next      string // token of the next page; empty: this is the last
	Remaining int    // objects beyond this page, when the source knows; else zero
	Seen      string // mark of the listing, for [Notifier]; may be empty
}

// Item is one object.
type Item struct {
	Name       string
	UID        string        // empty: the type has none
	Deleting   bool          // its deletion was asked for before
	Finalizers []string      // what holds it
	Grace      time.Duration // time left of its graceful deletion; zero: none
}

// CollectionDeleter deletes all objects of the type in the target by one call
// (or as many as it cares to at once).
type CollectionDeleter interface {
	// DeleteCollection returns how many objects it deleted or newly marked as being
	// deleted (those marked before do not count), -1 if it cannot tell, and whether
	// there may be more that it did not get to. Called again while more, it comes to an end.
	DeleteCollection(ctx context.Context, target Target) (deleted int, more bool, err error)
}

// Emptier is content that does everything at once: it deletes what there is and
// tells what remains. Neither List nor Delete is called then.
type Emptier interface {
	// Empty returns what it did and what is left. The Resource, Err and Waiting of
	// the Result are not looked at.
	Empty(ctx context.Context, target Target) (Result, error)
}

// Counter counts objects without listing them, for previews of a deletion
// ([Composed.Inspect]) if the content cannot be listed.
type Counter interface {
	// Count returns the number of objects in the target, which may be Active, as in
	// [Viewer].
	Count(ctx context.Context, target Target) (int, error)
}

// Estimator knows how long the graceful deletion of what is left will take.
type Estimator interface {
	// Estimate returns the time until the last of it should be gone, never negative;
	// zero when that is not known.
	Estimate(ctx context.Context, target Target) (time.Duration, error)
}

// Notifier tells when something has gone.
type Notifier interface {
	// Wait returns nil as soon as an object of the type has disappeared from the
	// target since the listing marked seen, also if that was before the call; if that
	// can no longer be told it returns nil as well, since then a look is due. It
	// returns ctx's cause when ctx ends.
	Wait(ctx context.Context, target Target, seen string) error
}

// Viewer is content that can be listed whatever the phase of its namespace: for plans
// of a deletion that nobody has asked for yet, and for inventories ([Composed.Inspect]).
type Viewer interface {
	// View is List for an incarnation that may as well be active: the target's DeletedAt
	// may be zero ([Target.ValidateView]). For another incarnation, also one that was
	// removed or never was, it fails with [ErrIncarnation] (rule R8). What it lists of an active
	// namespace is not final (rule R6).
	View(ctx context.Context, target Target, limit int, next string) (Page, error)
}
