// Package kinds declares how types of objects look on the wire: their names for
// discovery, the columns in which they are printed, their schema, and, for the
// kinds that are built into Kubernetes' clients, the Go types that give them a
// protobuf form.
//
// The functions of this package return ready declarations of built-in kinds
// ([ConfigMaps], [Secrets], ...); [Custom] makes one for a type of the host's own.
// A Kind is a value that nobody changes once a server has it.
package kinds

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Kind declares one type of objects.
type Kind struct {
	registry.ResourceType

	Singular   string   // default: the kind in lower case
	ShortNames []string // such as "cm"
	Categories []string // such as "all"

	// Columns are the columns of its Table, after the name; one that is called "Name"
	// takes the place of that. None: the age alone ([Age]).
	Columns []Column

	// Object and List are the Go types of a built-in kind, as pointers to zero values.
	// They give it protobuf, strategic merge patches, and its schema. Both are nil for
	// a custom kind, which is JSON only.
	Object, List runtime.Object

	// Schema is the OpenAPI v3 schema of a custom kind, as a CustomResourceDefinition
	// has it (openAPIV3Schema). Empty: any fields are allowed. Types, required fields,
	// enumerations and bounds are enforced, and an object that has properties loses
	// the fields that are none of them, unless it has additionalProperties or
	// x-kubernetes-preserve-unknown-fields.
	Schema json.RawMessage

	// Default sets what an object that is to be written leaves open, before admission
	// and Validate see it. It is given the same object again when a write is tried
	// again. Nil sets nothing.
	Default func(o *registry.Object)

	// Validate returns what is wrong with an object beyond its metadata and schema;
	// old is nil at creation. Nil checks nothing.
	Validate func(old, updated *registry.Object) []namespace.Violation
}

// Custom returns the declaration of a kind of the host's own: JSON only, printed
// by name and age. Set what else it has on the result.
func Custom(t registry.ResourceType) Kind { return Kind{ResourceType: t} }

// BuiltIn reports whether the kind has a Go type, and so a protobuf form.
func (k Kind) BuiltIn() bool { return k.Object != nil && k.List != nil }

// Column is one column of a Table.
type Column struct {
	Name        string // such as "Status"
	Type        string // of OpenAPI: "string" (the default), "integer", "number", "boolean", "date"
	Format      string // of OpenAPI, such as "name"; may be empty
	Description string
	Priority    int32 // zero: always shown; greater: with -o wide only
	// Value returns the cell: a string, an integer, a float, a bool or nil. It must not
	// change the object.
	Value func(o registry.Object) any
}
