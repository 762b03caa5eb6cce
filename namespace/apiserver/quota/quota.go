// Package quota limits the content of a namespace (design proposal of Kubernetes, "Limit Resource
// Consumption"). The host serves ResourceQuota objects as the resource type "resourcequotas". They
// limit the number of objects and the sums of quantities in objects.
//
//	counted, err := quota.New(quota.Rule{
//		Resource: namespace.ResourceType{Group: "example.com", Name: "widgets"},
//		Sums:     map[string]string{"example.com/size": "spec.size"},
//	})
//	r, err := registry.New(s, &registry.Options{Types: types, Admission: []registry.Admission{counted}})
//
// Limits are exact under concurrency, in any number of processes that share a store and have the
// same rules. The commit of a write also adds its amounts to the quota's status.used, on condition
// that the quota has not changed since it was read. The commit of a deletion subtracts them. So
// status.used is correct at every revision.
//
// # How it works
//
// A write that changes an amount requires the gate of its namespace, reads the quotas, and replaces
// each quota that limits the amount. A commit that creates a quota, or adds a name to one, touches
// the gate. This fails every commit that read the quotas before.
//
// The first write that needs a missing used figure counts it from a list. Concurrent writes of
// objects that count in the figure replace the same quota, so one of the two conflicts and retries.
// Until then the quota shows no such figure. [Run] counts new figures at once.
//
// Objects marked for deletion count until they are removed. A quota that is being deleted limits
// nothing. In a terminating namespace the plug-in counts nothing: nothing can be created there
// (rule R6), and no quota may keep it from becoming empty (rule R12). If a quota outlives its
// namespace because finalizers were dropped by force, creating the name again resets its figures.
//
// The plug-in does not count writes that bypass the registry, or that come from a registry without
// the plug-in or with other rules. [Recount] finds and repairs the resulting errors.
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

// Rule declares the quantities in objects of one type. Object counts need no rule: every type has
// "count/<resource>[.<group>]", and some core types have an older name too ("configmaps",
// "secrets", "services", ...).
type Rule struct {
	Resource namespace.ResourceType
	// Sums maps names that a quota may limit, such as "requests.cpu" or "example.com/size", to the
	// path of the quantities to add. A path is field names separated by dots, with [*] for every
	// element of a list and ['a.b'] for a name that contains dots:
	// "spec.containers[*].resources.requests.cpu". Types with the same name share one sum. A
	// missing quantity counts as zero. Values that are not quantities, are negative, or are 1e21
	// or more are [namespace.ErrInvalid], in objects and in limits.
	Sums map[string]string
	// Uncounted reports whether an object is exempt from quotas, for example because the
	// host writes it and not the tenant. It must decide by the name only, and exempt few
	// names, since clients choose names. If it is nil every object counts.
	Uncounted func(o registry.Object) bool
}

// sum is a name and the path of its quantities.
type sum struct {
	name string
	path fieldpath.Path
}

type plugin struct {
	sums      map[namespace.ResourceType][]sum
	types     map[string][]namespace.ResourceType // the types that share a sum
	uncounted map[namespace.ResourceType]func(registry.Object) bool
	anyName   bool // accept names without a rule
}

var _ registry.Admission = (*plugin)(nil)

// New returns an admission plug-in that counts objects and the sums of the rules, and refuses a
// write that exceeds a quota with [namespace.ErrForbidden]. Place it last: it does not count changes
// by later plug-ins. It refuses malformed quotas with [namespace.ErrInvalid] and ignores the status
// that clients send. The plug-in is stateless. It costs a write in a namespace without quotas two
// small reads.
func New(rules ...Rule) (registry.Admission, error) {
	p := &plugin{
		sums: map[namespace.ResourceType][]sum{}, types: map[string][]namespace.ResourceType{},
		uncounted: map[namespace.ResourceType]func(registry.Object) bool{},
	}
	for _, rule := range rules {
		if err := p.add(rule); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *plugin) add(rule Rule) error {
	if err := rule.Resource.Validate(); err != nil {
		return fmt.Errorf("quota: Rule.Resource: %w", err)
	}
	if _, twice := p.sums[rule.Resource]; twice {
		return fmt.Errorf("quota: there are two rules for %s: put all sums into one", rule.Resource)
	}
	if len(rule.Sums) == 0 && rule.Uncounted == nil {
		return fmt.Errorf("quota: the rule for %s: set Sums or Uncounted: object counts need no rule", rule.Resource)
	}
	var sums []sum
	for name, path := range rule.Sums {
		if why := nameFault(name); why != "" {
			return fmt.Errorf("quota: the rule for %s: name %q: %s", rule.Resource, excerpt(name), why)
		}
		if isCount(name) {
			return fmt.Errorf("quota: the rule for %s: name %q is reserved for an object count", rule.Resource, name)
		}
		parsed, err := fieldpath.Parse(path)
		if err != nil {
			return fmt.Errorf("quota: the rule for %s: %s: %w", rule.Resource, name, err)
		}
		sums = append(sums, sum{name, parsed})
		p.types[name] = append(p.types[name], rule.Resource)
	}
	slices.SortFunc(sums, func(a, b sum) int { return strings.Compare(a.name, b.name) })
	p.sums[rule.Resource], p.uncounted[rule.Resource] = sums, rule.Uncounted
	return nil
}

// excerpt truncates text for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }
