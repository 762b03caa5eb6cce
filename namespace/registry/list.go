package registry

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// ListOptions narrows a listing and cuts it into pages. The zero ListOptions
// list everything as it is now.
type ListOptions struct {
	Labels selector.Labels
	// Fields are of namespaces: metadata.name, name, status.phase; of content:
	// metadata.name, metadata.namespace. A listing that demands one name (and of
	// content in all namespaces one of these) reads that one object, whatever else is
	// there: its Limit and its pages do not depend on other objects.
	Fields selector.Fields
	// Limit is how many objects a page may have; zero: all of them in one. Negative
	// is [namespace.ErrBadRequest].
	Limit int
	// Bytes bounds a page by the stored size of its objects. A page ends between half and
	// one and a half times Bytes, but has at least one object. Zero means no bound.
	Bytes int
	// Continue is the token of the page before. All pages are of the snapshot of the
	// first one; when that is no longer there the error is [namespace.ErrGone]. The
	// selectors and the limit need not be the same; ResourceVersion must be empty. A
	// token of another listing is [namespace.ErrBadRequest].
	Continue string
	// ResourceVersion asks for a listing that is at least that new (one that lies
	// ahead of the store is [namespace.ErrBadRequest], and a [*store.FutureError]
	// that tells how far the store has come); with Exact for the snapshot at exactly that version, or
	// [namespace.ErrGone].
	ResourceVersion string
	Exact           bool
}

// chunk is how many entries are read at once when a selector drops some.
const chunk = 500

// List returns a page of namespaces, ordered by name. The resourceVersion of the
// list is where a watch goes on from. Its remainingItemCount is that of the page's
// snapshot; it is there when Limit cut the list, there are no selectors, the store
// can count ([store.Counter]), and no more than 10,000 objects remain behind the first
// page: they are counted there, once, and the token of each page carries how many
// are left.
func (r *Registry) List(ctx context.Context, o ListOptions) (namespace.List, error) {
	items, meta, err := list(ctx, r.core, namespaceKind, namespace.Resource, r.keys.namespaces(), r.keys.oneNamespace(o.Fields), o)
	return namespace.List{
		TypeMeta: namespace.TypeMeta{Kind: "NamespaceList", APIVersion: namespace.APIVersion},
		ListMeta: meta, Items: items,
	}, err
}

// list reads a page of the objects below prefix; of the one at a key, if there is a key.
func list[T any](ctx context.Context, c *core, k kind[T], resource, prefix, key string, o ListOptions) ([]T, namespace.ListMeta, error) {
	match, err := k.match(o.Labels, o.Fields)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	return readPage(ctx, c, resource, prefix, key, o, match != nil, func(e store.Entry) (T, bool, error) {
		object, err := k.decode(e)
		return object, err == nil && (match == nil || match(object)), err
	})
}

// readPage reads a page of what take makes of the entries below prefix. It takes all of
// them unless it is selective. If there is a key, it can take no other.
func readPage[I any](ctx context.Context, c *core, resource, prefix, key string, o ListOptions, selective bool,
	take func(store.Entry) (item I, ok bool, err error),
) ([]I, namespace.ListMeta, error) {
	if o.Limit < 0 {
		return nil, namespace.ListMeta{}, badRequest(resource, "", "limit is %d, it must not be negative", o.Limit)
	}
	q, least, left, err := o.query(resource, prefix)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	if key != "" {
		return readOne(ctx, c, resource, key, o, q, least, take)
	}
	items, size := []I{}, 0
	for {
		q.Bytes = o.Bytes
		if q.Limit = max(o.Limit-len(items), 0); q.Limit > 0 && selective {
			q.Limit = max(q.Limit, chunk)
		}
		page, err := c.page(ctx, resource, o, q, least)
		if err != nil {
			return nil, namespace.ListMeta{}, err
		}
		if !selective {
			items = slices.Grow(items, len(page.Entries))
		}
		last, more := "", page.More
		for i, entry := range page.Entries {
			item, ok, err := take(entry)
			if err != nil {
				return nil, namespace.ListMeta{}, err
			}
			last = entry.Key
			if !ok {
				continue
			}
			if items = append(items, item); len(items) == o.Limit {
				more = more || i < len(page.Entries)-1
				break
			}
			size += len(entry.Value)
		}
		meta := namespace.ListMeta{ResourceVersion: formatVersion(page.Position.Revision)}
		if !more || last == "" {
			return items, meta, nil
		}
		if len(items) == o.Limit || o.Bytes > 0 && 2*size > o.Bytes {
			rest := store.Query{Prefix: prefix, After: last, At: page.Position}
			switch {
			case selective:
				goOn(&meta, rest, 0)
			case o.Continue == "" && o.Limit > 0:
				goOn(&meta, rest, c.remaining(ctx, rest))
			default:
				goOn(&meta, rest, left-int64(len(items)))
			}
			return items, meta, nil
		}
		q.At, q.After = page.Position, last
	}
}

