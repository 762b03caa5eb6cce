package apiserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// storage stores objects of one kind. Most methods are those of [registry.Content]. The namespace
// ns is empty for a cluster-scoped kind and for all namespaces.
type storage interface {
	Get(ctx context.Context, ns, name string) (registry.Object, error)
	GetJSON(ctx context.Context, ns, name string) (json.RawMessage, error)
	List(ctx context.Context, ns string, o registry.ListOptions) (registry.ObjectList, error)
	ListJSON(ctx context.Context, ns string, o registry.ListOptions) (registry.JSONList, error)
	watch(ctx context.Context, ns string, o registry.WatchOptions, to *watchStream) error
	Create(ctx context.Context, ns string, o registry.Object) (registry.Object, error)
	update(ctx context.Context, ns, subresource string, o registry.Object) (registry.Object, error)
	Delete(ctx context.Context, ns, name string, only namespace.Preconditions) (registry.Object, error)
	deleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) error
}

// content stores objects of a type that the host declared.
type content struct{ *registry.Content }

func (c content) update(ctx context.Context, ns, subresource string, o registry.Object) (registry.Object, error) {
	switch subresource {
	case "":
		return c.Update(ctx, ns, o)
	case subStatus:
		return c.UpdateStatus(ctx, ns, o)
	}
	return registry.Object{}, errNoSuchPath()
}

func (c content) deleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) error {
	_, err := c.DeleteCollection(ctx, ns, labels, fields)
	return err
}

// namespaces stores namespaces in the form of content.
type namespaces struct{ registry *registry.Registry }

func (n namespaces) Get(ctx context.Context, _, name string) (registry.Object, error) {
	return objectOf(n.registry.Get(ctx, name))
}

func (n namespaces) GetJSON(ctx context.Context, _, name string) (json.RawMessage, error) {
	return n.registry.GetJSON(ctx, name)
}

func (n namespaces) ListJSON(ctx context.Context, _ string, o registry.ListOptions) (registry.JSONList, error) {
	return n.registry.ListJSON(ctx, o)
}

func (n namespaces) List(ctx context.Context, _ string, o registry.ListOptions) (registry.ObjectList, error) {
	page, err := n.registry.List(ctx, o)
	if err != nil {
		return registry.ObjectList{}, err
	}
	list := registry.ObjectList{TypeMeta: page.TypeMeta, ListMeta: page.ListMeta, Items: make([]registry.Object, len(page.Items))}
	for i, item := range page.Items {
		if list.Items[i], err = objectOf(item, nil); err != nil {
			return registry.ObjectList{}, err
		}
	}
	return list, nil
}

func (n namespaces) Create(ctx context.Context, _ string, o registry.Object) (registry.Object, error) {
	asked, err := namespaceOf(o)
	if err != nil {
		return registry.Object{}, err
	}
	return objectOf(n.registry.Create(ctx, asked))
}

func (n namespaces) update(ctx context.Context, _, subresource string, o registry.Object) (registry.Object, error) {
	asked, err := namespaceOf(o)
	if err != nil {
		return registry.Object{}, err
	}
	switch subresource {
	case "":
		return objectOf(n.registry.Update(ctx, asked))
	case subStatus:
		return objectOf(n.registry.UpdateStatus(ctx, asked))
	case subFinalize:
		return objectOf(n.registry.Finalize(ctx, asked))
	}
	return registry.Object{}, errNoSuchPath()
}

func (n namespaces) Delete(ctx context.Context, _, name string, only namespace.Preconditions) (registry.Object, error) {
	return objectOf(n.registry.Delete(ctx, name, only))
}

// deleteCollection is never called: namespaces have no such method, as in Kubernetes.
func (n namespaces) deleteCollection(context.Context, string, selector.Labels, selector.Fields) error {
	return errNoSuchPath()
}

// objectOf converts a namespace to the form of content, unless there is an error.
func objectOf(n namespace.Namespace, err error) (registry.Object, error) {
	if err != nil {
		return registry.Object{}, err
	}
	spec, err := json.Marshal(n.Spec)
	if err != nil {
		return registry.Object{}, err
	}
	status, err := json.Marshal(n.Status)
	if err != nil {
		return registry.Object{}, err
	}
	return registry.Object{
		TypeMeta: n.TypeMeta, Meta: n.Meta,
		Fields: map[string]json.RawMessage{"spec": spec, "status": status},
	}, nil
}

// namespaceOf converts the form of content to a namespace. It drops unknown fields.
func namespaceOf(o registry.Object) (namespace.Namespace, error) {
	n := namespace.Namespace{TypeMeta: o.TypeMeta, Meta: o.Meta}
	if o.Namespace != "" {
		return n, badRequest(namespace.Resource, o.Name, "the namespace of the provided object does not match the namespace sent on the request")
	}
	return n, errors.Join(
		decodeField(o, "spec", &n.Spec),
		decodeField(o, "status", &n.Status),
	)
}

func decodeField(o registry.Object, name string, into any) error {
	value := o.Fields[name]
	if len(value) == 0 {
		return nil
	}
	if err := json.Unmarshal(value, into); err != nil {
		return badRequest(namespace.Resource, o.Name, "the field %q of the object cannot be read: %v", name, err)
	}
	return nil
}
