package apiserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// chain wraps the checks that every request passes around next.
func (s *Server) chain(next http.Handler) http.Handler {
	for _, link := range []func(http.Handler) http.Handler{
		s.authorized, s.impersonated, s.limited, s.authenticated, s.guarded, s.recovered, s.observed, // innermost first
	} {
		next = link(next)
	}
	return next
}

// checked calls check before next. If check fails, its error is the answer.
func (s *Server) checked(next http.Handler, check func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guarded rejects requests that a browser sends for another website.
func (s *Server) guarded(next http.Handler) http.Handler {
	if s.guard == nil {
		return next
	}
	return s.checked(next, s.guard.Check)
}

// authenticated determines the user.
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

// anonymous returns the user of unauthenticated requests.
func anonymous() authorization.User {
	return authorization.User{Name: authorization.Anonymous, Groups: []string{"system:unauthenticated"}}
}

// pools are the capacity of a server.
type pools struct {
	reads, writes *flow.Pool // concurrent requests
	watches       *flow.Pool // open watches
	arriving      *flow.Pool // bytes of memory for incoming bodies
	memory        *flow.Pool // bytes of memory for decoding and answering
}

func newPools(l Limits) pools {
	slots := func(n int) *flow.Pool {
		return flow.New(flow.Options{Amount: int64(n), Share: int64(n - n/2), Queue: n, Wait: l.QueueTimeout})
	}
	memory := func(n int64) *flow.Pool { // the slots bound its queue
		return flow.New(flow.Options{Amount: n, Share: n / 2, Queue: math.MaxInt, Wait: l.QueueTimeout})
	}
	return pools{
		reads: slots(l.Reads), writes: slots(l.Writes),
		watches:  flow.New(flow.Options{Amount: int64(l.AllWatches), Share: int64(l.Watches)}),
		arriving: memory(l.Memory / arrivingPart), memory: memory(l.Memory - l.Memory/arrivingPart),
	}
}

// limited admits requests while there is capacity. Probes are always admitted.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isProbe(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		e := exchangeOf(r.Context())
		user := e.route.User.Name
		if user == authorization.Anonymous {
			user = ""
		}
		e.client = flow.Client(user, r.RemoteAddr)
		e.memory = s.pools.memory.Lease(e.client)
		defer e.memory.Release()
		pool := s.pools.writes
		switch {
		case e.route.watches():
			pool = s.pools.watches
		case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
			pool = s.pools.reads
		}
		slot := pool.Lease(e.client)
		if err := enter(r.Context(), &slot); err != nil {
			s.fail(w, r, err)
			return
		}
		defer slot.Release()
		next.ServeHTTP(w, r)
	})
}

// enter acquires a slot.
func enter(ctx context.Context, slot *flow.Lease) error {
	err := slot.Grow(ctx, 1)
	if errors.Is(err, flow.ErrTooMany) || errors.Is(err, flow.ErrTooHeavy) {
		return tooMany()
	}
	return err
}

// Headers with which a client acts as another user, as kubectl --as and --as-group send them.
const (
	impersonation    = "Impersonate-" // the common prefix
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

// actor returns the name of the user in audit records.
func actor(u authorization.User) string {
	if u.ImpersonatedBy == "" {
		return u.Name
	}
	return fmt.Sprintf("%s, impersonating %q", u.ImpersonatedBy, u.Name)
}

// authorized asks the Authorizer before the server reads anything.
func (s *Server) authorized(next http.Handler) http.Handler {
	return s.checked(next, func(r *http.Request) error {
		return s.authorize(r.Context(), exchangeOf(r.Context()).route.Attributes)
	})
}

// authorize returns an error if the Authorizer does not allow a.
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
	if s.options.Hooks.Refused != nil {
		s.options.Hooks.Refused(Refusal{User: a.User, Attributes: a, Reason: decision.Reason})
	}
	return authorization.Forbidden(a, decision.Reason)
}

// authorizeCreation authorizes an apply that creates an object, for which the verb patch does
// not suffice. A namespace is created at the cluster scope.
func (s *Server) authorizeCreation(r *request) error {
	a := r.Attributes
	a.Verb = "create"
	if r.isNamespaces() {
		a.Namespace = ""
	}
	return s.authorize(r.Context(), a)
}

// authorizeHold authorizes a write that puts a namespace on hold or moves the end of its
// hold. Since the namespace is deleted in consequence, the write needs the verb delete. old
// is nil for a create.
func (s *Server) authorizeHold(r *request, old *registry.Object, next registry.Object) error {
	hold, held := next.Annotations[declare.HoldAnnotation]
	if !held || !r.isNamespaces() || r.Subresource != "" {
		return nil
	}
	if old != nil {
		if next.ResourceVersion != old.ResourceVersion { // old is not the object that the write replaces
			return apierrors.NewConflict(schema.GroupResource{Resource: namespace.Resource}, next.Name,
				errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		if before, was := old.Annotations[declare.HoldAnnotation]; was && before == hold || !old.DeletionTimestamp.IsZero() { // R3
			return nil
		}
	}
	a := r.Attributes
	a.Verb, a.Namespace, a.Name = "delete", next.Name, next.Name
	return s.authorize(r.Context(), a)
}
