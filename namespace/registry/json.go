package registry

import (
	"context"
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// JSONList is a page of objects in JSON form.
type JSONList struct {
	namespace.TypeMeta
	namespace.ListMeta `json:"metadata"`
	Items              []json.RawMessage `json:"items"`
}

// GetJSON returns the JSON form of what [Registry.Get] returns.
func (r *Registry) GetJSON(ctx context.Context, name string) (json.RawMessage, error) {
	n, err := r.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(n)
}

// ListJSON returns the JSON form of what [Registry.List] returns.
func (r *Registry) ListJSON(ctx context.Context, o ListOptions) (JSONList, error) {
	list, err := r.List(ctx, o)
	if err != nil {
		return JSONList{}, err
	}
	out := JSONList{TypeMeta: list.TypeMeta, ListMeta: list.ListMeta, Items: make([]json.RawMessage, len(list.Items))}
	for i, item := range list.Items {
		if out.Items[i], err = json.Marshal(item); err != nil {
			return JSONList{}, err
		}
	}
	return out, nil
}

// GetJSON returns the JSON form of what [Content.Get] returns.
func (c *Content) GetJSON(ctx context.Context, ns, name string) (json.RawMessage, error) {
	o, err := c.Get(ctx, ns, name)
	if err != nil {
		return nil, err
	}
	return o.MarshalJSON()
}

// ListJSON returns the JSON form of what [Content.List] returns.
func (c *Content) ListJSON(ctx context.Context, ns string, o ListOptions) (JSONList, error) {
	list, err := c.List(ctx, ns, o)
	if err != nil {
		return JSONList{}, err
	}
	out := JSONList{TypeMeta: list.TypeMeta, ListMeta: list.ListMeta, Items: make([]json.RawMessage, len(list.Items))}
	for i, item := range list.Items {
		if out.Items[i], err = item.MarshalJSON(); err != nil {
			return JSONList{}, err
		}
	}
	return out, nil
}
