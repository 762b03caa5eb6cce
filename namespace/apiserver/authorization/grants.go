package authorization

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Any in a [Grant] stands for all verbs, all resources with their sub-resources, all users
// including unknown ones, or all paths.
const Any = "*"

// Authenticated is the group of all users with a name. Membership follows from [User.Name].
const Authenticated = "system:authenticated"

// Anonymous is the name of an unknown user. Such a user is not in the group [Authenticated],
// even if its Groups contain it.
const Anonymous = "system:anonymous"

// Grant allows users and groups to send certain requests. A request is allowed if any grant
// allows it. There are no denying grants.
//
// A grant for namespaces covers their content and the namespace objects themselves (resource
// "namespaces", named like the namespace). Lists and watches across namespaces, the creation
// of namespaces and objects of cluster-scoped types need Cluster. So a user with grants for
// namespaces only may not `get namespaces` or `get -A`. The server does not filter lists: a
// client would conclude that the missing objects are deleted. A list or watch of namespaces
// that a field selector narrows to one (metadata.name=x) belongs to that namespace, so a grant
// for x allows `wait namespace/x`.
type Grant struct {
	Users  []string `json:"users,omitempty"`  // names; "*" means all users
	Groups []string `json:"groups,omitempty"` // one of them is enough

	Namespaces []string `json:"namespaces,omitempty"` // where Rules hold
	Cluster    bool     `json:"cluster,omitempty"`    // Rules hold everywhere, at the cluster scope too
	Rules      []Rule   `json:"rules,omitempty"`

	// Paths are readable paths other than resources (get, head, options): an exact path such as
	// "/version", or a prefix with "*" at its end such as "/api*".
	Paths []string `json:"paths,omitempty"`
}

// Rule allows each of its verbs on each of its resources.
type Rule struct {
	// Verbs are get, list, watch, create, update, patch, delete, deletecollection,
	// impersonate (on users and groups, at the cluster scope), or "*".
	Verbs []string `json:"verbs"`
	// Resources are written as "configmaps", or "widgets.example.com" for a named group. They
	// do not include sub-resources: write "namespaces/finalize", or "*/status" for all
	// resources. "*.example.com" stands for the resources of a group, "*" for all resources and
	// sub-resources.
	Resources []string `json:"resources"`
}

// Grants is an [Authorizer] with a list of grants. It denies requests that no grant allows.
// Its decisions depend only on the request, not on the existence of objects. No user or group
// is special: "system:masters" needs grants as well.
//
// The zero Grants denies everything. All methods are safe for concurrent use. The cost of a
// decision, a few map look-ups for each group of the user, does not depend on the number of
// grants. A Grants must not be copied.
type Grants struct {
	table atomic.Pointer[table]
}

// New returns an authorizer with a copy of the list. The error is a [*namespace.Error] of kind
// [namespace.ErrInvalid] that names every invalid entry.
func New(list []Grant) (*Grants, error) {
	g := &Grants{}
	if err := g.Replace(list); err != nil {
		return nil, err
	}
	return g, nil
}

// Replace replaces the list atomically. If the new list is invalid (see [New]), it changes
// nothing.
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

// table is a list of grants, indexed by subject.
type table struct {
	users  map[string]*allowance
	groups map[string]*allowance
}

// allowance has all grants to one user or group.
type allowance struct {
	cluster    ruleset
	namespaces map[string]ruleset
	paths      map[string]struct{} // exact
	prefixes   []string            // without their "*"
}

// ruleset is a set of pairs of verb and resource, as grants write them.
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

// allows reports whether an allowance of the user or its groups covers the request.
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

// allowsGroups is allows for the groups of the user, except one.
func (t *table) allowsGroups(a Attributes, q *question, except string) bool {
	for _, group := range a.User.Groups {
		if group != except && q.answeredBy(t.groups[group]) {
			return true
		}
	}
	return false
}

// question is a request in terms of rules.
type question struct {
	verb, namespace, path string
	resources             [3]string // names that rules use, besides "*"; none: a path
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

// reads reports whether the verb reads a path.
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

var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", Any}

// Parse decodes a list of grants from JSON or YAML: `{"grants": [...]}`. Unknown and duplicate
// fields are errors. [New] and [Grants.Replace] check the grants. The error is a
// [*namespace.Error] of kind [namespace.ErrInvalid].
func Parse(text []byte) ([]Grant, error) {
	if !utf8.Valid(text) {
		return nil, refuse(nil, "the grants are not valid UTF-8")
	}
	var document struct {
		Grants []Grant `json:"grants"`
	}
	if err := yaml.UnmarshalStrict(text, &document); err != nil {
		return nil, refuse(err, "the grants cannot be read: %v", err)
	}
	return document.Grants, nil
}

func refuse(cause error, format string, args ...any) *namespace.Error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "authorization: " + fmt.Sprintf(format, args...), Err: cause}
}

