// Package codec turns objects into the bodies of requests and answers, and back:
// JSON, YAML and, for kinds that are built into Kubernetes' clients, protobuf; as
// they are, as a Table, or as their metadata alone; one, a list, or an event of a
// watch.
//
// A built-in kind is read through its Go type, and what is kept is what that type
// writes, so that everything stored can be given out in every encoding. A custom
// kind is kept as it was sent, but for fields that its schema does not know and
// for fields given twice.
//
// Errors are [*namespace.Error]; their kinds are those of package namespace,
// [ErrMediaType] and [ErrNotAcceptable].
package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Kinds of errors, beside those of package namespace.
var (
	ErrMediaType     = errors.New("unsupported media type") // of a request body: code 415
	ErrNotAcceptable = errors.New("not acceptable")         // nothing of what the Accept header names: code 406
)

// Codec encodes and decodes objects of the kinds that it was made for. Make one
// with [New]. It is safe for concurrent use, and changes nothing that it is given.
type Codec struct {
	kinds map[schema.GroupVersionKind]*form
}

// form is what a codec knows about a kind beyond its declaration.
type form struct {
	columns []kinds.Column
	header  json.RawMessage // the columns as a Table declares them
	schema  *structure      // of a custom kind; nil: anything goes

	quantities *layout // where a protobuf body has quantities; nil: nowhere
}

// New returns a codec for the kinds of list, and for namespaces. A list that
// [kinds.Check] refuses is refused.
func New(list []kinds.Kind) (*Codec, error) {
	if err := kinds.Check(list); err != nil {
		return nil, err
	}
	c := &Codec{kinds: make(map[schema.GroupVersionKind]*form, len(list)+1)}
	for _, k := range append([]kinds.Kind{kinds.Namespaces()}, list...) {
		f, err := formOf(k)
		if err != nil {
			return nil, err
		}
		c.kinds[gvk(k)] = f
	}
	return c, nil
}

func formOf(k kinds.Kind) (*form, error) {
	f := &form{columns: k.Printed()}
	header, err := headerOf(f.columns)
	if err != nil {
		return nil, fmt.Errorf("codec: the columns of %s: %w", k.Name(), err)
	}
	f.header = header
	if k.BuiltIn() {
		f.quantities = layoutOf(k.Object)
	}
	if !k.BuiltIn() && len(k.Schema) > 0 {
		if f.schema, err = structureOf(k.Schema); err != nil {
			refusal := refuse(k, "", namespace.ErrInvalid, "kind %q: Schema: %v", k.Name(), err)
			refusal.Err = err
			return nil, refusal
		}
	}
	return f, nil
}

// form returns what there is to know about k, also when the codec was not made
// for it.
func (c *Codec) form(k kinds.Kind) (*form, error) {
	if f, ok := c.kinds[gvk(k)]; ok {
		return f, nil
	}
	return formOf(k)
}

func gvk(k kinds.Kind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// Typed returns o as a new object of the Go type of k, a built-in kind; nothing in
// it is shared with o.
func (c *Codec) Typed(k kinds.Kind, o registry.Object) (runtime.Object, error) {
	if !k.BuiltIn() {
		return nil, refuse(k, o.Name, namespace.ErrBadRequest, "%s is no built-in kind: it has no Go type", k.Name())
	}
	typed := k.Object.DeepCopyObject()
	if err := fill(k, typed, o); err != nil {
		return nil, err
	}
	return typed, nil
}

// Untyped returns an object of the Go type of k as [Codec.Decode] would.
func (c *Codec) Untyped(k kinds.Kind, typed runtime.Object) (registry.Object, error) {
	meta, err := metaOf(k, typed)
	if err != nil {
		return registry.Object{}, err
	}
	return untyped(k, typed, meta)
}

// metaOf returns the metadata of an object of a Go type, in place.
func metaOf(k kinds.Kind, typed runtime.Object) (*metav1.ObjectMeta, error) {
	if holder, ok := typed.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := holder.GetObjectMeta().(*metav1.ObjectMeta); ok && meta != nil {
			return meta, nil
		}
	}
	return nil, fmt.Errorf("codec: the Go type %T of %s has no metadata", typed, k.Name())
}

func refuse(k kinds.Kind, name string, kind error, format string, args ...any) *namespace.Error {
	return &namespace.Error{Kind: kind, Resource: k.Name().String(), Name: name, Message: fmt.Sprintf(format, args...)}
}
