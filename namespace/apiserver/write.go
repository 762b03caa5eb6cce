package apiserver

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/weigh"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Attempts of an unconditional write that conflicts with others: as many as Kubernetes makes
// for a patch, and as many as the registry makes for a PUT.
const (
	patchAttempts  = 5
	updateAttempts = 32
)

// create answers POST to a collection.
func (s *Server) create(w http.ResponseWriter, r *request) error {
	o, err := s.object(w, r)
	if err != nil {
		return err
	}
	created, err := s.insert(r, s.patcher.Updated(r.Kind, "", registry.Object{}, o, r.manager(), time.Now()))
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusCreated, created)
}

// insert creates an object.
func (s *Server) insert(r *request, o registry.Object) (registry.Object, error) {
	if err := s.admit(r, nil, &o); err != nil {
		return registry.Object{}, err
	}
	return r.writes().Create(r.Context(), r.Namespace, o)
}

// object decodes the object in the body of a request.
func (s *Server) object(w http.ResponseWriter, r *request) (registry.Object, error) {
	body, contentType, err := s.body(w, r)
	if err != nil {
		return registry.Object{}, err
	}
	o, warnings, err := s.codec.Decode(r.Kind, contentType, body, codec.FieldValidation(r.query.fieldValidation))
	if err != nil {
		return registry.Object{}, err
	}
	s.warn(w, r, warnings)
	r.received = exchangeOf(r.Context()).weight
	return o, nil
}

// admit sets the defaults of the kind in next, validates it, and authorizes a hold. old is nil
// for a create.
func (s *Server) admit(r *request, old, next *registry.Object) error {
	if r.Kind.Default != nil && r.Subresource == "" {
		r.Kind.Default(next)
	}
	if r.Kind.Validate != nil {
		if err := r.Invalid(next.Name, r.Kind.Validate(old, next)); err != nil {
			return err
		}
	}
	return s.authorizeHold(r, old, *next)
}

// update answers PUT of an object or a sub-resource, and the design proposal's FINALIZE.
func (s *Server) update(w http.ResponseWriter, r *request) error {
	o, err := s.object(w, r)
	if err != nil {
		return err
	}
	if err := r.checkName(o); err != nil {
		return err
	}
	written, err := s.replace(r, o)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, written)
}

// checkName rejects a body with another name than the path.
func (r *request) checkName(o registry.Object) error {
	switch {
	case o.Name == "":
		return badRequest(r.typeName(), r.Name, "the name of the object (%s based on URL) was undeterminable: name must be provided", excerpt(r.Name))
	case o.Name != r.Name:
		return badRequest(r.typeName(), r.Name, "the name of the object (%s) does not match the name on the URL (%s)", excerpt(o.Name), excerpt(r.Name))
	}
	return nil
}

// replace writes o over the stored object, on which managed fields and validation depend. If
// the client sets no condition, replace retries after a conflicting write.
func (s *Server) replace(r *request, o registry.Object) (registry.Object, error) {
	to := r.writes()
	unconditional := o.ResourceVersion == "" || o.ResourceVersion == "0"
	for attempt := 1; ; attempt++ {
		live, err := to.Get(r.Context(), r.Namespace, r.Name)
		if err != nil {
			return registry.Object{}, err
		}
		if len(live.ManagedFields) > 0 || r.Subresource != "" { // most of it is decoded, or sent
			if err := s.amend(r, live); err != nil {
				return registry.Object{}, err
			}
		}
		next := s.patcher.Updated(r.Kind, r.Subresource, live, o, r.manager(), time.Now())
		if unconditional {
			next.ResourceVersion = live.ResourceVersion
		}
		if err := s.admit(r, &live, &next); err != nil {
			return registry.Object{}, err
		}
		written, err := to.update(r.Context(), r.Namespace, r.Subresource, next)
		retry := unconditional && conflicts(err) && (o.UID == "" || o.UID == live.UID)
		if !retry || attempt == updateAttempts {
			return written, err
		}
	}
}

// conflicts reports whether a write failed, for certain, because of another write.
func conflicts(err error) bool {
	return errors.Is(err, namespace.ErrConflict) && !errors.Is(err, namespace.ErrUnknownOutcome)
}

// manager returns the field manager of a request: a parameter or the user agent.
func (r *request) manager() string {
	if r.query.fieldManager != "" {
		return r.query.fieldManager
	}
	name, _, _ := strings.Cut(r.UserAgent(), "/")
	return strings.ToValidUTF8(name[:min(len(name), 128)], "")
}

// patch answers PATCH. A patch without a resource version is applied again if another write
// gets in between. Server-side apply creates a missing object.
func (s *Server) patch(w http.ResponseWriter, r *request) error {
	p, err := s.patchRequest(w, r)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		o, code, retry, err := s.patchOnce(w, r, p)
		switch {
		case err == nil:
			return s.answer(w, r, code, o)
		case !retry || attempt == patchAttempts:
			return err
		}
	}
}

