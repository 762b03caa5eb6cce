package apiserver

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// authorizeHold asks whether a request that puts a namespace on hold, or moves the end of
// its hold, may delete it, since that is what comes of it: the verb by which it was let
// through is not enough. Old is what next is to replace, nil: nothing.
func (s *Server) authorizeHold(r *request, old *registry.Object, next registry.Object) error {
	hold, held := next.Annotations[declare.HoldAnnotation]
	if !held || !r.isNamespaces() || r.Subresource != "" {
		return nil
	}
	if old != nil {
		if v := next.ResourceVersion; v != old.ResourceVersion { // what is at v is not known
			return apierrors.NewConflict(schema.GroupResource{Resource: namespace.Resource}, next.Name,
				errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		if was, before := old.Annotations[declare.HoldAnnotation]; before && was == hold || !old.DeletionTimestamp.IsZero() { // R3
			return nil
		}
	}
	a := r.Attributes
	a.Verb, a.Namespace, a.Name = "delete", next.Name, next.Name
	return s.authorize(r.Context(), a)
}
