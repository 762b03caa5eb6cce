package registry

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// JSONList is a page of objects in JSON form, and encodes as the list that it
// is. Items are the caller's; they may share memory.
type JSONList struct {
	namespace.TypeMeta
	namespace.ListMeta `json:"metadata"`
	Items              []json.RawMessage `json:"items"`
}

// GetJSON returns the JSON form of what [Registry.Get] returns, without decoding
// what is stored.
func (r *Registry) GetJSON(ctx context.Context, name string) (json.RawMessage, error) {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return nil, err
	}
	return getJSON(ctx, r.core, namespaceForm, namespace.Resource, name, r.keys.namespace(name))
}

// ListJSON returns the JSON form of what [Registry.List] returns. Of what is
// stored only what selectors ask for is decoded.
func (r *Registry) ListJSON(ctx context.Context, o ListOptions) (JSONList, error) {
	items, meta, err := listJSON(ctx, r.core, namespaceForm, namespace.Resource, r.keys.namespaces(), r.keys.oneNamespace(o.Fields), o)
	return JSONList{
		TypeMeta: namespace.TypeMeta{Kind: "NamespaceList", APIVersion: namespace.APIVersion},
		ListMeta: meta, Items: items,
	}, err
}

// GetJSON returns the JSON form of what [Content.Get] returns, without decoding
// what is stored. The fields of the object stand in it as they were given, but for
// white space.
func (c *Content) GetJSON(ctx context.Context, ns, name string) (json.RawMessage, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return nil, err
	}
	return getJSON(ctx, c.core, objectForm(c.kind), c.resource, name, t.key)
}

// ListJSON returns the JSON form of what [Content.List] returns. Of what is
// stored only what selectors ask for is decoded.
func (c *Content) ListJSON(ctx context.Context, ns string, o ListOptions) (JSONList, error) {
	prefix, err := c.prefix(ns)
	if err != nil {
		return JSONList{}, err
	}
	items, meta, err := listJSON(ctx, c.core, objectForm(c.kind), c.resource, prefix, c.oneKey(ns, prefix, o.Fields), o)
	return JSONList{
		TypeMeta: namespace.TypeMeta{Kind: c.typ.Kind + "List", APIVersion: c.typ.APIVersion()},
		ListMeta: meta, Items: items,
	}, err
}

// form is how one Go type of objects is read from the store as JSON.
type form[T any] struct {
	kind[T]
	known  func(*outline) bool      // whether the document is one that would be encoded the same
	fields func(*outline, *T) error // reads what selectors of fields look at
	encode func(T) ([]byte, error)
}

var namespaceForm = form[namespace.Namespace]{
	kind:  namespaceKind,
	known: (*outline).namespace,
	fields: func(o *outline, n *namespace.Namespace) (err error) {
		if n.Name, err = o.name(metaName); err != nil {
			return err
		}
		if at := o.meta[metaDeletion]; at != (span{}) {
			err = json.Unmarshal(at.of(o.doc), &n.DeletionTimestamp)
		}
		return err
	},
	encode: func(n namespace.Namespace) ([]byte, error) { return json.Marshal(n) },
}

func objectForm(k kind[Object]) form[Object] {
	return form[Object]{
		kind:  k,
		known: (*outline).object,
		fields: func(o *outline, object *Object) (err error) {
			if object.Name, err = o.name(metaName); err != nil {
				return err
			}
			if object.Namespace, err = o.name(metaNamespace); err != nil {
				return err
			}
			object.Fields, err = o.fields()
			return err
		},
		encode: func(o Object) ([]byte, error) {
			data, err := o.MarshalJSON()
			if err != nil {
				return nil, err
			}
			var b bytes.Buffer
			b.Grow(len(data))
			err = json.Compact(&b, data) // fields that somebody else wrote may be no JSON
			return b.Bytes(), err
		},
	}
}

func getJSON[T any](ctx context.Context, c *core, f form[T], resource, name, key string) (json.RawMessage, error) {
	entry, err := c.store.Get(ctx, key)
	if err != nil {
		return nil, stored(resource, name, err)
	}
	r := reader[T]{form: f}
	data, _, err := r.read(entry)
	return data, err
}

func listJSON[T any](ctx context.Context, c *core, f form[T], resource, prefix, key string, o ListOptions,
) ([]json.RawMessage, namespace.ListMeta, error) {
	match, err := f.match(o.Labels, o.Fields)
	if err != nil {
		return nil, namespace.ListMeta{}, err
	}
	r := reader[T]{form: f, matches: match, byFields: !o.Fields.Empty(), chunked: key == ""}
	return readPage(ctx, c, resource, prefix, key, o, match != nil, r.read)
}

// reader makes JSON of entries.
type reader[T any] struct {
	form[T]
	matches  func(T) bool // nil: everything
	byFields bool         // it looks at fields
	chunked  bool         // much will be read

	outline outline           // of the present entry
	labels  map[string]string // the same
	part    T                 // what selectors look at of it
	chunk   []byte
}

// The items of a page lie in chunks of this size or larger, so that a page takes
// few allocations, and one item that is kept does not keep a large page.
const (
	firstChunk = 4 << 10
	largest    = 64 << 10
)

// read returns the JSON form of the object in e, and whether it is selected.
func (r *reader[T]) read(e store.Entry) (json.RawMessage, bool, error) {
	if r.outline.read(e.Value) && r.known(&r.outline) {
		if ok, err := r.selected(e); err != nil || !ok {
			return nil, false, err
		}
		return r.spliced(e), true, nil
	}
	object, err := r.decode(e)
	if err != nil || r.matches != nil && !r.matches(object) {
		return nil, false, err
	}
	data, err := r.encode(object)
	if err != nil {
		return nil, false, corrupt(e, err)
	}
	return data, true, nil
}

// selected reports whether the object that the outline is of is.
func (r *reader[T]) selected(e store.Entry) (bool, error) {
	if r.matches == nil {
		return true, nil
	}
	if r.labels == nil {
		r.labels = map[string]string{}
	}
	var none T
	r.part = none
	err := r.outline.labels(r.labels)
	r.meta(&r.part).Labels = r.labels
	if err == nil && r.byFields {
		err = r.fields(&r.outline, &r.part)
	}
	if err != nil {
		return false, corrupt(e, err)
	}
	return r.matches(r.part), nil
}

func (r *reader[T]) spliced(e store.Entry) json.RawMessage {
	need := len(e.Value) + room
	if cap(r.chunk)-len(r.chunk) < need {
		size := need
		if r.chunked {
			size = max(need, firstChunk, min(2*cap(r.chunk), largest))
		}
		r.chunk = make([]byte, 0, size)
	}
	start := len(r.chunk)
	r.chunk = r.outline.spliced(r.chunk, e.Revision)
	return r.chunk[start:len(r.chunk):len(r.chunk)]
}
