package registry

import (
	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Sources exposes the sources of single types to tests.
func (r *Registry) Sources(resources ...namespace.ResourceType) ([]deleter.Source, error) {
	return r.sources(resources...)
}
