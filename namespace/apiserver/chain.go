package apiserver

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// chain wraps what every request goes through around next, the first one
// outermost.
func (s *Server) chain(next http.Handler) http.Handler {
	for _, link := range []func(http.Handler) http.Handler{
		s.authorized, s.limited, s.authenticated, s.recovered, s.observed, // innermost first
	} {
		next = link(next)
	}
	return next
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
			user = authorization.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
		}
		exchangeOf(r.Context()).route.User = user
		next.ServeHTTP(w, r.WithContext(authorization.WithUser(r.Context(), user)))
	})
}

// authorized asks whether the user may do this, before anything is looked up.
func (s *Server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt := exchangeOf(r.Context()).route
		if s.options.Authorizer != nil {
			decision, err := s.options.Authorizer.Authorize(r.Context(), rt.Attributes)
			if err != nil {
				s.log.ErrorContext(r.Context(), "authorization failed", "error", err)
			}
			if err != nil || !decision.Allowed {
				s.refuse(rt.Attributes, decision.Reason)
				s.fail(w, r, authorization.Forbidden(rt.Attributes, decision.Reason))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
