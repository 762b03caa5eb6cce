package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
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

// builder collects definitions in OpenAPI v2. It describes Go types by reflection.
type builder struct {
	definitions spec.Definitions
	oneOf       map[string][]string // definitions with several types in OpenAPI v3
}

func newBuilder() *builder {
	return &builder{definitions: spec.Definitions{}, oneOf: map[string][]string{}}
}

// Descriptions that Go types provide.
type (
	modelNamer interface{ OpenAPIModelName() string }
	documented interface{ SwaggerDoc() map[string]string }
	typed      interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	oneOfTyped interface{ OpenAPIV3OneOfTypes() []string }
)

// zero returns a pointer to a zero value of t, which has all its methods.
func zero(t reflect.Type) any { return reflect.New(t).Interface() }

// nameOf returns the name of the definition of a type, such as
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

// define adds the definitions of a named type and of the types that it uses. It returns the
// name of the definition.
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

// fields adds the properties of a struct and of its embedded structs.
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
		if !omitted && !strings.HasPrefix(name, "reporting") { // optional in an Event, which no tag declares
			s.Required = append(s.Required, name)
		}
	}
	return nil
}

// use returns the schema of a value of the type: a reference if the type has a definition.
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

// merging declares how a list is merged, by the tags for strategic merge patches.
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

// keys returns the fields that identify the items of a list. Ports and spread constraints
// have a second key, which no tag declares.
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

// atomic reports whether server-side apply replaces a struct as a whole
// (+structType=atomic), which no tag declares.
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

// name adds a group, version and kind to a definition.
func (b *builder) name(definition string, k schema.GroupVersionKind) {
	s := b.definitions[definition]
	list, _ := s.Extensions[extensionKind].([]any)
	entry := map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	if !slices.ContainsFunc(list, func(other any) bool { return reflect.DeepEqual(other, entry) }) {
		s.AddExtension(extensionKind, append(list, entry))
		b.definitions[definition] = s
	}
}

// maxSchema bounds the schema of a kind, in bytes.
const maxSchema = 1 << 20

// customName returns the name of a custom kind's definition, such as
// "com.example.v1.Widget".
func customName(k kinds.Kind) string {
	parts := strings.Split(k.Group, ".")
	slices.Reverse(parts)
	if k.Group == "" {
		parts = []string{"core"}
	}
	return strings.Join(append(parts, k.Version, k.Kind), ".")
}

// customSchema returns the host's schema of a custom kind with the fields of every object.
func customSchema(k kinds.Kind, meta string) (spec.Schema, error) {
	var s spec.Schema
	if len(k.Schema) == 0 {
		s.AddExtension(extensionPreserve, true)
	} else if err := parseSchema(k.Schema, &s); err != nil {
		return s, &namespace.Error{
			Kind: namespace.ErrInvalid, Resource: k.Name().String(), Err: err,
			Message: fmt.Sprintf("the schema of %s %v", k.Name(), err),
		}
	}
	s.Type = spec.StringOrArray{"object"}
	s.Properties = maps.Clone(s.Properties)
	s.SetProperty("apiVersion", *described("string", "The version of the schema of this object, as group/version."))
	s.SetProperty("kind", *described("string", "The kind of this object."))
	ref, err := spec.NewRef(definitionsPrefix + meta)
	s.SetProperty("metadata", spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref, Description: "The metadata that all objects have."}})
	return s, err
}

func described(kind, text string) *spec.Schema {
	return new(spec.Schema).Typed(kind, "").WithDescription(text)
}

// parseSchema decodes the schema of an object. It must be self-contained.
func parseSchema(data json.RawMessage, s *spec.Schema) error {
	if len(data) > maxSchema {
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(data), maxSchema)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return fmt.Errorf("must be a JSON object, the OpenAPI v3 schema of an object")
	}
	if err := json.Unmarshal(data, s); err != nil {
		return fmt.Errorf("is no OpenAPI v3 schema: %w", err)
	}
	if len(s.Type) > 1 || len(s.Type) == 1 && s.Type[0] != "object" {
		return fmt.Errorf("must have the type \"object\", not %q", s.Type)
	}
	var refused error
	walker := schemamutation.Walker{
		SchemaCallback: schemamutation.SchemaCallBackNoop,
		RefCallback: func(ref *spec.Ref) *spec.Ref {
			if ref != nil && ref.String() != "" && refused == nil {
				refused = fmt.Errorf("must not have the reference %.100q: write out what it refers to", ref.String())
			}
			return ref
		},
	}
	walker.WalkSchema(s)
	if refused != nil {
		return refused
	}
	if _, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{"it": s}, false); err != nil {
		return fmt.Errorf("is not structural: %w", err)
	}
	return nil
}

// custom adds the definitions of a custom kind and of its list.
func (b *builder) custom(k kinds.Kind, meta, listMeta string) error {
	name := customName(k)
	if _, ok := b.definitions[name]; ok {
		return duplicate(k)
	}
	s, err := customSchema(k, meta)
	if err != nil {
		return err
	}
	item, err := spec.NewRef(definitionsPrefix + name)
	if err != nil {
		return fmt.Errorf("the kind %q: %w", k.Kind, err)
	}
	of, err := spec.NewRef(definitionsPrefix + listMeta)
	if err != nil {
		return err
	}
	var list spec.Schema
	list.Typed("object", "").WithDescription("A list of " + k.Kind + ".")
	list.SetProperty("apiVersion", s.Properties["apiVersion"])
	list.SetProperty("kind", s.Properties["kind"])
	list.SetProperty("metadata", spec.Schema{SchemaProps: spec.SchemaProps{Ref: of, Description: "The metadata of the list."}})
	list.SetProperty("items", spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"array"}, Items: &spec.SchemaOrArray{Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Ref: item}}},
	}})
	list.Required = []string{"items"}
	b.definitions[name], b.definitions[name+"List"] = s, list
	return nil
}

func duplicate(k kinds.Kind) error {
	return &namespace.Error{
		Kind: namespace.ErrInvalid, Resource: k.Name().String(),
		Message: fmt.Sprintf("the kind %s of %s is declared twice", k.Kind, k.APIVersion()),
	}
}

// simple returns a schema without the features that OpenAPI v2 lacks.
func simple(s *spec.Schema) *spec.Schema {
	walker := schemamutation.Walker{
		RefCallback: schemamutation.RefCallbackNoop,
		SchemaCallback: func(s *spec.Schema) *spec.Schema {
			out := *s
			out.OneOf, out.AnyOf, out.Not, out.Nullable = nil, nil, nil, false
			if len(out.Type) == 0 && s.Extensions["x-kubernetes-int-or-string"] == true {
				out.Type, out.Format = spec.StringOrArray{"string"}, "int-or-string"
			}
			if s.Extensions[extensionPreserve] == true { // old clients would reject unlisted properties
				out.Items, out.Properties, out.AdditionalProperties = nil, nil, nil
			}
			if s.Nullable { // there is no "or null": leave the type open
				out.Type, out.Items, out.Properties, out.AdditionalProperties = nil, nil, nil, nil
			}
			return &out
		},
	}
	return walker.WalkSchema(s)
}
