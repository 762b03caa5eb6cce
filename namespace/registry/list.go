package registry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// ListOptions selects objects and divides a listing into pages. The zero ListOptions list
// all current objects.
type ListOptions struct {
	Labels selector.Labels
	// Fields are metadata.name, name and status.phase for namespaces; metadata.name,
	// metadata.namespace and the [Type].Fields for content. If they require one
	// name (for content in all namespaces: one of each), the listing reads only that object.
	Fields selector.Fields
	// Limit is the maximum number of objects of a page; zero means unlimited. A negative
	// limit is [namespace.ErrBadRequest].
	Limit int
	// Bytes bounds a page by the stored size of its objects. A page ends between half and
	// one and a half times Bytes, but has at least one object. Zero means unlimited.
	Bytes int
	// Continue is the token of the previous page. All pages are of the snapshot of the first
	// one; if the store no longer has it the error is [namespace.ErrGone]. Selectors and limit
	// may change between pages; ResourceVersion must be empty. A token of another listing is
	// [namespace.ErrBadRequest].
	Continue string
	// ResourceVersion is the minimum version of the snapshot. A version that the store has
	// not reached is [namespace.ErrBadRequest] and a [*store.FutureError]. With Exact the
	// snapshot has exactly this version; the error is [namespace.ErrGone] if the store no
	// longer has it.
	ResourceVersion string
	Exact           bool
}

const (
	chunk        = 500    // entries read at once by selective listings, indexes and counts
	maxRemaining = 10_000 // objects counted after the first page
)

// JSONList is a page of objects in JSON form, and encodes as that list. The caller owns the
// items, which may share memory.
type JSONList struct {
	namespace.TypeMeta
	namespace.ListMeta `json:"metadata"`
	Items              []json.RawMessage `json:"items"`
}

// List returns a page of namespaces, ordered by name. A watch can begin at the
// resourceVersion of the list. The remainingItemCount counts the objects of the snapshot after
// the page. It is set if Limit ended the page, there are no selectors, the store can count
// ([store.Counter]), and at most 10,000 objects follow the first page: they are counted once,
// and the page tokens carry the rest.
func (r *Registry) List(ctx context.Context, o ListOptions) (namespace.List, error) {
	items, meta, err := list(ctx, r.core, namespaceKind, namespace.Resource, r.keys.namespaces(), r.keys.onlyNamespace(o.Fields), o)
	return namespace.List{
		TypeMeta: namespace.TypeMeta{Kind: "NamespaceList", APIVersion: namespace.APIVersion},
		ListMeta: meta, Items: items,
	}, err
}

// GetJSON returns the result of [Registry.Get] in JSON form, without decoding the stored
// object.
func (r *Registry) GetJSON(ctx context.Context, name string) (json.RawMessage, error) {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return nil, err
	}
	return getJSON(ctx, r.core, namespace.Resource, name, r.keys.namespace(name))
}

// ListJSON returns the result of [Registry.List] in JSON form, without decoding the stored
// objects.
func (r *Registry) ListJSON(ctx context.Context, o ListOptions) (JSONList, error) {
	items, meta, err := listJSON(ctx, r.core, namespaceKind, namespace.Resource, r.keys.namespaces(), r.keys.onlyNamespace(o.Fields), o)
	return JSONList{
		TypeMeta: namespace.TypeMeta{Kind: "NamespaceList", APIVersion: namespace.APIVersion},
		ListMeta: meta, Items: items,
	}, err
}

// GetJSON returns the result of [Content.Get] in JSON form, without decoding the stored
// object. The fields of the object are unchanged except for white space.
func (c *Content) GetJSON(ctx context.Context, ns, name string) (json.RawMessage, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return nil, err
	}
	return getJSON(ctx, c.core, c.resource, name, t.key)
}

// ListJSON returns the result of [Content.List] in JSON form, without decoding the stored
// objects, except for the fields of selectors.
func (c *Content) ListJSON(ctx context.Context, ns string, o ListOptions) (JSONList, error) {
	prefix, err := c.prefix(ns)
	if err != nil {
		return JSONList{}, err
	}
	items, meta, err := listJSON(ctx, c.core, c.kind, c.resource, prefix, c.onlyKey(ns, prefix, o.Fields), o)
	return JSONList{
		TypeMeta: namespace.TypeMeta{Kind: c.typ.Kind + "List", APIVersion: c.typ.APIVersion()},
		ListMeta: meta, Items: items,
	}, err
}

func getJSON(ctx context.Context, c *core, resource, name, key string) (json.RawMessage, error) {
	entry, err := c.store.Get(ctx, key)
	if err != nil {
		return nil, storeError(resource, name, err)
	}
	d, err := parseEntry(entry)
	if err != nil {
		return nil, err
	}
	return d.AppendJSON(make([]byte, 0, d.Size()), int64(entry.Revision)), nil
}

// list reads a page of the objects below prefix, or only the object at key unless it is empty.
func list[T any](ctx context.Context, c *core, k kind[T], resource, prefix, key string, o ListOptions) ([]T, namespace.ListMeta, error) {
	return readPage(ctx, c, k, resource, prefix, key, o, func(e store.Entry, _ *document.Document) (T, error) { return k.decode(e) })
}

// listJSON is list for objects in JSON form.
func listJSON[T any](ctx context.Context, c *core, k kind[T], resource, prefix, key string, o ListOptions,
) ([]json.RawMessage, namespace.ListMeta, error) {
	var a arena
	return readPage(ctx, c, k, resource, prefix, key, o, func(e store.Entry, d *document.Document) (json.RawMessage, error) {
		return d.AppendJSON(a.alloc(d.Size()), int64(e.Revision)), nil
	})
}

// arena allocates the items of a page in chunks. A page takes few allocations, and a caller
// that keeps one item does not keep a large page in memory.
type arena struct {
	free []byte
	size int
}

const (
	minArena = 4 << 10
	maxArena = 64 << 10
)

// alloc returns an empty slice with capacity n.
func (a *arena) alloc(n int) []byte {
	if n > len(a.free) {
		a.size = max(n, minArena, min(2*a.size, maxArena))
		a.free = make([]byte, a.size)
	}
	item := a.free[:0:n]
	a.free = a.free[n:]
	return item
}

// readPage reads a page of the selected entries below prefix, or at key, and decodes them.
func readPage[T, I any](ctx context.Context, c *core, k kind[T], resource, prefix, key string, o ListOptions,
	decode func(store.Entry, *document.Document) (I, error),
) ([]I, namespace.ListMeta, error) {
	filter, err := k.filter(o.Labels, o.Fields)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	if o.Limit < 0 {
		return nil, namespace.ListMeta{}, badRequest(resource, "", "limit is %d, it must not be negative", o.Limit)
	}
	q, least, left, err := o.query(resource, prefix)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	take := func(items []I, e store.Entry) ([]I, error) { // appends the item of e if it is selected
		d, err := filter.selected(e)
		if err != nil || d == nil {
			return items, err
		}
		item, err := decode(e, d)
		return append(items, item), err
	}
	if key != "" {
		return readOne(ctx, c, resource, key, o, q, least, take)
	}
	selective := filter.matches != nil
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
			before := len(items)
			if items, err = take(items, entry); err != nil {
				return nil, namespace.ListMeta{}, err
			}
			last = entry.Key
			if len(items) == before {
				continue
			}
			if len(items) == o.Limit {
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
				left = 0
			case o.Continue == "" && o.Limit > 0:
				left = c.remaining(ctx, rest)
			default:
				left -= int64(len(items))
			}
			if left = max(left, 0); left > 0 {
				meta.RemainingItemCount = &left
			}
			meta.Continue = encodePageToken(prefix, rest.At, strings.TrimPrefix(last, prefix), left)
			return items, meta, nil
		}
		q.At, q.After = page.Position, last
	}
}

// readOne is readPage if selectors select at most the object at key. Its cost does not depend
// on other objects.
func readOne[I any](ctx context.Context, c *core, resource, key string, o ListOptions, q store.Query, least store.Revision,
	take func([]I, store.Entry) ([]I, error),
) ([]I, namespace.ListMeta, error) {
	after := q.After
	q.Prefix, q.After, q.Limit = key, "", 1 // key is the first of the keys that begin with it
	page, err := c.page(ctx, resource, o, q, least)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	items := []I{}
	if len(page.Entries) > 0 && page.Entries[0].Key == key && after < key {
		if items, err = take(items, page.Entries[0]); err != nil {
			return nil, namespace.ListMeta{}, err
		}
	}
	return items, namespace.ListMeta{ResourceVersion: formatVersion(page.Position.Revision)}, nil
}

// page reads a page of a snapshot whose revision is at least least.
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

// remaining counts the entries after the first page. It returns zero if there are too many or
// the store cannot count them: the count is optional.
func (c *core) remaining(ctx context.Context, q store.Query) int64 {
	if c.counter == nil {
		return 0
	}
	q.Limit = maxRemaining + 1
	n, err := c.counter.Count(ctx, q)
	if err != nil || n > maxRemaining {
		return 0
	}
	return int64(n)
}

// query returns the query of the page, the minimum revision of the snapshot, and the number of
// objects after the previous page if it is known.
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
		return storeError(resource, "", err)
	}
	message := "The provided resource version is too old: list again without it."
	if o.Continue != "" {
		message = "The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter."
	}
	return &namespace.Error{Kind: namespace.ErrGone, Resource: resource, Message: message, Err: err}
}

// onlyKey returns the only key below prefix that can match, if the fields require a value for
// every one of names, the segments after prefix. Otherwise it returns "". For an invalid name it
// returns a key that no object has.
func onlyKey(prefix string, fields selector.Fields, names ...string) string {
	key := prefix
	for i, field := range names {
		name, ok := fields.Exactly(field)
		if !ok {
			return ""
		}
		if keypath.Segment(name) != "" {
			return prefix + "." // no name begins with a dot
		}
		if i > 0 {
			key += "/"
		}
		key += name
	}
	return key
}

// onlyNamespace is onlyKey for namespaces, whose name is selectable by two fields.
func (l layout) onlyNamespace(fields selector.Fields) string {
	if key := onlyKey(l.namespaces(), fields, "metadata.name"); key != "" {
		return key
	}
	return onlyKey(l.namespaces(), fields, "name")
}

// onlyKey is onlyKey for content below prefix, the prefix of ns.
func (c *Content) onlyKey(ns, prefix string, fields selector.Fields) string {
	if c.typ.Namespaced && ns == "" {
		return onlyKey(prefix, fields, "metadata.namespace", "metadata.name")
	}
	return onlyKey(prefix, fields, "metadata.name")
}
