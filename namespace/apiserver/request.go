package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// request is a request for a resource: what it is about, and what it asks for.
type request struct {
	*http.Request
	route
	*resource
	query  query
	format codec.Format // of the answer

	received int64           // the weight of the body
	parent   context.Context // without the time that a request may take
}

// dispatch answers a request that was let through.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	var err error
	if rt := exchangeOf(r.Context()).route; rt.isResource {
		err = s.serveResource(w, r, rt)
	} else {
		err = s.system(w, r)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, rt route) error {
	req, err := s.resolve(w, r, rt)
	if err != nil {
		return err
	}
	return s.do(w, req)
}

// resolve looks up what the path names, and reads what the query asks for.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request, rt route) (*request, error) {
	res := s.resources[resourceKey{rt.Group, rt.Version, rt.Resource}]
	if rt.malformed || res == nil {
		return nil, errNoSuchPath()
	}
	allowed := res.methods(rt)
	if len(allowed) == 0 {
		return nil, errNoSuchPath()
	}
	if !slices.Contains(allowed, r.Method) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, errMethod()
	}
	q, err := parseQuery(r.URL.RawQuery, rt)
	if err != nil {
		return nil, err
	}
	return &request{Request: r, route: rt, resource: res, query: q}, nil
}

// methods returns the methods that a path has; none: there is no such path.
func (res *resource) methods(rt route) []string {
	ofNamespaces := res.isNamespaces()
	switch {
	case !ofNamespaces && !res.Namespaced && rt.Namespace != "", res.Namespaced && rt.item && rt.Namespace == "":
		return nil
	case rt.Verb == "watch": // also of HEAD, which would wait for an answer without end
		return []string{http.MethodGet}
	case rt.document:
		return []string{http.MethodGet, http.MethodHead}
	case rt.Subresource == subStatus && (ofNamespaces || res.Status):
		return []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch}
	case rt.Subresource == subFinalize && ofNamespaces:
		return []string{http.MethodPut, http.MethodPost}
	case rt.Subresource != "":
		return nil
	case rt.item:
		return []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete}
	case ofNamespaces:
		return []string{http.MethodGet, http.MethodHead, http.MethodPost}
	case res.Namespaced && rt.Namespace == "":
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}
}

// do carries out a request.
func (s *Server) do(w http.ResponseWriter, r *request) error {
	var err error
	if r.format, err = s.codec.Negotiate(accept(r.Header), r.Kind, r.Verb == "watch"); err != nil {
		return err
	}
	if r.query.pretty {
		r.format = r.format.Pretty()
	}
	if r.Verb == "watch" {
		return s.watch(w, r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Limits.Timeout)
	defer cancel()
	r.parent = r.Context()
	r.Request = r.WithContext(registry.WithWarnings(ctx, func(text string) { s.warn(w, r, []string{text}) }))
	switch r.Verb {
	case "get":
		return s.get(w, r)
	case "list":
		return s.list(w, r)
	case "create":
		return s.create(w, r)
	case "update":
		return s.update(w, r)
	case "patch":
		return s.patch(w, r)
	case "delete":
		return s.delete(w, r)
	case "deletecollection":
		return s.deleteCollection(w, r)
	}
	return errMethod()
}

// accept returns what a client accepts, which it may say in several headers.
func accept(h http.Header) string { return strings.Join(h.Values("Accept"), ",") }

// writes is where a request writes: nowhere, when it only asks what would be.
func (r *request) writes() storage {
	if len(r.query.dryRun) > 0 {
		return r.dry
	}
	return r.storage
}

// typeName is how messages name the resource, such as "widgets.example.com".
func (r *request) typeName() string { return r.Kind.Name().String() }

func (res *resource) isNamespaces() bool {
	return res.Kind.Group == "" && res.Kind.Resource == namespace.Resource
}

func (r *request) table() codec.TableOptions {
	return codec.TableOptions{IncludeObject: r.query.includeObject}
}
