// Package codec translates between objects of the registry and the bodies of requests,
// responses and watch events: in JSON, YAML and, for kinds built into Kubernetes' clients,
// protobuf. Responses contain objects as they are, as a Table, or their metadata only.
//
// An object of a built-in kind is decoded into its Go type and stored as that type encodes
// it, so that every stored object has every encoding. An object of a custom kind is stored
// as the client sent it, without fields that its schema does not have and without the
// first values of duplicate fields.
//
// Errors are of type [*namespace.Error]; their kinds are those of package namespace,
// [ErrMediaType] and [ErrNotAcceptable].
package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/quantity"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Kinds of errors, in addition to those of package namespace.
var (
	ErrMediaType     = errors.New("unsupported media type") // of a request body: code 415
	ErrNotAcceptable = errors.New("not acceptable")         // no media type of the Accept header: code 406
)

// Codec encodes and decodes objects. Use [New] to create one. It is safe for concurrent use
// and does not modify its arguments.
type Codec struct {
	kinds map[schema.GroupVersionKind]*form
}

// form is derived from the declaration of a kind.
type form struct {
	columns    []kinds.Column
	header     json.RawMessage  // the columns as a Table declares them
	schema     *structure       // of a custom kind; nil: any content is valid
	quantities *quantity.Layout // of a built-in kind
}

// New returns a codec for the kinds of list and for namespaces. It fails if [kinds.Check]
// does, or if a schema cannot be used.
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
	var err error
	if f.header, err = headerOf(f.columns); err != nil {
		return nil, fmt.Errorf("codec: the columns of %s: %w", k.Name(), err)
	}
	switch {
	case k.BuiltIn():
		f.quantities = quantity.LayoutOf(reflect.TypeOf(k.Object))
	case len(k.Schema) > 0:
		if f.schema, err = structureOf(k.Schema); err != nil {
			return nil, fmt.Errorf("kind %q: Schema: %w", k.Name(), err)
		}
	}
	return f, nil
}

// form returns the form of k, which need not be one of the codec's kinds.
func (c *Codec) form(k kinds.Kind) (*form, error) {
	if f, ok := c.kinds[gvk(k)]; ok {
		return f, nil
	}
	return formOf(k)
}

func gvk(k kinds.Kind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// metaOf returns a pointer to the metadata in typed.
func metaOf(k kinds.Kind, typed runtime.Object) (*metav1.ObjectMeta, error) {
	if holder, ok := typed.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := holder.GetObjectMeta().(*metav1.ObjectMeta); ok && meta != nil {
			return meta, nil
		}
	}
	return nil, fmt.Errorf("codec: the Go type %T of %s has no metadata", typed, k.Name())
}

func refuse(k kinds.Kind, name string, kind, cause error, format string, args ...any) error {
	return &namespace.Error{Kind: kind, Resource: k.Name().String(), Name: name, Message: fmt.Sprintf(format, args...), Err: cause}
}

// excerpt shortens text from clients for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }
