package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// request is a request for a resource: what it is about, and what it asks for.
type request struct {
	*http.Request
	route
	*resource
	query query
}

type routeKey struct{}

func withRoute(ctx context.Context, rt route) context.Context {
	return context.WithValue(ctx, routeKey{}, rt)
}

// dispatch answers a request that was let through.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	rt, ok := r.Context().Value(routeKey{}).(route)
	if !ok {
		rt = routeOf(r)
	}
	if !rt.isResource {
		s.fail(w, r, errNoSuchPath())
		return
	}
	req, err := s.resolve(w, r, rt)
	if err == nil {
		err = s.do(w, req)
	}
	if err != nil {
		s.fail(w, r, err)
	}
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
	ofNamespaces := res.Group == "" && res.Resource == namespace.Resource
	switch {
	case !ofNamespaces && !res.Namespaced && rt.Namespace != "", res.Namespaced && rt.item && rt.Namespace == "":
		return nil
	case rt.document && !rt.item, rt.document && rt.Verb == "watch":
		return []string{http.MethodGet, http.MethodHead}
	case rt.Subresource == subStatus && ofNamespaces:
		return []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch}
	case rt.Subresource == subFinalize && ofNamespaces:
		return []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost}
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
	return errMethod()
}

// fail answers with the Status for err. A client that is gone is sent nothing.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == context.Canceled {
		return
	}
	st := failure(err)
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	body, err := json.Marshal(st)
	if err != nil {
		s.log.ErrorContext(r.Context(), "a status cannot be encoded", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(st.Code))
	w.Write(append(body, '\n')) // the client is gone if that fails
}
