package authorization

import (
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Forbidden returns the refusal of a request, of kind [namespace.ErrForbidden].
// Its text is made of a alone, and of what the Authorizer gave as reason: it is
// the same whether what was asked for exists or not.
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

// cannot says who may not do what, in upstream's words.
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

// object is the name of what a is about, as rules write it: "configmaps",
// "widgets.example.com", "namespaces/finalize".
func (a Attributes) object() (resource, sub string) {
	resource = a.Resource
	if a.Group != "" {
		resource += "." + a.Group
	}
	return resource, a.Subresource
}
