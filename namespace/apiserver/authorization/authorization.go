// Package authorization says who may do what in which namespace (design document,
// "Authorization"): the [Authorizer] that a server asks about every request, and
// [Grants], a ready one.
package authorization

import "context"

// User is who sent a request, as the host's authentication found out.
type User struct {
	Name   string // empty: nobody is known; the server says "system:anonymous"
	Groups []string
	// ImpersonatedBy is the name of the user that acts as Name, or empty.
	ImpersonatedBy string
}

// Attributes are what an Authorizer is asked about.
type Attributes struct {
	User        User
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection, impersonate; for other paths the HTTP method in lower case
	Group       string // empty: the core group
	Version     string
	Resource    string // empty: a path that is no resource
	Subresource string // "status", "finalize", or empty
	Namespace   string // empty: cluster-scoped, or all namespaces. For a namespace itself its own name
	Name        string // of the object; empty for collections
	Path        string // the path of the request
}

// Decision is the answer of an Authorizer. The zero Decision denies.
type Decision struct {
	Allowed bool
	Reason  string // for people; may be empty
}

// Authorizer decides about requests. It is called before anything is looked up,
// so that its answers cannot tell what exists. An error denies. It is called by
// many goroutines at once.
type Authorizer interface {
	Authorize(ctx context.Context, a Attributes) (Decision, error)
}
