// Package openapi describes the kinds that a server has as OpenAPI v2 and v3, so
// that clients can validate, explain and merge objects. Everything is made from the
// declared kinds, once.
package openapi

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Definitions that paths refer to.
const (
	metaPrefix        = "io.k8s.apimachinery.pkg.apis.meta.v1."
	deleteOptionsName = metaPrefix + "DeleteOptions"
	statusName        = metaPrefix + "Status"
	patchName         = metaPrefix + "Patch"
	watchEventName    = metaPrefix + "WatchEvent"
)

// Documents are the descriptions. Make them with [New]. They are safe for
// concurrent use.
type Documents struct {
	names   map[schema.GroupVersionKind]string
	schemas map[string]*spec.Schema // in the form of OpenAPI v3
	v2      []*document.Form
	v3      map[string][]*document.Form // by version, such as "apis/example.com/v1"; the first is JSON
	index   []*document.Form
}

// New describes the kinds. Namespaces are there even if list does not have them.
// What cannot be described is [namespace.ErrInvalid]: a Go type without a JSON form,
// a schema that is none or has references, a kind that is there twice.
func New(list []kinds.Kind) (*Documents, error) {
	isNamespaces := func(k kinds.Kind) bool { return served{Kind: k}.namespaces() }
	if !slices.ContainsFunc(list, isNamespaces) {
		list = append(slices.Clone(list), kinds.Namespaces())
	}
	b := newBuilder()
	for _, common := range []any{metav1.ObjectMeta{}, metav1.ListMeta{}, metav1.DeleteOptions{}, metav1.Status{}, metav1.Patch{}, metav1.WatchEvent{}} {
		if _, err := b.define(reflect.TypeOf(common)); err != nil {
			return nil, err
		}
	}
	d := &Documents{names: map[schema.GroupVersionKind]string{}}
	all := make([]served, 0, len(list))
	for _, k := range list {
		s, err := d.describe(b, k)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	b.name(deleteOptionsName, schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"})
	b.name(statusName, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	return d, d.encode(b, all)
}

// describe adds the definitions of a kind.
func (d *Documents) describe(b *builder, k kinds.Kind) (served, error) {
	s := served{Kind: k, object: customName(k)}
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	if _, ok := d.names[gvk]; ok {
		return s, duplicate(k)
	}
	var err error
	if k.BuiltIn() {
		if s.object, err = b.define(reflect.TypeOf(k.Object)); err == nil {
			s.list, err = b.define(reflect.TypeOf(k.List))
		}
		if err != nil {
			return s, &namespace.Error{
				Kind: namespace.ErrInvalid, Resource: k.Name().String(), Err: err,
				Message: fmt.Sprintf("the Go types of %s cannot be described: %v", k.Name(), err),
			}
		}
	} else {
		if err = b.custom(k, metaPrefix+"ObjectMeta", metaPrefix+"ListMeta"); err != nil {
			return s, err
		}
		s.list = s.object + "List"
	}
	d.names[gvk] = s.object
	b.name(s.object, gvk)
	b.name(s.list, schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind + "List"})
	b.name(deleteOptionsName, schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: "DeleteOptions"})
	return s, nil
}

// Schemas returns the definitions by name, with their references, as
// managedfields.NewTypeConverter takes them. They must not be changed.
func (d *Documents) Schemas() map[string]*spec.Schema { return maps.Clone(d.schemas) }

// Definition returns the name of the definition of a kind; it is empty when there
// is none.
func (d *Documents) Definition(k kinds.Kind) string {
	return d.names[schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}]
}

// encode prepares the documents. They are encoded when they are first asked for;
// that the host's own schemas can be had in every form is proved now.
func (d *Documents) encode(b *builder, all []served) error {
	paths := map[string]spec.PathItem{}
	for _, k := range all {
		k.paths(paths)
		k.streams(paths)
	}
	d.schemas = b.v3()
	d.v2 = v2Forms(func() *spec.Swagger { return b.v2(paths) })
	d.v3 = map[string][]*document.Form{}
	own := newBuilder()
	for _, k := range all {
		key := strings.TrimPrefix(k.base(), "/")
		if d.v3[key] == nil {
			d.v3[key] = v3Forms(func() *spec3.OpenAPI { return d.version(paths, all, k.base()) })
		}
		if len(k.Schema) > 0 && !k.BuiltIn() {
			own.definitions[k.object] = b.definitions[k.object]
		}
	}
	d.index = []*document.Form{indexForm(d.v3)}
	if len(own.definitions) == 0 {
		return nil
	}
	return own.prove()
}

// prove makes every form of a description that has the definitions alone.
func (b *builder) prove() error {
	forms := v2Forms(func() *spec.Swagger { return b.v2(nil) })
	forms = append(forms, v3Forms(func() *spec3.OpenAPI {
		return &spec3.OpenAPI{
			Version: "3.0.0", Info: info(), Paths: &spec3.Paths{}, Components: &spec3.Components{Schemas: b.v3()},
		}
	})...)
	for _, form := range forms {
		if _, err := form.Bytes(); err != nil {
			return &namespace.Error{Kind: namespace.ErrInvalid, Err: err, Message: "a schema of the kinds cannot be published: " + err.Error()}
		}
	}
	return nil
}

// v2 returns the whole description.
func (b *builder) v2(paths map[string]spec.PathItem) *spec.Swagger {
	definitions := make(spec.Definitions, len(b.definitions))
	for name, s := range b.definitions {
		definitions[name] = *simple(&s)
	}
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: info(), Paths: &spec.Paths{Paths: paths}, Definitions: definitions,
	}}
}

func info() *spec.Info {
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "v1"}}
}

// v3 returns the definitions in the form of OpenAPI v3.
func (b *builder) v3() map[string]*spec.Schema {
	out := make(map[string]*spec.Schema, len(b.definitions))
	for name, s := range b.definitions {
		converted := openapiconv.ConvertSchema(&s)
		if types := b.oneOf[name]; len(types) > 0 {
			converted.Type = nil
			for _, t := range types {
				converted.OneOf = append(converted.OneOf, *new(spec.Schema).Typed(t, ""))
			}
		}
		out[name] = converted
	}
	return out
}

// version returns the description of one version: its paths and the definitions
// that they lead to.
func (d *Documents) version(paths map[string]spec.PathItem, all []served, base string) *spec3.OpenAPI {
	out := &spec3.OpenAPI{
		Version: "3.0.0", Info: info(),
		Paths:      &spec3.Paths{Paths: map[string]*spec3.Path{}},
		Components: &spec3.Components{Schemas: map[string]*spec.Schema{}},
	}
	for p, item := range paths {
		if strings.HasPrefix(p, base+"/") {
			out.Paths.Paths[p] = openapiconv.ConvertPathItem(item)
		}
	}
	for _, name := range []string{deleteOptionsName, statusName, patchName, watchEventName} {
		d.reach(name, out.Components.Schemas)
	}
	for _, k := range all {
		if k.base() == base {
			d.reach(k.object, out.Components.Schemas)
			d.reach(k.list, out.Components.Schemas)
		}
	}
	return out
}

// reach adds a definition and all those that it refers to.
func (d *Documents) reach(name string, into map[string]*spec.Schema) {
	s, ok := d.schemas[name]
	if _, there := into[name]; there || !ok {
		return
	}
	into[name] = s
	for _, next := range references(s) {
		d.reach(next, into)
	}
}
