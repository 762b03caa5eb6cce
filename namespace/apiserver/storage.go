package apiserver

import (
	"context"
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// storage is where objects of one kind are kept, namespaces and content alike. The
// namespace is that of the request, empty for a cluster-scoped kind and for lists
// across namespaces.
type storage interface {
	get(ctx context.Context, ns, name string) (registry.Object, error)
	getJSON(ctx context.Context, ns, name string) (json.RawMessage, error)
	list(ctx context.Context, ns string, o registry.ListOptions) (registry.ObjectList, error)
	listJSON(ctx context.Context, ns string, o registry.ListOptions) (registry.JSONList, error)
	watch(ctx context.Context, ns string, o registry.WatchOptions, to *watchStream) error
	create(ctx context.Context, ns string, o registry.Object) (registry.Object, error)
	update(ctx context.Context, ns, subresource string, o registry.Object) (registry.Object, error)
	delete(ctx context.Context, ns, name string, only namespace.Preconditions) (registry.Object, error)
	deleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) error
}

// content is objects of a type that the host declared.
type content struct{ *registry.Content }

func (c content) get(ctx context.Context, ns, name string) (registry.Object, error) {
	return c.Get(ctx, ns, name)
}

func (c content) getJSON(ctx context.Context, ns, name string) (json.RawMessage, error) {
	return c.GetJSON(ctx, ns, name)
}

func (c content) list(ctx context.Context, ns string, o registry.ListOptions) (registry.ObjectList, error) {
	return c.List(ctx, ns, o)
}

func (c content) listJSON(ctx context.Context, ns string, o registry.ListOptions) (registry.JSONList, error) {
	return c.ListJSON(ctx, ns, o)
}

func (c content) create(ctx context.Context, ns string, o registry.Object) (registry.Object, error) {
	return c.Create(ctx, ns, o)
}

func (c content) update(ctx context.Context, ns, subresource string, o registry.Object) (registry.Object, error) {
	switch subresource {
	case "":
		return c.Update(ctx, ns, o)
	case subStatus:
		return c.UpdateStatus(ctx, ns, o)
	}
	return registry.Object{}, errNoSuchPath()
}

func (c content) delete(ctx context.Context, ns, name string, only namespace.Preconditions) (registry.Object, error) {
	return c.Delete(ctx, ns, name, only)
}

func (c content) deleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) error {
	_, err := c.DeleteCollection(ctx, ns, labels, fields)
	return err
}
