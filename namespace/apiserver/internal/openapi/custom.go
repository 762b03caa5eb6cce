package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// maxSchema is the greatest size of the schema of one kind, in bytes.
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

// customSchema returns the schema of a custom kind: what the host wrote, with the
// fields that all objects have.
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

// parseSchema reads the schema of an object. References are refused: there is
// nothing that they could refer to.
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

// custom adds the definitions of a custom kind and its list.
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

// simple returns a schema without what OpenAPI v2 cannot say.
func simple(s *spec.Schema) *spec.Schema {
	walker := schemamutation.Walker{
		RefCallback: schemamutation.RefCallbackNoop,
		SchemaCallback: func(s *spec.Schema) *spec.Schema {
			out := *s
			out.OneOf, out.AnyOf, out.Not, out.Nullable = nil, nil, nil, false
			if len(out.Type) == 0 && s.Extensions["x-kubernetes-int-or-string"] == true {
				out.Type, out.Format = spec.StringOrArray{"string"}, "int-or-string"
			}
			if s.Extensions[extensionPreserve] == true { // old clients would refuse what is not listed
				out.Items, out.Properties, out.AdditionalProperties = nil, nil, nil
			}
			if s.Nullable { // nothing says "or null": leave the type open
				out.Type, out.Items, out.Properties, out.AdditionalProperties = nil, nil, nil, nil
			}
			return &out
		},
	}
	return walker.WalkSchema(s)
}
