package registry

import "github.com/nslifecycle/nslifecycle/deleter"

// Sources lets tests ask the content of single types.
func (r *Registry) Sources(resources ...deleter.Resource) ([]deleter.Source, error) {
	return r.sources(resources...)
}
