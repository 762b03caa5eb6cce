package quota

import (
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// countPrefix begins the names of numbers of objects.
const countPrefix = "count/"

// legacy are the core types whose number has a second, older name.
var legacy = []string{"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"}

// countNames returns under which names the objects of a type are counted.
func countNames(resource namespace.ResourceType) []string {
	names := []string{countPrefix + resource.String()}
	if resource.Group == "" && slices.Contains(legacy, resource.Name) {
		names = append(names, resource.Name)
	}
	return names
}

// countName reports whether a name is that of a number of objects.
func countName(name string) bool {
	return strings.HasPrefix(name, countPrefix) || slices.Contains(legacy, name)
}

// counted returns the type whose objects are counted under a name.
func counted(name string) namespace.ResourceType {
	resource, group, _ := strings.Cut(strings.TrimPrefix(name, countPrefix), ".")
	return namespace.ResourceType{Group: group, Name: resource}
}

// feeds returns the types that belong to a name, sorted.
func (p *plugin) feeds(name string) []namespace.ResourceType {
	if countName(name) {
		return []namespace.ResourceType{counted(name)}
	}
	types := slices.Clone(p.types[name])
	slices.SortFunc(types, namespace.ResourceType.Compare)
	return types
}

// nameFault says what is wrong with the name of something limited; nothing: "".
func nameFault(name string) string {
	return strings.Join(syntax.QualifiedName(name), "; ")
}
