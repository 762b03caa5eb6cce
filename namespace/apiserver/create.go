package apiserver

import (
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// create answers POST to a collection.
func (s *Server) create(w http.ResponseWriter, r *request) error {
	o, err := s.object(w, r)
	if err != nil {
		return err
	}
	made, err := s.insert(r, s.patcher.Updated(r.Kind, "", registry.Object{}, o, r.manager(), time.Now()))
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusCreated, made)
}

// insert creates an object.
func (s *Server) insert(r *request, o registry.Object) (registry.Object, error) {
	if err := r.validate(nil, &o); err != nil {
		return registry.Object{}, err
	}
	if err := s.authorizeHold(r, nil, o); err != nil {
		return registry.Object{}, err
	}
	return r.writes().create(r.Context(), r.Namespace, o)
}

// validate has the kind set what an object that is to be written leaves open, and
// asks about it.
func (r *request) validate(old, updated *registry.Object) error {
	if r.Kind.Default != nil && r.Subresource == "" {
		r.Kind.Default(updated)
	}
	if r.Kind.Validate == nil {
		return nil
	}
	kind := r.Kind.Kind
	if r.Kind.Group != "" {
		kind += "." + r.Kind.Group
	}
	return namespace.Invalid(kind, r.typeName(), updated.Name, r.Kind.Validate(old, updated))
}

// object reads the object in the body of a request.
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
