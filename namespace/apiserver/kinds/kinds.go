// Package kinds declares the wire form of resource types: their names in discovery, their Table
// columns, their schema, and, for the kinds that Kubernetes' clients have built in, the Go types
// for protobuf.
//
// [ConfigMaps], [Secrets] and similar functions return built-in kinds. [Custom] returns a kind for
// the host's own type. Do not modify a Kind after giving it to a server.
package kinds

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Kind declares the wire form of one resource type.
type Kind struct {
	registry.Type

	Singular   string   // default: Kind in lower case
	ShortNames []string // such as "cm"
	Categories []string // such as "all"

	// Columns are the Table's columns after the name. A column named "Name" replaces the
	// default one. Default: [Age].
	Columns []Column

	// Object and List are pointers to zero values of a built-in kind's Go types. They provide
	// protobuf, strategic merge patches and the schema. Both are nil for a custom kind, which
	// has neither protobuf nor strategic merge patches.
	Object, List runtime.Object

	// Schema is the OpenAPI v3 schema of a custom kind, as in a CustomResourceDefinition's
	// openAPIV3Schema. The server enforces types, required fields, enumerations and bounds. If
	// a schema has properties, the server drops all other fields, unless it also has
	// additionalProperties or x-kubernetes-preserve-unknown-fields. An empty Schema allows any
	// fields.
	Schema json.RawMessage

	// Default sets missing fields before admission and Validate. A retried write calls it again
	// with the same object. If Default is nil, there are no defaults.
	Default func(o *registry.Object)

	// Validate returns the violations of rules other than metadata and schema. The old object is
	// nil at creation. If Validate is nil, there are no such rules.
	Validate func(old, updated *registry.Object) []namespace.Violation
}

// Custom returns a kind without Go types, with the columns name and age. Set further fields on
// the result.
func Custom(t registry.Type) Kind { return Kind{Type: t} }

// BuiltIn reports whether the kind has Go types, and so supports protobuf.
func (k Kind) BuiltIn() bool { return k.Object != nil && k.List != nil }

// Column is one column of a Table.
type Column struct {
	Name        string // such as "Status"
	Type        string // OpenAPI type: "string" (default), "integer", "number", "boolean" or "date"
	Format      string // OpenAPI format, such as "name"; may be empty
	Description string
	Priority    int32 // if greater than zero, clients show the column with -o wide only
	// Value returns the cell: a string, integer, float, bool or nil. It must not modify the object.
	Value func(o registry.Object) any
}
