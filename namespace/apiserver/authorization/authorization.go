// Package authorization decides who may do what in which namespace (design proposal of Kubernetes,
// "Authorization"). The server asks an [Authorizer] about every request; [Grants] is one that
// is ready to use.
package authorization

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// User is the sender of a request, as the host's authentication identified it.
type User struct {
	Name   string // empty: unknown; the server uses "system:anonymous"
	Groups []string
	// ImpersonatedBy is the name of the user that acts as Name, or empty.
	ImpersonatedBy string
}

// Attributes describe a request to an Authorizer.
type Attributes struct {
	User        User
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection, impersonate; for other paths the HTTP method in lower case
	Group       string // empty: the core group
	Version     string
	Resource    string // empty: a path that is no resource
	Subresource string // "status", "finalize", or empty
	Namespace   string // empty: cluster-scoped, or all namespaces. For a namespace its own name
	Name        string // empty: a collection
	Path        string // of the request
}

// Decision is the answer of an Authorizer. The zero Decision denies.
type Decision struct {
	Allowed bool
	Reason  string // for people; may be empty
}

// Authorizer decides about requests. The server calls it before it reads anything, so that
// the answers cannot reveal which objects exist. An error denies. Calls may be concurrent.
type Authorizer interface {
	Authorize(ctx context.Context, a Attributes) (Decision, error)
}

type userKey struct{}

// WithUser returns a context that carries the user. The server passes it to the registry, for
// admission plugins.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user of the request that ctx belongs to.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// Forbidden returns the refusal of a request, of kind [namespace.ErrForbidden]. Its text
// depends only on a and the reason of the Authorizer, so it does not reveal whether the
// object exists.
func Forbidden(a Attributes, reason string) *namespace.Error {
	why := a.cannot()
	if reason != "" {
		why += ": " + reason
	}
	resource := a.Resource
	if a.Group != "" && resource != "" {
		resource += "." + a.Group
	}
	message := resource + " is forbidden: " + why
	switch {
	case resource == "":
		message = "forbidden: " + why
	case a.Name != "":
		message = fmt.Sprintf("%s %q is forbidden: %s", resource, a.Name, why)
	}
	return &namespace.Error{Kind: namespace.ErrForbidden, Resource: resource, Name: a.Name, Message: message}
}

// cannot describes the refused request in Kubernetes' words.
func (a Attributes) cannot() string {
	if a.Resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", a.User.Name, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", a.User.Name, a.Verb, resource, a.Group, where)
}

// object returns the resource and the sub-resource as rules write them: "configmaps",
// "widgets.example.com", "namespaces/finalize".
func (a Attributes) object() (resource, sub string) {
	resource = a.Resource
	if a.Group != "" {
		resource += "." + a.Group
	}
	return resource, a.Subresource
}
