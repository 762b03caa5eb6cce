package openapi

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Extensions of Kubernetes.
const (
	extensionKind     = "x-kubernetes-group-version-kind"
	extensionAction   = "x-kubernetes-action"
	extensionPreserve = "x-kubernetes-preserve-unknown-fields"
	extensionListType = "x-kubernetes-list-type"
	extensionListKeys = "x-kubernetes-list-map-keys"
	extensionMapType  = "x-kubernetes-map-type"
)

const definitionsPrefix = "#/definitions/"

// builder collects the definitions of Go types, in the form of OpenAPI v2. This
// file is the one place of the library that looks into Go types.
type builder struct {
	definitions spec.Definitions
	oneOf       map[string][]string // definitions that OpenAPI v3 gives several types
}

func newBuilder() *builder {
	return &builder{definitions: spec.Definitions{}, oneOf: map[string][]string{}}
}

// What Go types may say about themselves.
type (
	modelNamer interface{ OpenAPIModelName() string }
	documented interface{ SwaggerDoc() map[string]string }
	typed      interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	oneOfTyped interface{ OpenAPIV3OneOfTypes() []string }
)

// zero returns a zero value of t that has all of its methods.
func zero(t reflect.Type) any { return reflect.New(t).Interface() }

// nameOf returns the name of a type's definition, such as
// "io.k8s.api.core.v1.ConfigMap".
func nameOf(t reflect.Type) string {
	if n, ok := zero(t).(modelNamer); ok {
		return n.OpenAPIModelName()
	}
	domain, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	if rest != "" {
		parts = append(parts, strings.Split(rest, "/")...)
	}
	return strings.Join(append(parts, t.Name()), ".")
}

// define adds the definition of a named type, and of all that it uses, and
// returns its name.
func (b *builder) define(t reflect.Type) (string, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := nameOf(t)
	if _, ok := b.definitions[name]; ok {
		return name, nil
	}
	b.definitions[name] = spec.Schema{} // types may contain themselves
	s, err := b.definition(name, t)
	if err != nil {
		return "", err
	}
	if d, ok := zero(t).(documented); ok {
		s.Description = d.SwaggerDoc()[""]
	}
	b.definitions[name] = s
	return name, nil
}

func (b *builder) definition(name string, t reflect.Type) (spec.Schema, error) {
	var s spec.Schema
	value := zero(t)
	if v, ok := value.(typed); ok {
		s.Type, s.Format = v.OpenAPISchemaType(), v.OpenAPISchemaFormat()
		if v, ok := value.(oneOfTyped); ok {
			b.oneOf[name] = v.OpenAPIV3OneOfTypes()
		}
		return s, nil
	}
	if _, ok := value.(json.Marshaler); ok { // RawExtension, FieldsV1: any object
		s.Type = spec.StringOrArray{"object"}
		return s, nil
	}
	if t.Kind() != reflect.Struct {
		return b.use(t)
	}
	s.Type = spec.StringOrArray{"object"}
	if atomic(name) {
		s.AddExtension(extensionMapType, "atomic")
	}
	err := b.fields(&s, t)
	slices.Sort(s.Required)
	return s, err
}

// fields adds the properties of a struct, and those of the structs that it embeds.
func (b *builder) fields(s *spec.Schema, t reflect.Type) error {
	docs := map[string]string{}
	if d, ok := zero(t).(documented); ok {
		docs = d.SwaggerDoc()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case name == "" && f.Anonymous:
			if err := b.fields(s, f.Type); err != nil {
				return err
			}
			continue
		case name == "":
			name = f.Name
		}
		p, err := b.use(f.Type)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.Description = docs[name]
		b.merging(&p, f)
		s.SetProperty(name, p)
		omitted := strings.Contains(options, "omit")           // omitempty or omitzero
		if !omitted && !strings.HasPrefix(name, "reporting") { // an Event's are optional (+optional), which no tag says
			s.Required = append(s.Required, name)
		}
	}
	return nil
}

// use returns the schema of a value of the type: a reference for what has a
// definition of its own.
func (b *builder) use(t reflect.Type) (spec.Schema, error) {
	var s spec.Schema
	if t.Kind() == reflect.Pointer {
		return b.use(t.Elem())
	}
	_, own := zero(t).(typed)
	if own || t.Kind() == reflect.Struct {
		name, err := b.define(t)
		if err != nil {
			return s, err
		}
		s.Ref, err = spec.NewRef(definitionsPrefix + name)
		return s, err
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return b.array(t)
	case reflect.Map:
		return b.object(t)
	case reflect.Interface:
		return s, nil // anything
	}
	return scalar(t)
}

