package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// namespaces is the namespaces themselves.
type namespaces struct{ *registry.Registry }

func (n namespaces) get(ctx context.Context, _, name string) (registry.Object, error) {
	found, err := n.Get(ctx, name)
	return objectOf(found, err)
}

func (n namespaces) getJSON(ctx context.Context, _, name string) (json.RawMessage, error) {
	return n.GetJSON(ctx, name)
}

func (n namespaces) listJSON(ctx context.Context, _ string, o registry.ListOptions) (registry.JSONList, error) {
	return n.ListJSON(ctx, o)
}

func (n namespaces) list(ctx context.Context, _ string, o registry.ListOptions) (registry.ObjectList, error) {
	page, err := n.List(ctx, o)
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

func (n namespaces) create(ctx context.Context, _ string, o registry.Object) (registry.Object, error) {
	asked, err := namespaceOf(o)
	if err != nil {
		return registry.Object{}, err
	}
	return objectOf(n.Create(ctx, asked))
}

func (n namespaces) update(ctx context.Context, _, subresource string, o registry.Object) (registry.Object, error) {
	asked, err := namespaceOf(o)
	if err != nil {
		return registry.Object{}, err
	}
	switch subresource {
	case "":
		return objectOf(n.Update(ctx, asked))
	case subStatus:
		return objectOf(n.UpdateStatus(ctx, asked))
	case subFinalize:
		return objectOf(n.Finalize(ctx, asked))
	}
	return registry.Object{}, errNoSuchPath()
}

// delete needs no namespace: the gate and its index go with it in one commit.
func (n namespaces) delete(ctx context.Context, _, name string, only namespace.Preconditions) (registry.Object, error) {
	return objectOf(n.Delete(ctx, name, only))
}

// deleteCollection is not offered (as in Kubernetes): too much would go at once.
func (n namespaces) deleteCollection(context.Context, string, selector.Labels, selector.Fields) error {
	return errMethod()
}

// objectOf returns a namespace in the form of content. It passes err on.
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

// namespaceOf reads a namespace that came in the form of content. Fields that a
// namespace does not have are dropped.
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

func badRequest(resource, name, format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: resource, Name: name, Message: fmt.Sprintf(format, args...)}
}
