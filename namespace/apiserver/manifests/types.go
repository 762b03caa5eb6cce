package manifests

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// typeIndex maps apiVersion and kind to the kinds of a registry.
type typeIndex map[namespace.TypeMeta]kinds.Kind

// indexTypes returns the types of a registry with their kinds from list, or as custom kinds. It
// refuses a kind without a type.
func indexTypes(types []registry.Type, list []kinds.Kind) (typeIndex, error) {
	index := typeIndex{}
	for _, t := range types {
		index[namespace.TypeMeta{APIVersion: t.APIVersion(), Kind: t.Kind}] = kinds.Custom(t)
	}
	for _, k := range list {
		if k.Name() == kinds.Namespaces().Name() {
			continue
		}
		declared, ok := index.of(k.APIVersion(), k.Kind)
		if !ok || declared.Name() != k.Name() {
			return nil, fmt.Errorf("manifests: Options.Kinds has the kind %.80q of %.80q, but the registry does not declare its type: declare the type or remove the kind",
				k.Kind, k.APIVersion())
		}
		k.Type = declared.Type
		index[namespace.TypeMeta{APIVersion: k.APIVersion(), Kind: k.Kind}] = k
	}
	return index, nil
}

func (x typeIndex) of(apiVersion, kind string) (kinds.Kind, bool) {
	k, ok := x[namespace.TypeMeta{APIVersion: apiVersion, Kind: kind}]
	return k, ok
}

// namespaced returns the namespaced types, sorted.
func (x typeIndex) namespaced() []registry.Type {
	var types []registry.Type
	for k := range maps.Values(x) {
		if k.Namespaced {
			types = append(types, k.Type)
		}
	}
	slices.SortFunc(types, func(a, b registry.Type) int { return a.Name().Compare(b.Name()) })
	return types
}

// validate applies the kind's Validate. The old object is nil at creation.
func validate(k kinds.Kind, old, updated *registry.Object) error {
	if k.Validate == nil {
		return nil
	}
	return k.Invalid(updated.Name, k.Validate(old, updated))
}
