package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Content is the objects of one type, as Go values. Make one with [NewContent]. Its methods
// follow the rules of the methods of [registry.Content], return their errors, and are safe for
// concurrent use.
//
// The JSON encoding of a T is an object, never null. Its members are stored beside the object's
// metadata:
//
//	{"apiVersion": "v1", "kind": "Invoice", "metadata": {...}, "customer": "acme", "cents": 4200}
//
// The members apiVersion, kind and metadata are not T's to use. Members of a stored object that T
// does not have are ignored by reads and lost by Update: a process with an older T must not update
// objects of a newer one. An object that cannot be decoded into T is an error that names the
// object: List fails with it, and Watch yields it and continues with the next event.
type Content[T any] struct {
	content *registry.Content
}

// Object is one object: its metadata, and all its other members as a T. It is a Go value and not
// the stored JSON: an API sends Value, or the JSON of [registry.Content.GetJSON].
type Object[T any] struct {
	namespace.Meta
	Value T
}

// Named returns an object to create.
func Named[T any](name string, value T) Object[T] {
	return Object[T]{Meta: namespace.Meta{Name: name}, Value: value}
}

// List is a page of objects.
type List[T any] struct {
	namespace.ListMeta
	Items []Object[T]
}

// NewContent returns the objects of type t in r, which must have been made with t. It compares only
// the group and the resource of t.
func NewContent[T any](r *registry.Registry, t registry.Type) (Content[T], error) {
	c, err := r.Content(t.Name())
	return Content[T]{c}, err
}

// Create creates an object in the namespace, while that is Active (rule R6), and returns it
// as stored.
func (c Content[T]) Create(ctx context.Context, ns string, o Object[T]) (Object[T], error) {
	return c.write(ctx, ns, o, c.content.Create)
}

// Update replaces an object and returns it as stored. If o has a ResourceVersion and the
// object has another one by now, the error matches [namespace.ErrConflict].
func (c Content[T]) Update(ctx context.Context, ns string, o Object[T]) (Object[T], error) {
	return c.write(ctx, ns, o, c.content.Update)
}

// UpdateStatus replaces the status of an object; see [registry.Content.UpdateStatus].
func (c Content[T]) UpdateStatus(ctx context.Context, ns string, o Object[T]) (Object[T], error) {
	return c.write(ctx, ns, o, c.content.UpdateStatus)
}

func (c Content[T]) write(ctx context.Context, ns string, o Object[T],
	write func(context.Context, string, registry.Object) (registry.Object, error),
) (Object[T], error) {
	encoded, err := c.encode(o)
	if err != nil {
		return Object[T]{}, err
	}
	stored, err := write(ctx, ns, encoded)
	if err != nil {
		return Object[T]{}, err
	}
	return c.decode(stored)
}

// Get returns an object, or an error that matches [namespace.ErrNotFound].
func (c Content[T]) Get(ctx context.Context, ns, name string) (Object[T], error) {
	o, err := c.content.Get(ctx, ns, name)
	if err != nil {
		return Object[T]{}, err
	}
	return c.decode(o)
}

// Delete deletes an object, or begins its deletion if it has finalizers.
func (c Content[T]) Delete(ctx context.Context, ns, name string, only namespace.Preconditions) error {
	_, err := c.content.Delete(ctx, ns, name, only)
	return err
}

// List returns a page of the objects in the namespace, ordered by name. An unknown namespace
// has no objects. An empty ns means all namespaces, so refuse an empty name from a client.
func (c Content[T]) List(ctx context.Context, ns string, o registry.ListOptions) (List[T], error) {
	page, err := c.content.List(ctx, ns, o)
	if err != nil {
		return List[T]{}, err
	}
	list := List[T]{ListMeta: page.ListMeta, Items: make([]Object[T], len(page.Items))}
	for i, o := range page.Items {
		if list.Items[i], err = c.decode(o); err != nil {
			return List[T]{}, err
		}
	}
	return list, nil
}

// Watch yields the changes of objects in the namespace, until the caller breaks or ctx ends;
// an empty namespace stands for all of them. See [registry.Content.Watch].
func (c Content[T]) Watch(ctx context.Context, ns string, o registry.WatchOptions) iter.Seq2[registry.Event[Object[T]], error] {
	return func(yield func(registry.Event[Object[T]], error) bool) {
		for e, err := range c.content.Watch(ctx, ns, o) {
			decoded := registry.Event[Object[T]]{Type: e.Type, ResourceVersion: e.ResourceVersion}
			if err == nil && e.Type != registry.Bookmark {
				decoded.Object, err = c.decode(e.Object)
			}
			if !yield(decoded, err) {
				return
			}
		}
	}
}

// encode returns o as the registry takes it.
func (c Content[T]) encode(o Object[T]) (registry.Object, error) {
	encoded := registry.Object{Meta: o.Meta}
	data, err := json.Marshal(o.Value)
	if err == nil {
		err = json.Unmarshal(data, &encoded.Fields)
	}
	if err == nil && encoded.Fields == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return registry.Object{}, c.invalid(o.Name, "cannot be encoded as a JSON object", err)
	}
	for _, member := range []string{"apiVersion", "kind", "metadata"} {
		if _, ok := encoded.Fields[member]; ok {
			return registry.Object{}, c.invalid(o.Name, fmt.Sprintf("has the member %q, which belongs to the object", member), nil)
		}
	}
	return encoded, nil
}

// decode is the reverse of encode.
func (c Content[T]) decode(o registry.Object) (Object[T], error) {
	decoded := Object[T]{Meta: o.Meta}
	if o.Fields == nil {
		o.Fields = map[string]json.RawMessage{} // null would leave a nil pointer
	}
	data, err := json.Marshal(o.Fields)
	if err == nil {
		err = json.Unmarshal(data, &decoded.Value)
	}
	if err != nil {
		return Object[T]{}, c.invalid(o.Name, fmt.Sprintf("cannot be decoded into a %T", decoded.Value), err)
	}
	return decoded, nil
}

// invalid returns the error of an object whose value does not fit T.
func (c Content[T]) invalid(name, problem string, err error) error {
	resource := c.content.Type().Name().String()
	message := fmt.Sprintf("%s %q %s", resource, name, problem)
	if err != nil {
		message += ": " + err.Error()
	}
	return &namespace.Error{Kind: namespace.ErrInvalid, Resource: resource, Name: name, Message: message, Err: err}
}