func (s *Server) patchRequest(w http.ResponseWriter, r *request) (patch.Request, error) {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // patch.Apply rejects unknown types
	q := r.query
	if err := optionsFault("PatchOptions", metav1validation.ValidatePatchOptions(&metav1.PatchOptions{
		DryRun: q.dryRun, Force: q.force, FieldManager: q.fieldManager, FieldValidation: q.fieldValidation,
	}, types.PatchType(mediaType))); err != nil {
		return patch.Request{}, err
	}
	body, _, err := s.body(w, r)
	if err != nil {
		return patch.Request{}, err
	}
	p := patch.Request{
		Type: types.PatchType(mediaType), Body: body, FieldManager: r.manager(),
		Force: q.force != nil && *q.force, FieldValidation: codec.FieldValidation(q.fieldValidation), Now: time.Now(),
	}
	if r.received = exchangeOf(r.Context()).weight; p.Type != types.ApplyYAMLPatchType {
		r.received *= 2 // the patch becomes part of the object, which is decoded
	}
	return p, nil
}

// patchOnce applies a patch to the stored object. It returns the status code of the answer,
// and whether a failure was caused by another write.
func (s *Server) patchOnce(w http.ResponseWriter, r *request, p patch.Request) (o registry.Object, code int, retry bool, err error) {
	ctx, to := r.Context(), r.writes()
	live, err := to.Get(ctx, r.Namespace, r.Name)
	current := &live
	if p.Type == types.ApplyYAMLPatchType && r.Subresource == "" && errors.Is(err, namespace.ErrNotFound) {
		current, err = nil, s.authorizeCreation(r)
	}
	if err != nil {
		return o, 0, false, err
	}
	if err := s.amend(r, live); err != nil {
		return o, 0, false, err
	}
	p.Weigh = func(outcome []byte) error {
		weight := r.received + 2*weigh.JSON(outcome, r.Kind.BuiltIn()) + r.echo(outcome)
		return s.setMemory(r, max(weight, exchangeOf(ctx).weight))
	}
	next, warnings, err := s.patcher.Apply(r.Kind, r.Subresource, current, p)
	if err == nil {
		err = r.checkName(next)
	}
	if err != nil {
		return o, 0, false, err
	}
	if current == nil {
		o, err = s.insert(r, next)
		code, retry = http.StatusCreated, errors.Is(err, namespace.ErrExists) && !errors.Is(err, namespace.ErrUnknownOutcome)
	} else {
		conditional := next.ResourceVersion != "" && next.ResourceVersion != "0" && next.ResourceVersion != live.ResourceVersion
		if !conditional {
			next.ResourceVersion = live.ResourceVersion
		}
		if err := s.admit(r, &live, &next); err != nil {
			return o, 0, false, err
		}
		o, err = to.update(ctx, r.Namespace, r.Subresource, next)
		code, retry = http.StatusOK, !conditional && conflicts(err) && next.UID == live.UID
	}
	if err == nil {
		s.warn(w, r, warnings)
	}
	return o, code, retry, err
}

// delete answers DELETE of one object. If finalizers hold the object the answer is the
// object, else a Status; it is a Status too if there is no memory for the object. For a
// namespace the answer is always the namespace, with a warning if it was put on hold.
func (s *Server) delete(w http.ResponseWriter, r *request) error {
	only, err := s.deletion(w, r)
	if err != nil {
		return err
	}
	o, err := r.writes().Delete(r.Context(), r.Namespace, r.Name, only)
	if err != nil {
		return err
	}
	if (r.isNamespaces() || !o.DeletionTimestamp.IsZero()) && s.addMemory(r, r.encoding(o)) == nil {
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

// deletion reads the options of a deletion from the body and the query. It accepts a grace
// period and a propagation policy, which have no effect: objects are deleted at once, and
// there is no garbage collection.
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
			return only, badRequest(r.typeName(), excerpt(r.Name), "preconditions: a uid or resourceVersion that is given must not be empty")
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

// merged returns the options of the body, completed from the query. Different uids are an
// error.
func merged(body, query metav1.DeleteOptions) (metav1.DeleteOptions, error) {
	switch {
	case body.Preconditions == nil:
		body.Preconditions = query.Preconditions
	case query.Preconditions == nil: // otherwise it has a uid
	case body.Preconditions.UID == nil:
		body.Preconditions.UID = query.Preconditions.UID
	case *body.Preconditions.UID != *query.Preconditions.UID:
		return body, badParameter("uid", "differs from the uid of the preconditions in the body")
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
