package registry

import (
	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Sources lets tests ask the content of single types.
func (r *Registry) Sources(resources ...namespace.ResourceType) ([]deleter.Source, error) {
	return r.sources(resources...)
}
