package deleter

import (
	"context"
	"fmt"
)

// Funcs makes [Content] of plain functions, such as "delete from invoices where tenant =
// ...". Only Delete is required. Each function must
//
//   - act only on the target's incarnation (rule R8): compare Target.UID with the stored one
//     in the same transaction, and return [ErrIncarnation] if they differ,
//   - return an error for any object that it could not read or delete (rule R7),
//   - return soon after ctx ends, with its cause, and be safe for concurrent use.
//
// Package contenttest checks all of that.
type Funcs struct {
	// Delete deletes everything in the target and returns how many objects remain. Reports
	// do not count the deleted objects; progress shows in the smaller remainder. Delete is called only after the
	// namespace has become Terminating; where it can check that, it refuses an Active one
	// with [ErrIncarnation].
	Delete func(ctx context.Context, target Target) (remaining int, err error)
	// Count returns the number of objects in the target, which may be Active. A preview
	// of a deletion needs Count or List.
	Count func(ctx context.Context, target Target) (int, error)
	// List returns up to limit objects of the target, which may be Active: the first ones,
	// sorted by name, of those whose names come after the name after. An inventory needs
	// List. With List, previews and reports also have names and finalizers.
	List func(ctx context.Context, target Target, after string, limit int) ([]Item, error)
}

// Content returns content that calls the functions.
func (f Funcs) Content() Content { return &functions{f} }

type functions struct{ funcs Funcs }

// lists reports whether c may support List and View.
func lists(c Content) bool {
	f, ok := c.(*functions)
	return !ok || f.funcs.List != nil
}

// counter returns c as a [Counter], or nil.
func counter(c Content) Counter {
	if f, ok := c.(*functions); ok && f.funcs.Count == nil {
		return nil
	}
	n, _ := c.(Counter)
	return n
}

// Empty implements [Emptier].
func (f *functions) Empty(ctx context.Context, target Target) (Result, error) {
	remaining, err := f.funcs.Delete(ctx, target)
	return Result{Remaining: remaining}, err
}

// Count implements [Counter].
func (f *functions) Count(ctx context.Context, target Target) (int, error) {
	if f.funcs.Count == nil {
		return 0, fmt.Errorf("there is no Count function: %w", ErrNotSupported)
	}
	return f.funcs.Count(ctx, target)
}

// List implements [Content]. The token of a page is the last name of the page before.
func (f *functions) List(ctx context.Context, target Target, limit int, next string) (Page, error) {
	if f.funcs.List == nil {
		return Page{}, fmt.Errorf("there is no List function: %w", ErrNotSupported)
	}
	if limit <= 0 {
		limit = defaultPageSize
	}
	items, err := f.funcs.List(ctx, target, next, limit)
	page := Page{Items: items}
	if n := len(items); n >= limit {
		page.Next = items[n-1].Name // a function that exceeds the limit may have more objects too
	}
	return page, err
}

// View implements [Viewer].
func (f *functions) View(ctx context.Context, target Target, limit int, next string) (Page, error) {
	return f.List(ctx, target, limit, next)
}

// Delete implements [Content].
func (f *functions) Delete(context.Context, Target, string, string) error {
	return fmt.Errorf("there is no function that deletes a single object: %w", ErrNotSupported)
}
