// Package limitrange bounds what one object of a namespace may ask for (design
// document, "Limit Resource Consumption"): LimitRange objects, which the host serves
// as the resource type "limitranges", hold minima, maxima and defaults for the
// resources of container-like items and of whole objects.
//
//	bounded, err := limitrange.New(limitrange.Pods(), limitrange.Rule{
//		Resource: deleter.Resource{Group: "example.com", Name: "widgets"},
//		Items:    []string{"spec.parts[*]"},
//	})
//	r, err := registry.New(s, &registry.Options{Types: types, Admission: []registry.Admission{bounded}})
//
// It works on objects of any kind: where in them the resources are is declared by
// a [Rule]. Resources are an object with the fields requests and limits, each of
// quantities by name, as in a Pod's containers.
//
// The texts are those of Kubernetes, and so are the checks, but that quantities are
// compared exactly, and that the violations of all LimitRanges are in one answer, up
// to 100 of them.
//
// An item of a LimitRange may name 100 resources. The items of an object, times the
// quantities that LimitRanges have for each, may make 10,000; more is refused with
// [namespace.ErrForbidden].
//
// A write is held against the LimitRanges that there are when it is looked at; one
// that is created in the same moment may come too late for it. What is already there
// is not touched by a new LimitRange, and may be updated as long as its resources
// stay as they are.
package limitrange

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Resource is the type of LimitRanges. A registry with the plug-in must declare it.
var Resource = namespace.ResourceType{Name: "limitranges"}

// Rule says where objects of one type have resources. Paths are names of fields with
// dots between them, [*] for every element of a list, ['a.b'] for a name with dots.
type Rule struct {
	Resource namespace.ResourceType
	// Items are the paths of container-like items, such as "spec.containers[*]": objects
	// with a field resources. Limits of the type Container are about each of them, and
	// give them their defaults when the object is created.
	Items []string
	// Init are the paths of such items that run alone, before the others: in the total
	// of the object only the greatest of them counts, if it is greater than the sum of
	// Items.
	Init []string
	// Resources is the path of resources of the object's own, such as "spec.resources".
	Resources string
	// Type names the limits that are about the object as a whole, such as "Pod",
	// "PersistentVolumeClaim" or "example.com/Widget": about what is at Resources, or
	// without that about the total of its items. Empty: none are. Required with
	// Resources.
	Type corev1.LimitType
}

// Pods returns the rule for the Pods of Kubernetes.
func Pods() Rule {
	return Rule{
		Resource: namespace.ResourceType{Name: "pods"},
		Items:    []string{"spec.containers[*]"}, Init: []string{"spec.initContainers[*]"},
		Type: corev1.LimitTypePod,
	}
}

// PersistentVolumeClaims returns the rule for the PersistentVolumeClaims of Kubernetes.
func PersistentVolumeClaims() Rule {
	return Rule{
		Resource:  namespace.ResourceType{Name: "persistentvolumeclaims"},
		Resources: "spec.resources", Type: corev1.LimitTypePersistentVolumeClaim,
	}
}

// paths is a rule with its paths parsed.
type paths struct {
	items, init []fieldpath.Path
	resources   fieldpath.Path
	kind        string
}

type plugin struct {
	rules map[namespace.ResourceType]paths
}

var _ registry.Admission = (*plugin)(nil)

// New returns a link for the admission chain of a registry that holds objects of
// the types of the rules against the LimitRanges of their namespace: it puts
// defaults into what is created, and refuses with [namespace.ErrForbidden] what is
// created, or changed in its resources, and breaks a limit. LimitRanges themselves
// are checked ([namespace.ErrInvalid]) and completed as Kubernetes does. It belongs
// before links that count what it sets, such as quotas. Rules that make no sense are
// [namespace.ErrInvalid].
func New(rules ...Rule) (registry.Admission, error) {
	p := &plugin{rules: map[namespace.ResourceType]paths{}}
	for _, rule := range rules {
		if err := rule.Resource.Validate(); err != nil {
			return nil, wrongRule("%v", err)
		}
		if _, twice := p.rules[rule.Resource]; twice {
			return nil, wrongRule("there are two for %s", rule.Resource)
		}
		parsed, err := rule.parse()
		if err != nil {
			return nil, wrongRule("%s: %v", rule.Resource, err)
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
		return out, errors.New("it has neither Items nor Resources: nothing could be checked")
	case r.Resources != "" && r.Type == "":
		return out, errors.New("it has Resources but no Type: no limit would be about them")
	case r.Type == corev1.LimitTypeContainer:
		return out, fmt.Errorf("the Type of a whole object cannot be %s", r.Type)
	case r.Type != "":
		if why := typeFault(string(r.Type)); why != "" {
			return out, fmt.Errorf("the Type %q %s", excerpt(string(r.Type)), why)
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
	out := append(append([]fieldpath.Path{}, p.items...), p.init...)
	if !p.resources.IsZero() {
		out = append(out, p.resources)
	}
	return out
}

func wrongRule(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "limitrange: wrong rule: " + fmt.Sprintf(format, args...)}
}

// excerpt shortens text from hosts and clients for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }
