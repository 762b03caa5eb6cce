package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// DeleterOptions configures [Registry.Deleter]. Zero fields take the defaults.
type DeleterOptions struct {
	deleter.Options
	// Types are the types to delete, for example the types of one of several parties that
	// share the namespaces. Empty means all declared namespaced types.
	Types []namespace.ResourceType
	// Sources is called in each pass with the sources of Types, and returns the sources to
	// use. It may order them (After), wrap them, or add sources of content outside the
	// registry. Its error is a failure of discovery ([deleter.Discovering]). If it is nil,
	// the sources of Types are used unchanged.
	Sources func(ctx context.Context, sources []deleter.Source) ([]deleter.Source, error)
}

// Deleter returns a deleter of the content in namespaces of r. Every process that empties
// namespaces must declare the types of all parties. If several parties share the namespaces, each
// lists the types that it deletes in [DeleterOptions].Types. The passes of the deleter fail with
// [deleter.ErrUndeclared] (rule R7) while another version of the host has stored a type
// that r does not declare. The failure ends when a version that declares the type runs,
// when the type is retired ([Registry.RetireType]), or when a waiver of the namespace names
// the type and the namespace has no objects of it.
//
// Deleter returns [namespace.ErrNotFound] if a type in Types is not declared, and
// [namespace.ErrInvalid] if it is cluster-scoped.
func (r *Registry) Deleter(options *DeleterOptions) (*deleter.Composed, error) {
	var o DeleterOptions
	if options != nil {
		o = *options
	}
	declared, err := r.sources(o.Types...)
	if err != nil {
		return nil, err
	}
	return deleter.Discovering(func(ctx context.Context) ([]deleter.Source, error) {
		sources := slices.Clone(declared)
		var err error
		if o.Sources != nil {
			sources, err = o.Sources(ctx, sources)
		}
		undeclared, failed := r.undeclared(ctx)
		if failed != nil {
			return sources, errors.Join(err, failed)
		}
		return slices.Concat(sources, undeclared), err
	}, &o.Options)
}

// undeclared returns sources of the recorded types that r does not declare. A record exists
// before any content of its type, and no content is created in a terminating namespace
// (rule R6), so the sources of a terminating namespace are complete.
func (r *Registry) undeclared(ctx context.Context) ([]deleter.Source, error) {
	page, err := r.store.List(ctx, store.Query{Prefix: r.keys.types()})
	if err != nil {
		return nil, fmt.Errorf("read which resource types are stored: %w", storeError(typesResource, "", err))
	}
	var sources []deleter.Source
	for _, e := range page.Entries {
		name, group, _ := strings.Cut(strings.TrimPrefix(e.Key, r.keys.types()), ".")
		resource := namespace.ResourceType{Name: name, Group: group}
		if t, ok := r.types[resource]; ok && t.Namespaced {
			continue
		}
		sources = append(sources, deleter.Source{
			Resource: resource, Content: source{r.undeclaredContent(resource)}, Final: true, Undeclared: true,
		})
	}
	return sources, nil
}

// undeclaredContent returns the content of a type that only another version of the host
// declares. It must only be read.
func (c *core) undeclaredContent(resource namespace.ResourceType) *Content {
	t := Type{Group: resource.Group, Resource: resource.Name, Namespaced: true}
	return &Content{core: c, typ: t, kind: objectKind(t), resource: resource.String()}
}

// sources returns the sources of the given types, or of all declared namespaced types, sorted.
// They are final because of rule R6: once empty, they stay empty.
func (r *Registry) sources(resources ...namespace.ResourceType) ([]deleter.Source, error) {
	if len(resources) == 0 {
		for _, t := range r.Types() {
			if t.Namespaced {
				resources = append(resources, t.Name())
			}
		}
	}
	sources := make([]deleter.Source, 0, len(resources))
	for _, resource := range resources {
		c, err := r.Content(resource)
		if err != nil {
			return nil, err
		}
		if !c.typ.Namespaced {
			return nil, invalidOption("resource type %q is cluster-scoped: no namespace has content of it", resource)
		}
		sources = append(sources, deleter.Source{Resource: resource, Content: source{c}, Final: true})
	}
	return sources, nil
}

// source deletes the content of one type in terminating namespaces.
type source struct{ *Content }

var (
	_ deleter.Content           = source{}
	_ deleter.CollectionDeleter = source{}
	_ deleter.Notifier          = source{}
	_ deleter.Viewer            = source{}
)

// defaultPage is the number of objects of a page without a limit.
const defaultPage = 500

func invalidArgument(format string, args ...any) error {
	return fmt.Errorf("%w: %w", deleter.ErrInvalid, fmt.Errorf(format, args...))
}

// List implements [deleter.Content]. The fence and all pages are of one snapshot.
func (s source) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := s.validate(ctx, target, target.Validate()); err != nil {
		return deleter.Page{}, err
	}
	key := s.keys.termination(target.Namespace)
	return s.list(ctx, target, limit, next, key, func(entry *store.Entry) error {
		if entry == nil || string(entry.Value) != target.UID {
			return notTerminating(target.Namespace, target.UID)
		}
		return nil
	})
}

// View implements [deleter.Viewer]. The namespace and all pages are of one snapshot. View
// refuses another incarnation of the name (rule R8), and accepts any phase.
func (s source) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := s.validate(ctx, target, target.ValidateView()); err != nil {
		return deleter.Page{}, err
	}
	key := s.keys.namespace(target.Namespace)
	return s.list(ctx, target, limit, next, key, func(entry *store.Entry) error {
		other := fmt.Errorf("%w: there is no %s with uid %q", deleter.ErrIncarnation, target.Namespace, target.UID)
		if entry == nil {
			return other
		}
		d, err := parseEntry(*entry)
		if err == nil && !d.HasUID(target.UID) {
			err = other
		}
		return err
	})
}

