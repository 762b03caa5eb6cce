package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// authorizeHold asks whether a request that puts a namespace on hold, or moves the end of
// its hold, may delete it, since that is what comes of it: the verb by which it was let
// through is not enough. Old is what next is to replace, nil: nothing.
func (s *Server) authorizeHold(r *request, old *registry.Object, next registry.Object) error {
	hold, held := next.Annotations[namespace.HoldAnnotation]
	if !held || !r.isNamespaces() || r.Subresource != "" {
		return nil
	}
	if old != nil {
		if v := next.ResourceVersion; v != old.ResourceVersion { // what is at v is not known
			return apierrors.NewConflict(schema.GroupResource{Resource: namespace.Resource}, next.Name,
				errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		if was, before := old.Annotations[namespace.HoldAnnotation]; before && was == hold || !old.DeletionTimestamp.IsZero() { // R3
			return nil
		}
	}
	a := r.Attributes
	a.Verb, a.Namespace, a.Name = "delete", next.Name, next.Name
	return s.authorize(r.Context(), a)
}

// onHold returns the warning that a namespace is on hold. Where it answers DELETE that is
// no error, but clients say that it is deleted, or wait for it.
func (r *request) onHold(m namespace.Meta) []string {
	hold, held, err := namespace.HoldOf(m)
	if !r.isNamespaces() || !held || err != nil || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	now := "DELETE it"
	if _, ok := m.Annotations[namespace.GraceAnnotation]; ok {
		now = "take off " + namespace.GraceAnnotation + " and DELETE it again"
	}
	return []string{fmt.Sprintf("%s %q is not deleted yet: it is on hold until %s; to restore it take off the annotation %s, to delete it now %s",
		namespace.Resource, m.Name, hold.Until.Format(time.RFC3339), namespace.HoldAnnotation, now)}
}

// takenOff returns the warnings that a namespace which is not terminating is on hold no
// longer, or no longer protected by what protected it: who writes the whole of it, as
// written down before, may not know that there was something.
func (r *request) takenOff(old, now namespace.Meta) (warnings []string) {
	if !r.isNamespaces() || !now.DeletionTimestamp.IsZero() {
		return nil
	}
	hold, held, err := namespace.HoldOf(old)
	if _, still := now.Annotations[namespace.HoldAnnotation]; held && err == nil && !still {
		warnings = append(warnings, fmt.Sprintf("%s %q is on hold no longer: it will not be deleted at %s",
			namespace.Resource, now.Name, hold.Until.Format(time.RFC3339)))
	}
	var names []string
	for key := range old.Annotations {
		if name, ok := strings.CutPrefix(key, namespace.ProtectionPrefix); ok {
			if _, still := now.Annotations[key]; !still {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return warnings
	}
	const most = 10
	slices.Sort(names)
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return append(warnings, fmt.Sprintf("%s %q is protected from deletion no longer by %s", namespace.Resource, now.Name, text))
}
