package apiserver

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// route is the method and the path of a request, parsed without looking anything up. Paths
// are not cleaned or redirected. An escaped slash is part of a name, which no object can have.
type route struct {
	authorization.Attributes // without the user
	isResource               bool
	item                     bool // one object, not a collection
	document                 bool // a path of the design proposal: /watch/..., /list/...
	malformed                bool // no such path can exist
}

// Sub-resources.
const (
	subStatus   = "status"
	subFinalize = "finalize"
)

// routeOf parses the method and the path of a request.
func routeOf(r *http.Request) route {
	rt := route{Attributes: authorization.Attributes{Verb: strings.ToLower(r.Method), Path: r.URL.Path}}
	segments, ok := segmentsOf(r.URL)
	switch {
	case !ok:
		rt.malformed = true
		return rt
	case len(segments) >= 3 && segments[0] == "api":
		rt.Version = segments[1]
		segments = segments[2:]
	case len(segments) >= 4 && segments[0] == "apis":
		rt.Group, rt.Version = segments[1], segments[2]
		segments = segments[3:]
	default:
		return rt
	}
	rt.isResource = true
	prefix := segments[0]
	if rt.document = prefix == "watch" || prefix == "list"; rt.document {
		segments = segments[1:]
	}
	if !rt.name(segments) || rt.document && rt.Subresource != "" || prefix == "list" && (rt.item || rt.Namespace != "") {
		rt.malformed = true
	}
	rt.verb(r, prefix == "watch")
	switch rt.Verb {
	case "list", "watch", "deletecollection": // other verbs ignore the parameter
		if !rt.item {
			rt.narrow(r.URL.RawQuery)
		}
	}
	return rt
}

// narrow sets the name if a field selector narrows a collection to one object, as kubectl
// does to watch an object. A user who may see only that object is then allowed.
func (rt *route) narrow(rawQuery string) {
	if !strings.Contains(rawQuery, "fieldSelector") {
		return
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil || len(values["fieldSelector"]) != 1 {
		return // parseQuery rejects it
	}
	fields, err := selector.ParseFields(values.Get("fieldSelector"))
	if err != nil {
		return
	}
	if name, ok := fields.Exactly("metadata.name"); ok && name != "" {
		if rt.Name = name; rt.Group == "" && rt.Resource == namespace.Resource {
			rt.Namespace = name
		}
	}
}

// segmentsOf splits a path. A trailing slash is allowed (design proposal of Kubernetes, row CREATE of
// content), empty segments are not.
func segmentsOf(u *url.URL) ([]string, bool) {
	path, rooted := strings.CutPrefix(u.EscapedPath(), "/")
	if !rooted {
		return nil, false
	}
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return nil, true
	}
	segments := strings.Split(path, "/")
	for i, escaped := range segments {
		segment, err := url.PathUnescape(escaped)
		if err != nil || segment == "" {
			return nil, false
		}
		segments[i] = segment
	}
	return segments, true
}

// name parses the path after the group and the version: namespace, resource and name. It
// reports false if no resource has such a path.
func (rt *route) name(segments []string) bool {
	if len(segments) == 0 {
		return false
	}
	if segments[0] == namespace.Resource && len(segments) > 1 {
		if rt.Namespace = segments[1]; rt.ofNamespace(segments) {
			rt.Resource, rt.Name = namespace.Resource, rt.Namespace
			segments = segments[2:]
			rt.item = true
			return rt.subresource(segments)
		}
		segments = segments[2:]
		if len(segments) == 0 || rt.Group == "" && segments[0] == namespace.Resource {
			return false // namespaces are in no namespace
		}
	}
	rt.Resource = segments[0]
	if len(segments) > 1 {
		rt.Name, rt.item = segments[1], true
		return rt.subresource(segments[2:])
	}
	return true
}

// ofNamespace reports whether the path names a namespace, not content in it.
func (rt *route) ofNamespace(segments []string) bool {
	if rt.Group != "" {
		return false
	}
	return len(segments) == 2 || len(segments) == 3 && (segments[2] == subStatus || segments[2] == subFinalize)
}

// watches reports whether the request is for a watch.
func (rt *route) watches() bool { return rt.isResource && rt.Verb == "watch" }

func (rt *route) subresource(rest []string) bool {
	if len(rest) == 1 {
		rt.Subresource = rest[0]
	}
	return len(rest) <= 1
}

// verb sets the verb for authorizers.
func (rt *route) verb(r *http.Request, watch bool) {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case watch && get:
		rt.Verb = "watch"
	case get && rt.item:
		rt.Verb = "get"
	case get && wantsWatch(r.URL.RawQuery):
		rt.Verb = "watch"
	case get:
		rt.Verb = "list"
	case r.Method == http.MethodPost && rt.Subresource == subFinalize:
		rt.Verb = "update" // the design proposal's FINALIZE
	case r.Method == http.MethodPost:
		rt.Verb = "create"
	case r.Method == http.MethodPut:
		rt.Verb = "update"
	case r.Method == http.MethodDelete && !rt.item:
		rt.Verb = "deletecollection"
	}
}

// wantsWatch parses the parameter that selects the verb. parseQuery reports its errors.
func wantsWatch(rawQuery string) bool {
	if !strings.Contains(rawQuery, "watch") {
		return false
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil || !values.Has("watch") {
		return false
	}
	on, err := parseBool("watch", values.Get("watch"))
	return err == nil && on
}

// request is a request for a resource.
type request struct {
	*http.Request
	route
	*resource
	query  query
	format codec.Format // of the answer

	received int64           // the weight of the body
	parent   context.Context // without Limits.Timeout
}

// dispatch answers a request that has passed the chain.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	var err error
	if rt := exchangeOf(r.Context()).route; rt.isResource {
		err = s.serveResource(w, r, rt)
	} else {
		err = s.serveSystem(w, r)
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

// resolve looks up the resource of the path, and parses the query.
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
		return nil, errMethod(w, allowed...)
	}
	q, err := parseQuery(r.URL.RawQuery, rt)
	if err != nil {
		return nil, err
	}
	return &request{Request: r, route: rt, resource: res, query: q}, nil
}

// methods returns the methods of a path; none: there is no such path.
func (res *resource) methods(rt route) []string {
	ofNamespaces := res.isNamespaces()
	switch {
	case !ofNamespaces && !res.Namespaced && rt.Namespace != "", res.Namespaced && rt.item && rt.Namespace == "":
		return nil
	case rt.Verb == "watch": // without HEAD, whose answer would not end
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

// do executes a request.
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
	return errMethod(w)
}

// accept joins the Accept headers.
func accept(h http.Header) string { return strings.Join(h.Values("Accept"), ",") }

// writes returns the storage for writes. That of a dry run stores nothing.
func (r *request) writes() storage {
	if len(r.query.dryRun) > 0 {
		return r.dry
	}
	return r.storage
}

// typeName returns the name of the resource in messages, such as "widgets.example.com".
func (r *request) typeName() string { return r.Kind.Name().String() }

func (res *resource) isNamespaces() bool {
	return res.Kind.Group == "" && res.Kind.Resource == namespace.Resource
}

func (r *request) table() codec.TableOptions {
	return codec.TableOptions{IncludeObject: r.query.includeObject}
}
