package apiserver

import (
	"errors"
	"mime"
	"net/http"
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

// patch answers PATCH. A patch that names no resource version is applied to what
// is there, again when that was changed meanwhile. Server-side apply creates what
// is not there.
func (s *Server) patch(w http.ResponseWriter, r *request) error {
	p, apply, err := s.patchRequest(w, r)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		o, created, again, err := s.patchOnce(w, r, p, apply)
		switch {
		case err == nil && created:
			return s.answer(w, r, http.StatusCreated, o)
		case err == nil:
			return s.answer(w, r, http.StatusOK, o)
		case !again || attempt == patchAttempts:
			return err
		}
	}
}

func (s *Server) patchRequest(w http.ResponseWriter, r *request) (p patch.Request, apply bool, err error) {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // Apply refuses what it does not know
	q := r.query
	if err := optionsFault("PatchOptions", metav1validation.ValidatePatchOptions(&metav1.PatchOptions{
		DryRun: q.dryRun, Force: q.force, FieldManager: q.fieldManager, FieldValidation: q.fieldValidation,
	}, types.PatchType(mediaType))); err != nil {
		return p, false, err
	}
	body, _, err := s.body(w, r)
	if err != nil {
		return p, false, err
	}
	apply = types.PatchType(mediaType) == types.ApplyYAMLPatchType
	if r.received = exchangeOf(r.Context()).weight; !apply {
		r.received *= 2 // it becomes part of the object, which is decoded
	}
	return patch.Request{
		ContentType: r.Header.Get("Content-Type"), Body: body, FieldManager: r.manager(),
		Force: q.force != nil && *q.force, FieldValidation: codec.FieldValidation(q.fieldValidation), Now: time.Now(),
	}, apply, nil
}

// patchOnce applies a patch to what is there now. Again says that a failure came of
// somebody else's write.
func (s *Server) patchOnce(w http.ResponseWriter, r *request, p patch.Request, apply bool) (o registry.Object, created, again bool, err error) {
	ctx, to := r.Context(), r.writes()
	live, err := to.get(ctx, r.Namespace, r.Name)
	current := &live
	if apply && r.Subresource == "" && errors.Is(err, namespace.ErrNotFound) {
		current, err = nil, s.authorizeCreation(r)
	}
	if err != nil {
		return o, false, false, err
	}
	if err := s.amend(r, live); err != nil {
		return o, false, false, err
	}
	p.Weigh = func(outcome []byte) error {
		weight := r.received + 2*weigh.JSON(outcome, r.Kind.BuiltIn()) + r.echo(outcome)
		return s.hold(r, max(weight, exchangeOf(r.Context()).weight))
	}
	next, warnings, err := s.patcher.Apply(ctx, r.Kind, r.Subresource, current, p)
	if err != nil {
		return o, false, false, err
	}
	if err := r.checkName(next); err != nil {
		return o, false, false, err
	}
	if current == nil {
		o, err = s.insert(r, next)
		created, again = true, errors.Is(err, namespace.ErrExists)
	} else {
		demanded := next.ResourceVersion != "" && next.ResourceVersion != "0" && next.ResourceVersion != live.ResourceVersion
		if !demanded {
			next.ResourceVersion = live.ResourceVersion
		}
		if err := r.validate(&live, &next); err != nil {
			return o, false, false, err
		}
		if err := s.authorizeHold(r, &live, next); err != nil {
			return o, false, false, err
		}
		o, err = to.update(ctx, r.Namespace, r.Subresource, next)
		again = !demanded && errors.Is(err, namespace.ErrConflict) && next.UID == live.UID
	}
	if err == nil {
		s.warn(w, r, warnings)
	}
	return o, created, again && !errors.Is(err, namespace.ErrUnknownOutcome), err
}
