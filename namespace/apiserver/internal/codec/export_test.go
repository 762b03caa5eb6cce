package codec

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Typed returns a copy of o as the Go type of k, a built-in kind.
func (c *Codec) Typed(k kinds.Kind, o registry.Object) (runtime.Object, error) {
	if !k.BuiltIn() {
		return nil, refuse(k, o.Name, namespace.ErrBadRequest, nil, "%s is no built-in kind: it has no Go type", k.Name())
	}
	typed := k.Object.DeepCopyObject()
	if err := fill(k, typed, o); err != nil {
		return nil, err
	}
	return typed, nil
}

// Untyped converts an object of the Go type of k to the form that [Codec.Decode] returns.
func (c *Codec) Untyped(k kinds.Kind, typed runtime.Object) (registry.Object, error) {
	meta, err := metaOf(k, typed)
	if err != nil {
		return registry.Object{}, err
	}
	return untyped(k, typed, meta)
}
