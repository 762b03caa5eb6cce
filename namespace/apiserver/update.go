package apiserver

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Attempts at a write that the client made on no condition, while others write the
// same object: of a patch as many as Kubernetes makes, of a PUT, which needs no
// more than to come through once, as many as the registry makes.
const (
	patchAttempts  = 5
	updateAttempts = 32
)

// update answers PUT of an object or a sub-resource, and the document's FINALIZE.
func (s *Server) update(w http.ResponseWriter, r *request) error {
	o, err := s.object(w, r)
	if err != nil {
		return err
	}
	if err := r.checkName(o); err != nil {
		return err
	}
	written, err := s.replace(w, r, o)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, written)
}

// checkName refuses a body that is about another object than the path.
func (r *request) checkName(o registry.Object) error {
	switch {
	case o.Name == "":
		return badRequest(r.typeName(), r.Name, "the name of the object (%s based on URL) was undeterminable: name must be provided", excerpt.Of(r.Name))
	case o.Name != r.Name:
		return badRequest(r.typeName(), r.Name, "the name of the object (%s) does not match the name on the URL (%s)", excerpt.Of(o.Name), excerpt.Of(r.Name))
	}
	return nil
}

// replace writes o in the place of what is stored, which is read before: managed
// fields and checks depend on it. Without a condition of the client it is written on
// condition that it still is that, and otherwise tried again.
func (s *Server) replace(w http.ResponseWriter, r *request, o registry.Object) (registry.Object, error) {
	to := r.writes()
	unconditional := o.ResourceVersion == "" || o.ResourceVersion == "0"
	for attempt := 1; ; attempt++ {
		live, err := to.get(r.Context(), r.Namespace, r.Name)
		if err != nil {
			return registry.Object{}, err
		}
		if len(live.ManagedFields) > 0 || r.Subresource != "" { // then most of it is decoded, or answered
			if err := s.amend(r, live); err != nil {
				return registry.Object{}, err
			}
		}
		next := s.patcher.Updated(r.Kind, r.Subresource, live, o, r.manager(), time.Now())
		if unconditional {
			next.ResourceVersion = live.ResourceVersion
		}
		if err := r.validate(&live, &next); err != nil {
			return registry.Object{}, err
		}
		if err := s.authorizeHold(r, &live, next); err != nil {
			return registry.Object{}, err
		}
		written, err := to.update(r.Context(), r.Namespace, r.Subresource, next)
		if !unconditional || attempt == updateAttempts || o.UID != "" && o.UID != live.UID || !errors.Is(err, namespace.ErrConflict) || errors.Is(err, namespace.ErrUnknownOutcome) {
			return written, err
		}
	}
}

// manager is who manages the fields that a request sets: it says so, or its user
// agent does.
func (r *request) manager() string {
	if r.query.fieldManager != "" {
		return r.query.fieldManager
	}
	name, _, _ := strings.Cut(r.UserAgent(), "/")
	return strings.ToValidUTF8(name[:min(len(name), 128)], "")
}
