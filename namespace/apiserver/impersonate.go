package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Headers with which a client acts as another user, as kubectl --as and --as-group send them.
const (
	impersonation    = "Impersonate-" // the prefix of all of them
	impersonateUser  = impersonation + "User"
	impersonateGroup = impersonation + "Group"
)

// impersonated lets an authorized user act as another. Later handlers see the impersonated
// user, with the original user in ImpersonatedBy. [Limits] apply to the original user.
func (s *Server) impersonated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := &exchangeOf(r.Context()).route
		user, err := s.impersonate(r, route.Attributes)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		route.User = user
		ctx := authorization.WithUser(r.Context(), user)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			ctx = audit.WithActor(ctx, actor(user)) // for the records of its declarations
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// impersonate returns the user that a request acts as. Each name in the headers requires
// the verb impersonate on the resource users or groups. Attributes that authorizers do not
// see are refused, because ignoring them would grant more than the client asked for.
func (s *Server) impersonate(r *http.Request, a authorization.Attributes) (authorization.User, error) {
	asked := false
	for name := range r.Header {
		switch {
		case name == impersonateUser, name == impersonateGroup:
			asked = true
		case strings.HasPrefix(name, impersonation):
			return a.User, &namespace.Error{Kind: namespace.ErrForbidden, Message: "the header " + name + " is not supported: only users and groups can be impersonated"}
		}
	}
	if !asked {
		return a.User, nil
	}
	names, groups := r.Header[impersonateUser], r.Header[impersonateGroup]
	if len(names) != 1 || names[0] == "" {
		return a.User, apierrors.NewBadRequest("impersonation needs exactly one user, in the header " + impersonateUser)
	}
	may := func(resource, name string) error {
		return s.authorize(r.Context(), authorization.Attributes{
			User: a.User, Verb: "impersonate", Version: "v1", Resource: resource, Name: name, Path: a.Path,
		})
	}
	if err := may("users", names[0]); err != nil {
		return a.User, err
	}
	for _, group := range groups {
		if err := may("groups", group); err != nil {
			return a.User, err
		}
	}
	user := authorization.User{Name: names[0], Groups: groups}
	if user.Name == authorization.Anonymous && len(groups) == 0 {
		user = anonymous()
	}
	user.ImpersonatedBy = a.User.Name
	return user, nil
}

// anonymous returns the user of unauthenticated requests.
func anonymous() authorization.User {
	return authorization.User{Name: authorization.Anonymous, Groups: []string{"system:unauthenticated"}}
}

// actor returns the name of the user in audit records.
func actor(u authorization.User) string {
	if u.ImpersonatedBy == "" {
		return u.Name
	}
	return fmt.Sprintf("%s, impersonating %q", u.ImpersonatedBy, u.Name)
}
