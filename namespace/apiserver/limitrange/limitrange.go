// Package limitrange bounds the resources that one object of a namespace may request (design
// document, "Limit Resource Consumption"). The host serves LimitRange objects as the resource type
// "limitranges". They hold minima, maxima and defaults for container-like items and for whole
// objects.
//
//	bounded, err := limitrange.New(limitrange.Pods(), limitrange.Rule{
//		Resource: namespace.ResourceType{Group: "example.com", Name: "widgets"},
//		Items:    []string{"spec.parts[*]"},
//	})
//	r, err := registry.New(s, &registry.Options{Types: types, Admission: []registry.Admission{bounded}})
//
// A [Rule] declares the paths of resources in objects of one type. Resources are an object with
// the fields requests and limits, as in a Pod's containers: each maps names to quantities.
//
// Checks and texts are Kubernetes', with two differences: the plug-in compares quantities exactly,
// and lists the violations of all LimitRanges in one refusal, up to 100.
//
// An item of a LimitRange may name 100 resources. The items of an object times the quantities of
// Container limits must not exceed 10,000. Otherwise the plug-in refuses the object with
// [namespace.ErrForbidden].
//
// The plug-in checks a write against the LimitRanges that exist when it reads them. A LimitRange
// created concurrently may not apply yet. A new LimitRange does not affect existing objects, which
// can be updated as long as their resources do not change.
package limitrange

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Resource is the type of LimitRanges. A registry with the plug-in must declare it.
var Resource = namespace.ResourceType{Name: "limitranges"}

// Rule declares the paths of resources in objects of one type. A path is field names separated by
// dots, with [*] for every element of a list and ['a.b'] for a name that contains dots.
type Rule struct {
	Resource namespace.ResourceType
	// Items are the paths of container-like items, such as "spec.containers[*]". Each item is an
	// object with a field resources. Limits of the type Container apply to each item, and set its
	// defaults when the object is created.
	Items []string
	// Init are the paths of items that run alone before Items. Only the greatest init item counts
	// in the object's total, and only if it is greater than the sum of Items.
	Init []string
	// Resources is the path of the object's own resources, such as "spec.resources".
	Resources string
	// Type selects the limits that apply to the whole object, such as "Pod",
	// "PersistentVolumeClaim" or "example.com/Widget". They apply to Resources or, if that is
	// empty, to the total of the items. If Type is empty, no limits apply to the whole object.
	// Resources requires a Type.
	Type corev1.LimitType
}

// Pods returns the rule for Kubernetes' Pods.
func Pods() Rule {
	return Rule{
		Resource: namespace.ResourceType{Name: "pods"},
		Items:    []string{"spec.containers[*]"}, Init: []string{"spec.initContainers[*]"},
		Type: corev1.LimitTypePod,
	}
}

// PersistentVolumeClaims returns the rule for Kubernetes' PersistentVolumeClaims.
func PersistentVolumeClaims() Rule {
	return Rule{
		Resource:  namespace.ResourceType{Name: "persistentvolumeclaims"},
		Resources: "spec.resources", Type: corev1.LimitTypePersistentVolumeClaim,
	}
}

// paths is a parsed Rule.
type paths struct {
	items, init []fieldpath.Path
	resources   fieldpath.Path
	kind        string
}

type plugin struct {
	rules map[namespace.ResourceType]paths
}

var _ registry.Admission = (*plugin)(nil)

// New returns an admission plug-in that enforces the LimitRanges of a namespace on objects of the
// rules' types. It sets defaults in new objects. If a new object or changed resources violate a
// limit, it refuses the write with [namespace.ErrForbidden]. It also completes LimitRanges as
// Kubernetes does, and refuses malformed ones with [namespace.ErrInvalid]. Place it before plug-ins
// that count the defaults, such as quotas.
func New(rules ...Rule) (registry.Admission, error) {
	p := &plugin{rules: map[namespace.ResourceType]paths{}}
	for _, rule := range rules {
		if err := rule.Resource.Validate(); err != nil {
			return nil, fmt.Errorf("limitrange: Rule.Resource: %w", err)
		}
		if _, twice := p.rules[rule.Resource]; twice {
			return nil, fmt.Errorf("limitrange: there are two rules for %s", rule.Resource)
		}
		parsed, err := rule.parse()
		if err != nil {
			return nil, fmt.Errorf("limitrange: the rule for %s: %w", rule.Resource, err)
		}
		p.rules[rule.Resource] = parsed
	}
	return p, nil
}

func (r Rule) parse() (out paths, err error) {
	if out.items, err = parseAll(r.Items); err != nil {
		return out, err
	}
	if out.init, err = parseAll(r.Init); err != nil {
		return out, err
	}
	if r.Resources != "" {
		if out.resources, err = fieldpath.Parse(r.Resources); err != nil {
			return out, err
		}
	}
	switch {
	case len(r.Items) == 0 && r.Resources == "":
		return out, errors.New("set Items or Resources: without them the rule checks nothing")
	case r.Resources != "" && r.Type == "":
		return out, errors.New("set Type: without it no limit applies to Resources")
	case r.Type == corev1.LimitTypeContainer:
		return out, fmt.Errorf("the type of Resources must not be %s: that type applies to items", r.Type)
	case r.Type != "":
		if why := typeFault(string(r.Type)); why != "" {
			return out, fmt.Errorf("the type %q %s", excerpt(string(r.Type)), why)
		}
	}
	out.kind = string(r.Type)
	return out, nil
}

func parseAll(texts []string) ([]fieldpath.Path, error) {
	var out []fieldpath.Path
	for _, text := range texts {
		p, err := fieldpath.Parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// all returns every path of the rule.
func (p paths) all() []fieldpath.Path {
	out := slices.Concat(p.items, p.init)
	if !p.resources.IsZero() {
		out = append(out, p.resources)
	}
	return out
}

// excerpt truncates text for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }
