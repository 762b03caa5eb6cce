package registry

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// oneKey returns the key of the only object below prefix that can be selected when
// fields demand these names, one after the other; empty when they do not demand all
// of them. What no object is named has a key that no object has.
func oneKey(prefix string, fields selector.Fields, names ...string) string {
	key := prefix
	for i, field := range names {
		name, ok := fields.Exactly(field)
		if !ok {
			return ""
		}
		if segmentFault(name) != "" {
			return prefix + "." // no name begins so
		}
		if i > 0 {
			key += "/"
		}
		key += name
	}
	return key
}

// oneNamespace is oneKey for namespaces, whose name has two names.
func (l layout) oneNamespace(fields selector.Fields) string {
	if key := oneKey(l.namespaces(), fields, "metadata.name"); key != "" {
		return key
	}
	return oneKey(l.namespaces(), fields, "name")
}

// oneKey is oneKey for content below prefix, which is that of ns.
func (c *Content) oneKey(ns, prefix string, fields selector.Fields) string {
	if c.typ.Namespaced && ns == "" {
		return oneKey(prefix, fields, "metadata.namespace", "metadata.name")
	}
	return oneKey(prefix, fields, "metadata.name")
}

// readOne is readPage where only one key can be selected: it reads that, of the same
// snapshot, so that it costs the same whatever else is there.
func readOne[I any](ctx context.Context, c *core, resource, key string, o ListOptions, q store.Query, least store.Revision,
	take func(store.Entry) (item I, ok bool, err error),
) ([]I, namespace.ListMeta, error) {
	after := q.After
	q.Prefix, q.After, q.Limit = key, "", 1 // of the keys that begin so it is the first
	page, err := c.page(ctx, resource, o, q, least)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	items := []I{}
	if len(page.Entries) > 0 && page.Entries[0].Key == key && after < key {
		item, ok, err := take(page.Entries[0])
		if err != nil {
			return nil, namespace.ListMeta{}, err
		}
		if ok {
			items = append(items, item)
		}
	}
	return items, namespace.ListMeta{ResourceVersion: formatVersion(page.Position.Revision)}, nil
}