func (b *builder) array(t reflect.Type) (spec.Schema, error) {
	var s spec.Schema
	if t.Elem().Kind() == reflect.Uint8 {
		return *s.Typed("string", "byte"), nil
	}
	items, err := b.use(t.Elem())
	s.Type, s.Items = spec.StringOrArray{"array"}, &spec.SchemaOrArray{Schema: &items}
	return s, err
}

func (b *builder) object(t reflect.Type) (spec.Schema, error) {
	var s spec.Schema
	if t.Key().Kind() != reflect.String {
		return s, fmt.Errorf("the type %s has no JSON form: its keys are no strings", t)
	}
	values, err := b.use(t.Elem())
	s.Type = spec.StringOrArray{"object"}
	s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &values}
	return s, err
}

func scalar(t reflect.Type) (spec.Schema, error) {
	var s spec.Schema
	switch t.Kind() {
	case reflect.String:
		return *s.Typed("string", ""), nil
	case reflect.Bool:
		return *s.Typed("boolean", ""), nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return *s.Typed("integer", "int32"), nil
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return *s.Typed("integer", "int64"), nil
	case reflect.Float32:
		return *s.Typed("number", "float"), nil
	case reflect.Float64:
		return *s.Typed("number", "double"), nil
	}
	return s, fmt.Errorf("the type %s has no JSON form", t)
}

// merging says how a list is merged: by the tags that strategic merge patches go by.
func (b *builder) merging(p *spec.Schema, f reflect.StructField) {
	strategy, key := f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey")
	if strategy != "" {
		p.AddExtension("x-kubernetes-patch-strategy", strategy)
	}
	if key != "" {
		p.AddExtension("x-kubernetes-patch-merge-key", key)
	}
	if len(p.Type) == 0 || p.Type[0] != "array" {
		return
	}
	switch {
	case !slices.Contains(strings.Split(strategy, ","), "merge"):
		p.AddExtension(extensionListType, "atomic")
	case key == "":
		p.AddExtension(extensionListType, "set")
	default:
		p.AddExtension(extensionListType, "map")
		p.AddExtension(extensionListKeys, b.keys(p, key))
	}
}

// keys returns what identifies the items of a list. Ports and spread constraints
// have a second key, which the tags cannot say.
func (b *builder) keys(p *spec.Schema, key string) []any {
	item := b.definitions[path.Base(p.Items.Schema.Ref.String())]
	switch second := map[string]string{"containerPort": "protocol", "port": "protocol", "topologyKey": "whenUnsatisfiable"}[key]; second {
	case "protocol":
		if protocol, ok := item.Properties[second]; ok {
			protocol.Default = "TCP"
			item.Properties[second] = protocol
			return []any{key, second}
		}
	case "whenUnsatisfiable":
		if _, ok := item.Properties[second]; ok {
			return []any{key, second}
		}
	}
	return []any{key}
}

// atomic reports whether Kubernetes replaces a struct as a whole when it is applied
// (+structType=atomic), which no tag says.
func atomic(name string) bool {
	group, kind := strings.TrimSuffix(name, path.Ext(name)), strings.TrimPrefix(path.Ext(name), ".")
	switch group {
	case "io.k8s.api.core.v1":
		switch kind {
		case "SecretReference", "FileKeySelector", "ObjectFieldSelector", "ResourceFieldSelector", "ConfigMapKeySelector",
			"SecretKeySelector", "NodeSelector", "NodeSelectorTerm", "TopologySelectorTerm", "EndpointAddress", "EndpointPort",
			"ObjectReference", "LocalObjectReference", "TypedLocalObjectReference", "ScopeSelector", "ScopedResourceSelectorRequirement":
			return true
		}
	case "io.k8s.apimachinery.pkg.apis.meta.v1":
		return kind == "OwnerReference" || kind == "LabelSelector"
	}
	return false
}

// name adds a group, version and kind to what a definition describes.
func (b *builder) name(definition string, k schema.GroupVersionKind) {
	s := b.definitions[definition]
	list, _ := s.Extensions[extensionKind].([]any)
	entry := map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	if !slices.ContainsFunc(list, func(other any) bool { return reflect.DeepEqual(other, entry) }) {
		s.AddExtension(extensionKind, append(list, entry))
		b.definitions[definition] = s
	}
}