// list returns a page of the snapshot in which check accepts the entry at key (nil if absent).
func (s source) list(ctx context.Context, target deleter.Target, limit int, next, key string, check func(*store.Entry) error) (deleter.Page, error) {
	if limit < 0 {
		return deleter.Page{}, invalidArgument("the limit is %d, it must not be negative", limit)
	}
	if limit == 0 {
		limit = defaultPage
	}
	q := store.Query{Prefix: s.keys.content(s.typ.Name(), target.Namespace), Limit: limit}
	if next != "" {
		position, after, ok := decodeToken(q.Prefix, next)
		if !ok || after == "" || position.Revision == 0 {
			return deleter.Page{}, invalidArgument("the page token is not one of this source")
		}
		q.At, q.After = position, q.Prefix+after
	}
	checked, err := s.store.List(ctx, store.Query{Prefix: key, Limit: 1, At: q.At})
	if err != nil {
		return deleter.Page{}, s.listError(err)
	}
	var entry *store.Entry
	if len(checked.Entries) > 0 && checked.Entries[0].Key == key {
		entry = &checked.Entries[0]
	}
	if err := check(entry); err != nil {
		return deleter.Page{}, err
	}
	q.At = checked.Position
	listing, err := s.store.List(ctx, q)
	if err != nil {
		return deleter.Page{}, s.listError(err)
	}
	return s.page(listing, q.Prefix)
}

func (s source) page(listing store.Page, prefix string) (deleter.Page, error) {
	out := deleter.Page{Seen: encodeToken(prefix, listing.Position, "")}
	if len(listing.Entries) > 0 {
		out.Items = make([]deleter.Item, len(listing.Entries))
	}
	for i, e := range listing.Entries {
		d, err := parseEntry(e)
		if err != nil {
			return deleter.Page{}, err
		}
		item := &out.Items[i]
		item.Name, item.UID, item.Deleting = strings.TrimPrefix(e.Key, prefix), d.UID(), d.Deleting
		item.Finalizers = d.Finalizers()
		if listing.More && i == len(listing.Entries)-1 {
			out.Next = encodeToken(prefix, listing.Position, item.Name)
		}
	}
	return out, nil
}

func (s source) listError(err error) error {
	if errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrFuture) {
		return fmt.Errorf("%w: %w", deleter.ErrExpired, storeError(s.resource, "", err))
	}
	return storeError(s.resource, "", err)
}

// Delete implements [deleter.Content].
func (s source) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if err := s.validate(ctx, target, target.Validate()); err != nil {
		return err
	}
	t, err := s.target(target.Namespace, name)
	if err != nil {
		return invalidArgument("%w", err)
	}
	f := fence{name: target.Namespace, uid: target.UID}
	if err := f.refresh(ctx, s.core); err != nil {
		return err
	}
	repeated := false
	_, _, err = s.mutate(ctx, t, s.dry, func(entry store.Entry) (mutation, error) {
		if repeated {
			if err := f.refresh(ctx, s.core); err != nil {
				return mutation{}, err
			}
		}
		repeated = true
		object, err := decodeObject(entry)
		if err != nil {
			return mutation{}, err
		}
		if uid != "" && object.UID != uid {
			return mutation{}, fmt.Errorf("%w: %s %q has uid %q, not %q", deleter.ErrReplaced, s.resource, name, object.UID, uid)
		}
		m, err := deletionMutation(&object, time.Now())
		m.ifAlso, m.retry = []store.Condition{f.condition()}, true
		return m, err
	})
	if errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	return err
}

// DeleteCollection implements [deleter.CollectionDeleter]. It deletes all objects in large
// commits, each conditional on the incarnation (rule R8).
func (s source) DeleteCollection(ctx context.Context, target deleter.Target) (deleted int, more bool, err error) {
	if err := s.validate(ctx, target, target.Validate()); err != nil {
		return 0, false, err
	}
	f := &fence{name: target.Namespace, uid: target.UID}
	if err := f.refresh(ctx, s.core); err != nil {
		return 0, false, err
	}
	d := collectionDeletion{Content: s.Content, prefix: s.keys.content(s.typ.Name(), target.Namespace), fence: f}
	err = d.run(ctx)
	return d.done.Deleted + d.done.Marked, false, err
}

// Wait implements [deleter.Notifier].
func (s source) Wait(ctx context.Context, target deleter.Target, seen string) error {
	if err := s.validate(ctx, target, target.Validate()); err != nil {
		return err
	}
	prefix := s.keys.content(s.typ.Name(), target.Namespace)
	position, after, ok := decodeToken(prefix, seen)
	if !ok || after != "" || position.Revision == 0 {
		return invalidArgument("the mark is not one of a listing of this source")
	}
	f := fence{name: target.Namespace, uid: target.UID}
	if err := f.refresh(ctx, s.core); err != nil {
		return err
	}
	for change, err := range s.objects.Watch(ctx, prefix, position) {
		switch {
		case errors.Is(err, store.ErrGone), errors.Is(err, store.ErrFuture):
			return nil // the deletion may have been missed: the caller lists again
		case err != nil:
			return storeError(s.resource, "", err)
		}
		for i := range change.Events {
			if change.Events[i].Deleted {
				return nil
			}
		}
	}
	return context.Cause(ctx)
}

// validate returns invalid, the result of validating target, or an error about its name or ctx.
func (s source) validate(ctx context.Context, target deleter.Target, invalid error) error {
	if invalid != nil {
		return invalid
	}
	if err := checkSegment(namespace.Resource, target.Namespace); err != nil {
		return invalidArgument("%w", err)
	}
	return contextError(ctx, s.resource, "")
}
