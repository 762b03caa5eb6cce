package authorization

import (
	"context"
	"strings"
	"sync/atomic"
)

// Any stands for everything where a [Grant] may name it: all verbs, all resources
// with their sub-resources, all users (also those that nobody knows), all paths.
const Any = "*"

// Authenticated is the group of everybody whom the host's authentication knows by
// name. A grant to it needs no membership: it is derived from [User.Name].
const Authenticated = "system:authenticated"

// Anonymous is the name of a user whom nobody knows. Such a user is not in the
// group [Authenticated], whatever its Groups say.
const Anonymous = "system:anonymous"

// Grant allows subjects to do something somewhere. A request is allowed when one
// grant allows it; nothing takes anything away again.
//
// A grant for namespaces reaches what is in them, and the namespace objects
// themselves (resource "namespaces", name as the namespace). It does not reach
// lists and watches across namespaces, the creation of namespaces, nor objects of
// cluster-scoped types: those are of the whole cluster and need Cluster. So a user
// with grants for namespaces only is refused `get namespaces` and `get -A`; a list
// that showed just what one may see would tell a client that the rest is gone. The
// server takes a list or watch of namespaces that a field selector narrows to one
// (metadata.name=x) as one in that namespace, so `wait namespace/x` is granted there.
type Grant struct {
	Users  []string `json:"users,omitempty"`  // names; "*" is everybody
	Groups []string `json:"groups,omitempty"` // one of them is enough

	Namespaces []string `json:"namespaces,omitempty"` // where Rules hold
	Cluster    bool     `json:"cluster,omitempty"`    // Rules hold everywhere, at the cluster scope too
	Rules      []Rule   `json:"rules,omitempty"`

	// Paths are the paths outside of resources that may be read (get, head, options):
	// "/version" alone, or with "*" at the end everything that begins so: "/api*".
	Paths []string `json:"paths,omitempty"`
}

// Rule is what a grant allows: each of its verbs on each of its resources.
type Rule struct {
	// Verbs are get, list, watch, create, update, patch, delete, deletecollection,
	// impersonate (on users and groups, at the cluster scope: it lets a user act as any
	// other), or "*".
	Verbs []string `json:"verbs"`
	// Resources are written as "configmaps", or "widgets.example.com" for a named
	// group. Sub-resources are apart: "namespaces" does not reach
	// "namespaces/finalize", and "*/status" is that of every resource. "*" reaches all
	// of them, "*.example.com" the resources of a group.
	Resources []string `json:"resources"`
}

// Grants is an [Authorizer] that knows a list of grants, and denies what none of
// them allows. It looks at the request only, never at what is stored, so that its
// answers are the same for what exists and for what does not. No user and no group
// is special: "system:masters" may do what is granted to it.
//
// The zero Grants denies everything. All methods are safe for concurrent use; a
// decision costs a few map look-ups for each group of the user, however many
// grants there are. A Grants must not be copied.
type Grants struct {
	table atomic.Pointer[table]
}

// New returns the authorizer of a list of grants, or what is wrong with the list: a
// [*namespace.Error] of kind [namespace.ErrInvalid] that names every entry at fault.
// The list may be changed afterwards.
func New(list []Grant) (*Grants, error) {
	g := &Grants{}
	if err := g.Replace(list); err != nil {
		return nil, err
	}
	return g, nil
}

// Replace puts another list in the place of the present one, at once for all
// requests that are decided from now on. If there is something wrong with it (as
// with [New]), nothing changes.
func (g *Grants) Replace(list []Grant) error {
	if err := check(list); err != nil {
		return err
	}
	g.table.Store(compile(list))
	return nil
}

// Authorize implements [Authorizer]. It never fails, and gives no reason.
func (g *Grants) Authorize(_ context.Context, a Attributes) (Decision, error) {
	t := g.table.Load()
	if t == nil {
		return Decision{}, nil
	}
	return Decision{Allowed: t.allows(a)}, nil
}

// table is a list of grants, arranged for looking up.
type table struct {
	users  map[string]*allowance
	groups map[string]*allowance
}