// faults are the mistakes in a list of grants.
type faults []namespace.Violation

func (f *faults) add(field, format string, args ...any) {
	if len(*f) < 100 {
		*f = append(*f, namespace.Violation{Type: namespace.FieldInvalid, Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// check rejects a list with a mistake, and names each one.
func check(list []Grant) error {
	var f faults
	for i, g := range list {
		g.check(fmt.Sprintf("grants[%d]", i), &f)
	}
	if len(f) == 0 {
		return nil
	}
	lines := make([]string, len(f))
	for i, v := range f {
		lines[i] = v.Field + ": " + v.Message
	}
	err := refuse(nil, "%s", strings.Join(lines, "; "))
	err.Causes = f
	return err
}

func (g Grant) check(at string, f *faults) {
	if len(g.Users)+len(g.Groups) == 0 {
		f.add(at, "must name users or groups")
	}
	if len(g.Rules)+len(g.Paths) == 0 {
		f.add(at, "must have rules or paths, it allows nothing")
	}
	if anywhere := g.Cluster || len(g.Namespaces) > 0; anywhere != (len(g.Rules) > 0) {
		f.add(at, "rules, and where they hold (namespaces, or cluster: true), must be given together")
	}
	checkSubjects(at+".users", g.Users, f)
	checkSubjects(at+".groups", g.Groups, f)
	if slices.Contains(g.Groups, Any) {
		f.add(at+".groups", "must not be %q: all users are users: [%q]", Any, Any)
	}
	for i, ns := range g.Namespaces {
		if wrong := namespace.ValidateName(ns); len(wrong) > 0 {
			f.add(fmt.Sprintf("%s.namespaces[%d]", at, i), "%q: %s (all of them is cluster: true)", excerpt(ns), strings.Join(wrong, ", "))
		}
	}
	for i, r := range g.Rules {
		r.check(fmt.Sprintf("%s.rules[%d]", at, i), f)
	}
	for i, path := range g.Paths {
		if wrong := pathFault(path); wrong != "" {
			f.add(fmt.Sprintf("%s.paths[%d]", at, i), "%q: %s", excerpt(path), wrong)
		}
	}
}

func checkSubjects(at string, names []string, f *faults) {
	for i, name := range names {
		if wrong := textFault(name); wrong != "" {
			f.add(fmt.Sprintf("%s[%d]", at, i), "%q: %s", excerpt(name), wrong)
		}
	}
}

func (r Rule) check(at string, f *faults) {
	if len(r.Verbs) == 0 || len(r.Resources) == 0 {
		f.add(at, "must have verbs and resources")
	}
	for i, verb := range r.Verbs {
		if !slices.Contains(verbs, verb) {
			f.add(fmt.Sprintf("%s.verbs[%d]", at, i), "%q: must be one of %s", excerpt(verb), strings.Join(verbs, ", "))
		}
	}
	for i, resource := range r.Resources {
		if wrong := resourceFault(resource); wrong != "" {
			f.add(fmt.Sprintf("%s.resources[%d]", at, i), "%q: %s", excerpt(resource), wrong)
		}
	}
}

// textFault returns why a text cannot be a name, or "".
func textFault(name string) string {
	if name == "" {
		return "must not be empty"
	}
	if !utf8.ValidString(name) {
		return "must be valid UTF-8"
	}
	return ""
}

func resourceFault(text string) string {
	if wrong := textFault(text); wrong != "" || text == Any {
		return wrong
	}
	resource, sub, divided := strings.Cut(text, "/")
	if group, ok := strings.CutPrefix(resource, "*."); ok {
		if divided || !isDotted(group) {
			return "must be a group after \"*.\", such as *.example.com"
		}
		return ""
	}
	if divided && (strings.Contains(sub, ".") || !isDotted(sub)) {
		return "must be a sub-resource in lower case after \"/\", such as namespaces/finalize"
	}
	if resource == Any && divided || isDotted(resource) {
		return ""
	}
	return "must be a resource in lower case, such as configmaps, widgets.example.com, */status or *"
}

// isDotted reports whether text consists of names of lower case letters, digits and '-',
// separated by dots.
func isDotted(text string) bool {
	for _, part := range strings.Split(text, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

func pathFault(path string) string {
	if wrong := textFault(path); wrong != "" || path == Any {
		return wrong
	}
	if !strings.HasPrefix(path, "/") {
		return "must begin with /, or be *"
	}
	if strings.Contains(strings.TrimSuffix(path, Any), Any) {
		return "may have a * at its end only"
	}
	return ""
}

// excerpt shortens text from hosts and clients for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }
