package apiserver

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// storage is where objects of one kind are kept, namespaces and content alike. The
// namespace is that of the request, empty for a cluster-scoped kind and for lists
// across namespaces.
type storage interface {
	get(ctx context.Context, ns, name string) (registry.Object, error)
	list(ctx context.Context, ns string, o registry.ListOptions) (registry.ObjectList, error)
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

func (c content) list(ctx context.Context, ns string, o registry.ListOptions) (registry.ObjectList, error) {
	return c.List(ctx, ns, o)
}

func (c content) create(ctx context.Context, ns string, o registry.Object) (registry.Object, error) {
	return c.Create(ctx, ns, o)
}

func (c content) update(ctx context.Context, ns, subresource string, o registry.Object) (registry.Object, error) {
	if subresource != "" {
		return registry.Object{}, errNoSuchPath()
	}
	return c.Update(ctx, ns, o)
}

func (c content) delete(ctx context.Context, ns, name string, only namespace.Preconditions) (registry.Object, error) {
	return c.Delete(ctx, ns, name, only)
}

func (c content) deleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) error {
	_, err := c.DeleteCollection(ctx, ns, labels, fields)
	return err
}