// allowance is all that is granted to one user or group.
type allowance struct {
	cluster    ruleset
	namespaces map[string]ruleset
	paths      map[string]struct{} // exact
	prefixes   []string            // without their "*"
}

// ruleset holds pairs of verb and resource as they were written.
type ruleset map[pair]struct{}

type pair struct{ verb, resource string }

func compile(list []Grant) *table {
	t := &table{users: map[string]*allowance{}, groups: map[string]*allowance{}}
	for _, g := range list {
		for _, user := range g.Users {
			add(t.users, user, g)
		}
		for _, group := range g.Groups {
			add(t.groups, group, g)
		}
	}
	return t
}

func add(subjects map[string]*allowance, subject string, g Grant) {
	a := subjects[subject]
	if a == nil {
		a = &allowance{cluster: ruleset{}, namespaces: map[string]ruleset{}, paths: map[string]struct{}{}}
		subjects[subject] = a
	}
	if g.Cluster {
		a.cluster.add(g.Rules)
	}
	for _, ns := range g.Namespaces {
		if a.namespaces[ns] == nil {
			a.namespaces[ns] = ruleset{}
		}
		a.namespaces[ns].add(g.Rules)
	}
	for _, path := range g.Paths {
		if prefix, ok := strings.CutSuffix(path, Any); ok {
			a.prefixes = append(a.prefixes, prefix)
		} else {
			a.paths[path] = struct{}{}
		}
	}
}

func (s ruleset) add(rules []Rule) {
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, resource := range r.Resources {
				s[pair{verb, resource}] = struct{}{}
			}
		}
	}
}

// allows reports whether one of the user's allowances reaches the request.
func (t *table) allows(a Attributes) bool {
	q := newQuestion(a)
	if q.answeredBy(t.users[Any]) {
		return true
	}
	if a.User.Name == "" || a.User.Name == Anonymous {
		return q.answeredBy(t.users[Anonymous]) || t.allowsGroups(a, &q, Authenticated)
	}
	return q.answeredBy(t.users[a.User.Name]) || q.answeredBy(t.groups[Authenticated]) || t.allowsGroups(a, &q, "")
}

// allowsGroups looks at the groups that a user brings, except one.
func (t *table) allowsGroups(a Attributes, q *question, except string) bool {
	for _, group := range a.User.Groups {
		if group != except && q.answeredBy(t.groups[group]) {
			return true
		}
	}
	return false
}

// question is a request in the terms of rules.
type question struct {
	verb, namespace, path string
	resources             [3]string // what rules may call it, beside "*"; none: a path
}

func newQuestion(a Attributes) question {
	q := question{verb: a.Verb, namespace: a.Namespace, path: a.Path}
	if a.Resource == "" {
		return q
	}
	resource, sub := a.object()
	if sub != "" {
		q.resources = [3]string{resource + "/" + sub, Any + "/" + sub}
	} else {
		q.resources = [3]string{resource}
	}
	if a.Group != "" && sub == "" {
		q.resources[2] = Any + "." + a.Group
	}
	return q
}

func (q *question) answeredBy(a *allowance) bool {
	switch {
	case a == nil:
		return false
	case q.resources[0] == "":
		return q.reads() && a.path(q.path)
	case a.cluster.has(q):
		return true
	}
	return q.namespace != "" && a.namespaces[q.namespace].has(q)
}

// reads reports whether a request for a path is one that grants can allow.
func (q *question) reads() bool { return q.verb == "get" || q.verb == "head" || q.verb == "options" }

func (a *allowance) path(path string) bool {
	if _, ok := a.paths[path]; ok {
		return true
	}
	for _, prefix := range a.prefixes {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func (s ruleset) has(q *question) bool {
	if len(s) == 0 {
		return false
	}
	for _, verb := range [2]string{q.verb, Any} {
		if _, ok := s[pair{verb, Any}]; ok {
			return true
		}
		for _, resource := range q.resources {
			if resource == "" {
				continue
			}
			if _, ok := s[pair{verb, resource}]; ok {
				return true
			}
		}
	}
	return false
}
