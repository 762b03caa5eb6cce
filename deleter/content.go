package deleter

import (
	"context"
	"errors"
	"time"
)

// ErrNotSupported is how a source says that it cannot do an operation. The
// composed deleter remembers it for that resource type and operation only.
var ErrNotSupported = errors.New("operation not supported")

// Content is one resource type's objects: what a source must be able to do.
// Other abilities are declared by implementing further interfaces of this
// package, or refused with [ErrNotSupported].
//
// Every method acts on the target's incarnation only; for another incarnation,
// or a namespace that is not terminating, it must do nothing and fail.
type Content interface {
	// List returns a page of the objects in the target, at most limit of them (zero:
	// the source's own choice), after the page that returned the token next (empty: from the start).
	List(ctx context.Context, target Target, limit int, next string) (Page, error)
	// Delete asks for the deletion of one object. Deleting what is not there
	// succeeds. uid, when not empty, must be the object's.
	Delete(ctx context.Context, target Target, name, uid string) error
}

// Page is a part of a listing of [Content].
type Page struct {
	Items     []Item
	Next      string // token of the next page; empty: this is the last
	Remaining int    // objects beyond this page, when the source knows
	Seen      string // mark of the listing, for [Notifier]; may be empty
}

// Item is one object.
type Item struct {
	Name       string
	UID        string
	Deleting   bool          // its deletion was asked for before
	Finalizers []string      // what holds it
	Grace      time.Duration // time left of its graceful deletion; zero: none
}

// CollectionDeleter deletes all objects of the type in the target by one call
// (or as many as it cares to at once).
type CollectionDeleter interface {
	// DeleteCollection returns how many objects it deleted, -1 if it cannot tell,
	// and whether more may be left that it did not get to.
	DeleteCollection(ctx context.Context, target Target) (deleted int, more bool, err error)
}

// Estimator knows how long the graceful deletion of what is left will take.
type Estimator interface {
	Estimate(ctx context.Context, target Target) (time.Duration, error)
}

// Notifier tells when something has gone.
type Notifier interface {
	// Wait returns nil as soon as an object of the type has disappeared from the
	// target since the listing marked seen, also if that was before the call.
	Wait(ctx context.Context, target Target, seen string) error
}
