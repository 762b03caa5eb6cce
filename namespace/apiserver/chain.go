package apiserver

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// chain wraps what every request goes through around next, the first one
// outermost.
func (s *Server) chain(next http.Handler) http.Handler {
	for _, link := range []func(http.Handler) http.Handler{
		s.authorized, s.impersonated, s.limited, s.authenticated, s.guarded, s.recovered, s.observed, // innermost first
	} {
		next = link(next)
	}
	return next
}

// guarded refuses requests that a browser sends for another web site.
func (s *Server) guarded(next http.Handler) http.Handler {
	if s.guard == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.guard.Check(r); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authenticated has the host say who sent the request.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var user authorization.User
		if s.options.Authenticate != nil {
			var err error
			if user, err = s.options.Authenticate(r); err != nil {
				s.log.InfoContext(r.Context(), "authentication failed", "error", err)
				w.Header().Set("WWW-Authenticate", `Bearer realm="nslifecycle"`)
				s.fail(w, r, apierrors.NewUnauthorized("Unauthorized"))
				return
			}
		}
		if user.Name == "" {
			user = anonymous()
		}
		exchangeOf(r.Context()).route.User = user
		next.ServeHTTP(w, r)
	})
}

// authorized asks whether the user may do this, before anything is looked up.
func (s *Server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.authorize(r.Context(), exchangeOf(r.Context()).route.Attributes); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize refuses what the user may not do.
func (s *Server) authorize(ctx context.Context, a authorization.Attributes) error {
	if s.options.Authorizer == nil {
		return nil
	}
	decision, err := s.options.Authorizer.Authorize(ctx, a)
	if err != nil {
		s.log.ErrorContext(ctx, "authorization failed", "error", err)
	}
	if err == nil && decision.Allowed {
		return nil
	}
	s.refuse(a, decision.Reason)
	return authorization.Forbidden(a, decision.Reason)
}

// authorizeCreation asks whether a request that creates what is not there may do
// that: the verb patch, by which it was let through, is not enough. A namespace is
// created at the cluster scope, also by its name.
func (s *Server) authorizeCreation(r *request) error {
	a := r.Attributes
	a.Verb = "create"
	if r.isNamespaces() {
		a.Namespace = ""
	}
	return s.authorize(r.Context(), a)
}
