package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// route is what the method and the path of a request say, before anything is
// looked up. Paths are taken as they are: nothing is cleaned or redirected, and an
// escaped slash is part of a name, which no object can have.
type route struct {
	authorization.Attributes // without the user
	isResource               bool
	item                     bool // of one object, not of a collection
	document                 bool // a path of the design document alone: /watch/..., /list/...
	malformed                bool // no such path can exist
}

// Sub-resources.
const (
	subStatus   = "status"
	subFinalize = "finalize"
)

// routeOf reads the method and the path of a request.
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
	case "list", "watch", "deletecollection": // of others the parameter means nothing: who may create x may not create y
		if !rt.item {
			rt.narrow(r.URL.RawQuery)
		}
	}
	return rt
}

// narrow names the one object that a collection is narrowed to by a field
// selector, as kubectl does to watch one: who may see it alone may do that.
func (rt *route) narrow(rawQuery string) {
	if !strings.Contains(rawQuery, "fieldSelector") {
		return
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil || len(values["fieldSelector"]) != 1 {
		return // refused when the query is read
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

// segmentsOf cuts a path. A trailing slash is allowed (design document, row CREATE
// of content), empty segments are not.
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

// name reads what follows the group and the version: which resource, in which
// namespace, of which name. It reports false when no resource has such a path.
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

// ofNamespace reports whether the path is of a namespace, not of content in it.
func (rt *route) ofNamespace(segments []string) bool {
	if rt.Group != "" {
		return false
	}
	return len(segments) == 2 || len(segments) == 3 && (segments[2] == subStatus || segments[2] == subFinalize)
}

func (rt *route) subresource(rest []string) bool {
	if len(rest) == 1 {
		rt.Subresource = rest[0]
	}
	return len(rest) <= 1
}

// verb says what is asked for, as authorizers know it.
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
		rt.Verb = "update" // the document's FINALIZE is what Kubernetes does with PUT
	case r.Method == http.MethodPost:
		rt.Verb = "create"
	case r.Method == http.MethodPut:
		rt.Verb = "update"
	case r.Method == http.MethodDelete && !rt.item:
		rt.Verb = "deletecollection"
	}
}

// wantsWatch reads the one parameter that decides about the verb. What is wrong
// with it is told when all are read.
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
