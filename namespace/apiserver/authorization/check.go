package authorization

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
)

const (
	maxText  = 4 << 20 // bytes of a list of grants in text
	maxField = 1 << 10 // bytes of a name in it
	maxPairs = 1 << 20 // what a list may come to: subjects x namespaces x verbs x resources
)

var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", Any}

// Parse reads a list of grants from JSON or YAML: `{"grants": [...]}`. Unknown and
// repeated fields are refused. The grants themselves are checked by [New] and
// [Grants.Replace]. The error is a [*namespace.Error] of kind
// [namespace.ErrInvalid].
func Parse(text []byte) ([]Grant, error) {
	if len(text) > maxText {
		return nil, refuse(nil, "the grants have %d bytes, at most %d are allowed", len(text), maxText)
	}
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

// faults collects what is wrong with a list of grants.
type faults []namespace.Violation

func (f *faults) add(field, format string, args ...any) {
	if len(*f) < 100 { // enough to mend
		*f = append(*f, namespace.Violation{Type: namespace.FieldInvalid, Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// check refuses a list that cannot mean what its writer wants.
func check(list []Grant) error {
	var f faults
	pairs := 0
	for i, g := range list {
		g.check(fmt.Sprintf("grants[%d]", i), &f)
		if pairs += g.size(); pairs > maxPairs {
			return refuse(nil, "grants[%d]: the grants come to more than %d combinations of subject, namespace, verb and resource", i, maxPairs)
		}
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
		f.add(at+".groups", "must not be %q: everybody is users: [%q]", Any, Any)
	}
	for i, ns := range g.Namespaces {
		if wrong := namespace.ValidateName(ns); len(wrong) > 0 {
			f.add(fmt.Sprintf("%s.namespaces[%d]", at, i), "%q: %s (all of them is cluster: true)", excerpt.Of(ns), strings.Join(wrong, ", "))
		}
	}
	for i, r := range g.Rules {
		r.check(fmt.Sprintf("%s.rules[%d]", at, i), f)
	}
	for i, path := range g.Paths {
		if wrong := pathFault(path); wrong != "" {
			f.add(fmt.Sprintf("%s.paths[%d]", at, i), "%q: %s", excerpt.Of(path), wrong)
		}
	}
}

// size returns how many pairs g puts into a table.
func (g Grant) size() int {
	places := len(g.Namespaces)
	if g.Cluster {
		places++
	}
	each := len(g.Paths)
	for _, r := range g.Rules {
		each += min(len(r.Verbs), maxPairs) * min(len(r.Resources), maxPairs) * min(places, maxPairs)
	}
	return min(len(g.Users)+len(g.Groups), maxPairs) * each
}

func checkSubjects(at string, names []string, f *faults) {
	for i, name := range names {
		if wrong := textFault(name); wrong != "" {
			f.add(fmt.Sprintf("%s[%d]", at, i), "%q: %s", excerpt.Of(name), wrong)
		}
	}
}

func (r Rule) check(at string, f *faults) {
	if len(r.Verbs) == 0 || len(r.Resources) == 0 {
		f.add(at, "must have verbs and resources")
	}
	for i, verb := range r.Verbs {
		if !slices.Contains(verbs, verb) {
			f.add(fmt.Sprintf("%s.verbs[%d]", at, i), "%q: must be one of %s", excerpt.Of(verb), strings.Join(verbs, ", "))
		}
	}
	for i, resource := range r.Resources {
		if wrong := resourceFault(resource); wrong != "" {
			f.add(fmt.Sprintf("%s.resources[%d]", at, i), "%q: %s", excerpt.Of(resource), wrong)
		}
	}
}

// textFault says why no name can be so.
func textFault(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > maxField:
		return fmt.Sprintf("must be no more than %d bytes", maxField)
	case !utf8.ValidString(name):
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

// isDotted reports whether text is a name of lower case letters, digits and '-',
// with dots between.
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
