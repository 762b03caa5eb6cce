package apiserver

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
)

// delete answers DELETE of one object. If finalizers hold the object the answer is the
// object, else a Status; it is a Status too if there is no memory for the object. For a
// namespace the answer is always the namespace, with a warning if it was put on hold.
func (s *Server) delete(w http.ResponseWriter, r *request) error {
	only, err := s.deletion(w, r)
	if err != nil {
		return err
	}
	o, err := r.writes().delete(r.Context(), r.Namespace, r.Name, only)
	if err != nil {
		return err
	}
	if (r.isNamespaces() || !o.DeletionTimestamp.IsZero()) && s.reserve(r, r.encoding(o)) == nil {
		return s.answer(w, r, http.StatusOK, o)
	}
	return s.succeed(w, r, &metav1.StatusDetails{Name: o.Name, Group: r.Kind.Group, Kind: r.Kind.Resource, UID: types.UID(o.UID)})
}

// deleteCollection answers DELETE of a collection.
func (s *Server) deleteCollection(w http.ResponseWriter, r *request) error {
	only, err := s.deletion(w, r)
	if err != nil {
		return err
	}
	if only != (namespace.Preconditions{}) {
		return badRequest(r.typeName(), "", "preconditions: they are of one object, a collection has none")
	}
	if r.query.list.Limit != 0 || r.query.list.Continue != "" {
		return badRequest(r.typeName(), "", "limit and continue are not supported: a collection is deleted as a whole")
	}
	if err := r.writes().deleteCollection(r.Context(), r.Namespace, r.query.list.Labels, r.query.list.Fields); err != nil {
		return err
	}
	return s.succeed(w, r, &metav1.StatusDetails{Group: r.Kind.Group, Kind: r.Kind.Resource})
}

// deletion reads the options of a deletion, from the body and the query: what
// either says holds. The grace period and the propagation are accepted; there is no
// garbage collection, and nothing that would need a grace period.
func (s *Server) deletion(w http.ResponseWriter, r *request) (only namespace.Preconditions, err error) {
	body, contentType, err := s.body(w, r)
	if err != nil {
		return only, err
	}
	o := r.query.deletion
	if len(body) > 0 {
		if o, err = s.codec.DecodeDeleteOptions(contentType, body); err != nil {
			return only, err
		}
		if o, err = merged(o, r.query.deletion); err != nil {
			return only, err
		}
	}
	o.DryRun = slices.Concat(o.DryRun, r.query.dryRun)
	if err := optionsFault("DeleteOptions", metav1validation.ValidateDeleteOptions(&o)); err != nil {
		return only, err
	}
	r.query.dryRun = o.DryRun
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID == "" || p.ResourceVersion != nil && *p.ResourceVersion == "" {
			return only, badRequest(r.typeName(), excerpt.Of(r.Name), "preconditions: a uid or resourceVersion that is given must not be empty")
		}
		if p.UID != nil {
			only.UID = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			only.ResourceVersion = *p.ResourceVersion
		}
	}
	return only, nil
}

// merged returns the options of a body, with those of the query that it does not
// have. Two different uids are a contradiction.
func merged(body, query metav1.DeleteOptions) (metav1.DeleteOptions, error) {
	switch {
	case body.Preconditions == nil:
		body.Preconditions = query.Preconditions
	case query.Preconditions == nil: // which has a uid, if any
	case body.Preconditions.UID == nil:
		body.Preconditions.UID = query.Preconditions.UID
	case *body.Preconditions.UID != *query.Preconditions.UID:
		return body, badParameter("uid", "another one than that of the preconditions in the body")
	}
	if body.PropagationPolicy == nil {
		body.PropagationPolicy = query.PropagationPolicy
	}
	//lint:ignore SA1019 old clients send it instead of the propagation policy
	if body.OrphanDependents == nil {
		//lint:ignore SA1019 as above
		body.OrphanDependents = query.OrphanDependents
	}
	return body, nil
}
