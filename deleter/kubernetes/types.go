package kubernetes

import (
	"github.com/nslifecycle/nslifecycle/namespace"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typeInfo is one resource type of the API server, in its preferred version.
type typeInfo struct {
	gvr   schema.GroupVersionResource
	verbs verbs
}

func (t typeInfo) resource() namespace.ResourceType {
	return namespace.ResourceType{Group: t.gvr.Group, Name: t.gvr.Resource}
}

// verbs are what can be done with a type, of what matters here.
type verbs uint8

const (
	canList verbs = 1 << iota
	canDelete
	canDeleteCollection
	canWatch
)

// verbsOf reads the verbs as discovery tells them.
func verbsOf(names []string) verbs {
	var v verbs
	for _, name := range names {
		switch name {
		case "list":
			v |= canList
		case "delete":
			v |= canDelete
		case "deletecollection":
			v |= canDeleteCollection
		case "watch":
			v |= canWatch
		}
	}
	return v
}

func (v verbs) has(w verbs) bool { return v&w == w }
