package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// scope selects the party's types.
type scope struct {
	only, except map[namespace.ResourceType]bool
	exceptGroups map[string]bool
}

func newScope(o *Options) (scope, error) {
	s := scope{only: map[namespace.ResourceType]bool{}, except: map[namespace.ResourceType]bool{}, exceptGroups: map[string]bool{}}
	for _, list := range []struct {
		name  string
		types []namespace.ResourceType
		into  map[namespace.ResourceType]bool
	}{{"Only", o.Only, s.only}, {"Except", o.Except, s.except}} {
		for i, r := range list.types {
			if err := r.Validate(); err != nil {
				return scope{}, fmt.Errorf("%w: Options.%s[%d]: %w", deleter.ErrInvalid, list.name, i, err)
			}
			list.into[r] = true
		}
	}
	for i, group := range o.ExceptGroups {
		if err := (namespace.ResourceType{Group: group, Name: "any"}).Validate(); err != nil {
			return scope{}, fmt.Errorf("%w: Options.ExceptGroups[%d]: %w", deleter.ErrInvalid, i, err)
		}
		s.exceptGroups[group] = true
	}
	for r := range s.only {
		if s.has(r) {
			return s, nil
		}
	}
	if len(s.only) > 0 {
		return scope{}, fmt.Errorf("%w: Options.Only: Except and ExceptGroups exclude all its types", deleter.ErrInvalid)
	}
	return s, nil
}

func (s scope) has(r namespace.ResourceType) bool {
	return (len(s.only) == 0 || s.only[r]) && !s.except[r] && !s.exceptGroups[r.Group]
}

// hasGroup reports whether the group may have a type of the party.
func (s scope) hasGroup(group string) bool {
	if len(s.only) == 0 {
		return !s.exceptGroups[group]
	}
	for r := range s.only {
		if r.Group == group && s.has(r) {
			return true
		}
	}
	return false
}

// hasName reports whether a type of this name, in any group, may be the party's.
func (s scope) hasName(name string) bool {
	if len(s.only) == 0 {
		return true
	}
	for r := range s.only {
		if r.Name == name && s.has(r) {
			return true
		}
	}
	return false
}

// read returns the types in a discovery that the party must delete: namespaced types with a verb
// that deletes, sorted and unique. failed lists failures that may hide types. If err does not name
// groups, read returns it, since any type may be missing.
func (s scope) read(lists []*metav1.APIResourceList, err error) (types []typeInfo, failed *deleter.DiscoveryError, _ error) {
	failed, err = s.failedGroups(err)
	if err != nil {
		return nil, nil, err
	}
	found := 0
	var unreadable []error
	for _, list := range lists {
		if list == nil {
			continue
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		matters := false
		for i := range list.APIResources {
			t, ok := typeOf(gv, &list.APIResources[i])
			if !ok {
				continue
			}
			found++
			if err != nil {
				matters = matters || s.hasName(t.gvr.Resource)
			} else if s.has(t.resource()) {
				types = append(types, t)
			}
		}
		if matters {
			unreadable = append(unreadable, err)
		}
	}
	if len(unreadable) > 0 {
		if failed == nil {
			failed = &deleter.DiscoveryError{}
		}
		failed.Parsing = unreadable
	}
	if len(types) == 0 && failed == nil {
		return nil, nil, fmt.Errorf("%w: the options Only, Except and ExceptGroups exclude all %d deletable namespaced types",
			deleter.ErrNothingDiscovered, found)
	}
	// The first listed version of a type counts. The stable sort keeps it first.
	slices.SortStableFunc(types, func(a, b typeInfo) int { return a.resource().Compare(b.resource()) })
	return slices.CompactFunc(types, func(a, b typeInfo) bool { return a.resource() == b.resource() }), failed, nil
}

// typeOf returns the type of r, and whether the party could delete its objects.
func typeOf(gv schema.GroupVersion, r *metav1.APIResource) (typeInfo, bool) {
	t := typeInfo{gvr: gv.WithResource(r.Name), verbs: verbsOf(r.Verbs)}
	return t, r.Namespaced && !strings.Contains(r.Name, "/") && (t.verbs.has(canDelete) || t.verbs.has(canDeleteCollection))
}

// failedGroups returns the party's groups that err names, nil if there are none. It returns err if
// that does not name groups.
func (s scope) failedGroups(err error) (*deleter.DiscoveryError, error) {
	groups := groupsIn(err)
	if len(groups) == 0 {
		return nil, explainSyntax(err)
	}
	kept := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{}}
	failed := &deleter.DiscoveryError{}
	for gv, cause := range groups {
		if !s.hasGroup(gv.Group) {
			continue
		}
		kept.Groups[gv] = cause
		if cause == nil {
			cause = errNoCause
		}
		failed.Groups = append(failed.Groups, deleter.GroupError{Group: gv.Group, Err: fmt.Errorf("version %s: %w", gv.Version, cause)})
	}
	if len(failed.Groups) == 0 {
		return nil, nil
	}
	slices.SortFunc(failed.Groups, func(a, b deleter.GroupError) int { return strings.Compare(a.Error(), b.Error()) })
	// The text of Kubernetes' condition.
	failed.Message = kept.Error()
	return failed, nil
}

var errNoCause = errors.New("unknown cause")

// groupsIn returns the failed groups in err or an error that it wraps. It ignores joined errors,
// whose other parts could be further failures.
func groupsIn(err error) map[schema.GroupVersion]error {
	for ; err != nil; err = errors.Unwrap(err) {
		if failed, ok := err.(*discovery.ErrGroupDiscoveryFailed); ok && failed != nil {
			return failed.Groups
		}
	}
	return nil
}

// explainSyntax adds advice to a JSON syntax error, which a proxy or a wrong address causes.
func explainSyntax(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("the response to discovery is not JSON, check the server's address and proxies: %w", err)
	}
	return err
}

// discoveryError is a discovery that failed completely. Kubernetes writes its text into the
// condition unchanged.
type discoveryError struct{ error }

// Failures returns 0: the error is not about single groups. See [phase.Observation].
func (discoveryError) Failures() int { return 0 }

func (e discoveryError) Unwrap() error { return e.error }

// typeInfo is a resource type in its preferred version.
type typeInfo struct {
	gvr   schema.GroupVersionResource
	verbs verbs
}

func (t typeInfo) resource() namespace.ResourceType {
	return namespace.ResourceType{Group: t.gvr.Group, Name: t.gvr.Resource}
}

// verbs are the relevant verbs of a type.
type verbs uint8

const (
	canList verbs = 1 << iota
	canDelete
	canDeleteCollection
	canWatch
)

// verbsOf returns the verbs named in discovery.
func verbsOf(names []string) verbs {
	var v verbs
	for _, name := range names {
		switch name {
		case "list":
			v |= canList
		case "delete":
			v |= canDelete
		case "deletecollection":
			v |= canDeleteCollection
		case "watch":
			v |= canWatch
		}
	}
	return v
}

func (v verbs) has(w verbs) bool { return v&w == w }
