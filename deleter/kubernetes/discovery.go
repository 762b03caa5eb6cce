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

// scope is which types are the party's.
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
				return scope{}, fmt.Errorf("option %s[%d]: %w", list.name, i, err)
			}
			list.into[r] = true
		}
	}
	for i, group := range o.ExceptGroups {
		if err := (namespace.ResourceType{Group: group, Name: "any"}).Validate(); err != nil {
			return scope{}, fmt.Errorf("option ExceptGroups[%d]: %w", i, err)
		}
		s.exceptGroups[group] = true
	}
	for r := range s.only {
		if s.has(r) {
			return s, nil
		}
	}
	if len(s.only) > 0 {
		return scope{}, fmt.Errorf("%w option Only: Except and ExceptGroups leave none of its types", deleter.ErrInvalid)
	}
	return s, nil
}

func (s scope) has(r namespace.ResourceType) bool {
	return (len(s.only) == 0 || s.only[r]) && !s.except[r] && !s.exceptGroups[r.Group]
}

// hasGroup reports whether a type of the group may be the party's.
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

// hasName reports whether a type of that name may be the party's, whatever its group.
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

// read picks from a discovery what the party has to delete: namespaced types that
// can be deleted, sorted, each once. Failed is what may hide further ones; nil:
// nothing. An err that does not tell which groups are missing is returned: then
// anything may be.
func (s scope) read(lists []*metav1.APIResourceList, err error) (types []typeInfo, failed *deleter.DiscoveryError, _ error) {
	failed, err = s.missing(err)
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
		return nil, nil, fmt.Errorf("%w: of %d that are namespaced and can be deleted, the options Only, Except and ExceptGroups leave none",
			deleter.ErrNothingDiscovered, found)
	}
	// The first version of a type that was listed is the one; the sort keeps it first.
	slices.SortStableFunc(types, func(a, b typeInfo) int { return a.resource().Compare(b.resource()) })
	return slices.CompactFunc(types, func(a, b typeInfo) bool { return a.resource() == b.resource() }), failed, nil
}

// typeOf returns the type that r tells of, and whether it is one to be emptied.
func typeOf(gv schema.GroupVersion, r *metav1.APIResource) (typeInfo, bool) {
	t := typeInfo{gvr: gv.WithResource(r.Name), verbs: verbsOf(r.Verbs)}
	return t, r.Namespaced && !strings.Contains(r.Name, "/") && (t.verbs.has(canDelete) || t.verbs.has(canDeleteCollection))
}

// missing returns the groups of the party that err says could not be discovered, nil
// if there are none; or err, if it does not name groups.
func (s scope) missing(err error) (*deleter.DiscoveryError, error) {
	groups := groupsIn(err)
	if len(groups) == 0 {
		return nil, notJSON(err)
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
	// What Kubernetes writes into the condition.
	failed.Message = kept.Error()
	return failed, nil
}

var errNoCause = errors.New("no cause was given")

// groupsIn returns the groups that err, alone or wrapped, says have failed. Beside
// another error they would not be all that failed.
func groupsIn(err error) map[schema.GroupVersion]error {
	for ; err != nil; err = errors.Unwrap(err) {
		if failed, ok := err.(*discovery.ErrGroupDiscoveryFailed); ok && failed != nil {
			return failed.Groups
		}
	}
	return nil
}

// notJSON adds to err what it leaves to be guessed: that somebody else answered.
func notJSON(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("the answer to discovery is not JSON, check the server's address and proxies: %w", err)
	}
	return err
}

// discoveryError is a discovery that failed as a whole. Kubernetes writes such an
// error into the condition as it is.
type discoveryError struct{ error }

// Failing says that it is not about single groups, see [phase.Observation].
func (discoveryError) Failures() int { return 0 }

func (e discoveryError) Unwrap() error { return e.error }