// page reads a page of the store, which must have come to a revision.
func (c *core) page(ctx context.Context, resource string, o ListOptions, q store.Query, least store.Revision) (store.Page, error) {
	page, err := c.store.List(ctx, q)
	if err == nil && page.Position.Revision < least {
		err = &store.FutureError{Asked: least, Current: page.Position.Revision}
	}
	if err != nil {
		return store.Page{}, listError(resource, o, err)
	}
	return page, nil
}

// goOn says how to go on with the rest of a listing, and how much that is if it is
// known.
func goOn(meta *namespace.ListMeta, rest store.Query, left int64) {
	if left = max(left, 0); left > 0 {
		meta.RemainingItemCount = &left
	}
	meta.Continue = encodePageToken(rest.Prefix, rest.At, strings.TrimPrefix(rest.After, rest.Prefix), left)
}

// mostCounted is how many objects are counted behind the first page at most.
const mostCounted = 10_000

// remaining counts what follows the first page; zero when there is more than may be
// counted, or it cannot be told: the page is good without.
func (c *core) remaining(ctx context.Context, q store.Query) int64 {
	counter, ok := c.store.(store.Counter)
	if !ok {
		return 0
	}
	q.Limit = mostCounted + 1
	n, err := counter.Count(ctx, q)
	if err != nil || n > mostCounted {
		return 0
	}
	return int64(n)
}

// query returns where to begin, the revision that the snapshot must reach, and how
// many objects the page before has left, if that is known.
func (o ListOptions) query(resource, prefix string) (q store.Query, least store.Revision, left int64, err error) {
	q = store.Query{Prefix: prefix}
	version, err := parseVersion(resource, o.ResourceVersion)
	switch {
	case err != nil:
		return q, 0, 0, err
	case o.Continue != "":
		position, after, behind, ok := decodePageToken(prefix, o.Continue)
		if !ok || after == "" || position.Revision == 0 {
			return q, 0, 0, badRequest(resource, "", "continue key is not valid: it was not made by an earlier page of this listing")
		}
		if version != 0 {
			return q, 0, 0, badRequest(resource, "", "specifying resource version is not allowed when using continue")
		}
		q.At, q.After, left = position, prefix+after, behind
	case o.Exact && version == 0:
		return q, 0, 0, badRequest(resource, "", "an exact resource version must be given, and not be 0")
	case o.Exact:
		q.At = store.Position{Revision: version}
	default:
		least = version
	}
	return q, least, left, nil
}

func listError(resource string, o ListOptions, err error) error {
	if !errors.Is(err, store.ErrGone) {
		return stored(resource, "", err)
	}
	message := "The provided resource version is too old: list again without it."
	if o.Continue != "" {
		message = "The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter."
	}
	return &namespace.Error{Kind: namespace.ErrGone, Resource: resource, Message: message, Err: err}
}

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
