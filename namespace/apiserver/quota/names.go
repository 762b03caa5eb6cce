package quota

import (
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// countPrefix is the prefix of object counts.
const countPrefix = "count/"

// legacy are the core types whose object count has a second, older name.
var legacy = []string{"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"}

// countNames returns the names of the object count of a type.
func countNames(resource namespace.ResourceType) []string {
	names := []string{countPrefix + resource.String()}
	if resource.Group == "" && slices.Contains(legacy, resource.Name) {
		names = append(names, resource.Name)
	}
	return names
}

// isCount reports whether a name is an object count.
func isCount(name string) bool {
	return strings.HasPrefix(name, countPrefix) || slices.Contains(legacy, name)
}

// countedType returns the type of an object count.
func countedType(name string) namespace.ResourceType {
	resource, group, _ := strings.Cut(strings.TrimPrefix(name, countPrefix), ".")
	return namespace.ResourceType{Group: group, Name: resource}
}

// typesOf returns the types with objects that count under a name, sorted.
func (p *plugin) typesOf(name string) []namespace.ResourceType {
	if isCount(name) {
		return []namespace.ResourceType{countedType(name)}
	}
	types := slices.Clone(p.types[name])
	slices.SortFunc(types, namespace.ResourceType.Compare)
	return types
}

// nameFault returns the rule that a limited name violates, or "".
func nameFault(name string) string {
	return strings.Join(syntax.QualifiedName(name), "; ")
}
