// Package quota limits how much a namespace may hold (design document, "Limit
// Resource Consumption"): ResourceQuota objects, which the host serves as the
// resource type "resourcequotas", bound the number of objects and the sums of
// quantities in them.
//
//	counted, err := quota.New(quota.Rule{
//		Resource: deleter.Resource{Group: "example.com", Name: "widgets"},
//		Sums:     map[string]string{"example.com/size": "spec.size"},
//	})
//	r, err := registry.New(s, &registry.Options{Types: types, Admission: []registry.Admission{counted}})
//
// The limits are exact, whatever runs at the same time, in any number of
// processes over one store that all have the same rules: what a write uses is
// added to the quota's status.used in the commit of the write itself, on condition
// that the quota is still the one that was looked at, and what a deletion frees is
// taken off in the commit of the deletion. So status.used is right at every revision.
//
// # How it works
//
// A write that uses or frees something holds the gate of its namespace, then reads
// the quotas, and replaces each of those that it counts in. A commit that creates a
// quota, or has one count something more, touches the gate, so that nobody commits
// who looked before there was such a quota. A figure that a quota does not have yet
// is counted by whoever needs it first, from a listing: everybody who writes
// something that belongs to the figure meanwhile replaces that quota too, and then
// one of both begins again. A quota shows no used figures until then; [Run] has new
// ones counted at once.
//
// Objects that are only marked for deletion count until they are gone. A quota that
// is being deleted itself limits nothing any more. In a terminating namespace nothing
// is counted: nothing can be created there (rule R6), and nothing may keep it from
// becoming empty (rule R12). If a quota outlives its namespace, after finalizers were
// dropped by force, its counts are reset when the name is created again.
//
// What is written past the registry, by a registry without the plug-in, or by one
// with other rules is not seen. [Recount] finds and repairs what is wrong then.
package quota

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Resource is the type of quotas. A registry with the plug-in must declare it.
var Resource = namespace.ResourceType{Name: "resourcequotas"}

// Rule says what objects of one type use beyond their number. The number itself is
// counted for every type, without a rule, as "count/<resource>[.<group>]", and for
// some core types under their old name too ("configmaps", "secrets", "services", ...).
type Rule struct {
	Resource namespace.ResourceType
	// Sums are the names that a quota may limit, such as "requests.cpu" or
	// "example.com/size", each with the path of the quantities that are added up: names
	// of fields with dots between them, [*] for every element of a list, ['a.b'] for a
	// name with dots, such as "spec.containers[*].resources.requests.cpu". Several types
	// may have the same name; they are added up then. An object without anything at the
	// path uses none; one with something else than a quantity there, a negative one, or
	// one of 1e21 and more, is refused with [namespace.ErrInvalid], as are such limits.
	Sums map[string]string
	// Uncounted reports whether an object is exempt from quotas, for example because the
	// host writes it and not the tenant. It must decide by the name only, and exempt few
	// names, since clients choose names. If it is nil every object counts.
	Uncounted func(o registry.Object) bool
}

// sum is one name with its path.
type sum struct {
	name string
	path fieldpath.Path
}

// plugin is the link of the admission chain.
type plugin struct {
	sums  map[namespace.ResourceType][]sum
	types map[string][]namespace.ResourceType // what is added up under a name
	free  map[namespace.ResourceType]func(registry.Object) bool
	any   bool // every name will do
}

var _ registry.Admission = (*plugin)(nil)

// New returns a link for the admission chain of a registry that counts what the
// rules say, and refuses what exceeds a quota with [namespace.ErrForbidden]. It
// belongs at the end of the chain: what later links change is not counted. Quotas
// themselves are checked too ([namespace.ErrInvalid]), and their status is the
// plug-in's alone: what clients send there is ignored. Rules that make no sense are
// [namespace.ErrInvalid]. The link holds no state, and costs a write in a namespace
// without quotas two small reads.
func New(rules ...Rule) (registry.Admission, error) {
	p := &plugin{sums: map[namespace.ResourceType][]sum{}, types: map[string][]namespace.ResourceType{}, free: map[namespace.ResourceType]func(registry.Object) bool{}}
	for _, rule := range rules {
		if err := p.add(rule); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *plugin) add(rule Rule) error {
	if err := rule.Resource.Validate(); err != nil {
		return wrongRule("%v", err)
	}
	if _, twice := p.sums[rule.Resource]; twice {
		return wrongRule("there are two for %s: name all sums in one", rule.Resource)
	}
	if len(rule.Sums) == 0 && rule.Uncounted == nil {
		return wrongRule("the one for %s has no sums: the number of objects is counted without a rule", rule.Resource)
	}
	var sums []sum
	for name, path := range rule.Sums {
		if why := nameFault(name); why != "" {
			return wrongRule("%s: the name %q %s", rule.Resource, excerpt(name), why)
		}
		if countName(name) {
			return wrongRule("%s: the name %q is that of a number of objects", rule.Resource, name)
		}
		parsed, err := fieldpath.Parse(path)
		if err != nil {
			return wrongRule("%s: %s: %v", rule.Resource, name, err)
		}
		sums = append(sums, sum{name, parsed})
		p.types[name] = append(p.types[name], rule.Resource)
	}
	slices.SortFunc(sums, func(a, b sum) int { return strings.Compare(a.name, b.name) })
	p.sums[rule.Resource], p.free[rule.Resource] = sums, rule.Uncounted
	return nil
}

func wrongRule(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "quota: wrong rule: " + fmt.Sprintf(format, args...)}
}

// excerpt shortens text from hosts and clients for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }
