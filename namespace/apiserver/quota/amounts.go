package quota

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/quantity"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// amounts are quantities by name. A missing name means zero.
type amounts map[string]resource.Quantity

func (a amounts) add(name string, q resource.Quantity) {
	sum := a[name].DeepCopy()
	sum.Add(q)
	a[name] = sum
}

func (a amounts) subtract(name string, q resource.Quantity) {
	difference := a[name].DeepCopy()
	difference.Sub(q)
	a[name] = difference
}

func (a amounts) dropZeros() {
	maps.DeleteFunc(a, func(_ string, q resource.Quantity) bool { return q.IsZero() })
}

// String formats the amounts as in Kubernetes' refusals.
func (a amounts) String() string {
	parts := make([]string, 0, len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		q := a[name]
		parts = append(parts, name+"="+q.String())
	}
	return strings.Join(parts, ",")
}

// of returns the amounts with the given names.
func (a amounts) of(names []string) amounts {
	out := make(amounts, len(names))
	for _, name := range names {
		out[name] = a[name]
	}
	return out
}

var (
	zero resource.Quantity
	one  = *resource.NewQuantity(1, resource.DecimalSI)
)

// uses returns the amounts of an object and the violations by its quantities. Invalid quantities
// do not count.
func (p *plugin) uses(resource namespace.ResourceType, o *registry.Object) (amounts, []namespace.Violation) {
	a := amounts{}
	if uncounted := p.uncounted[resource]; o == nil || uncounted != nil && uncounted(*o) {
		return a, nil
	}
	for _, name := range countNames(resource) {
		a.add(name, one)
	}
	sums := p.sums[resource]
	if len(sums) == 0 {
		return a, nil
	}
	var wrong []namespace.Violation
	document := fieldpath.Of(o.Fields)
	for _, s := range sums {
		wrong = append(wrong, s.addTo(a, document)...)
	}
	return a, wrong
}

// addTo adds the quantities of a document to a.
func (s sum) addTo(a amounts, document *fieldpath.Document) (wrong []namespace.Violation) {
	found, err := document.Find(s.path)
	if err != nil {
		at, text := s.path.Top(), err.Error()
		if m := (*fieldpath.Mismatch)(nil); errors.As(err, &m) {
			at, text = m.At, "must be "+m.Want
		}
		return []namespace.Violation{invalidField(at, text)}
	}
	for _, f := range found {
		q, err := parseQuantity(f.Value)
		if err != nil {
			wrong = append(wrong, invalidQuantity(f.At, f.Value, err))
			continue
		}
		a.add(s.name, q)
	}
	return wrong
}

// A quantity must be less than tooMuch, and a sum less than tooMuchSum: clients can read such a sum
// in any format, even with nine decimal places.
var (
	tooMuch     = resource.MustParse("1e21")
	tooMuchSum  = *resource.NewScaledQuantity(1, 40)
	errTooMuch  = errors.New("must be less than 1e21")
	errNotWhole = errors.New("must be an integer")
)

// parseQuantity parses a quantity less than tooMuch.
func parseQuantity(value any) (resource.Quantity, error) {
	q, err := quantity.Parse(value)
	if err == nil && q.Cmp(tooMuch) >= 0 {
		err = errTooMuch
	}
	return q, err
}

func invalidQuantity(at string, value any, err error) namespace.Violation {
	return invalidField(at, fieldpath.Show(value)+": "+err.Error())
}

func invalidField(field, text string) namespace.Violation {
	return namespace.Violation{Type: namespace.FieldInvalid, Field: field, Message: "Invalid value: " + text}
}

// difference returns the amounts that a write adds. Negative amounts are freed. It refuses an object
// with invalid quantities, unless the write leaves their fields unchanged.
func (p *plugin) difference(changes []registry.ObjectChange) (amounts, error) {
	total := amounts{}
	for _, c := range changes {
		resource := c.Type.Name()
		if c.Old != nil && c.New != nil && p.unchanged(resource, c.Old, c.New) {
			continue
		}
		after, wrong := p.uses(resource, c.New)
		if len(wrong) > 0 {
			return nil, c.Type.Invalid(c.New.Name, wrong)
		}
		before, _ := p.uses(resource, c.Old)
		for name, q := range after {
			total.add(name, q)
		}
		for name, q := range before {
			total.subtract(name, q)
		}
	}
	total.dropZeros()
	return total, nil
}

// unchanged reports whether before and after are equal in all fields with sums.
func (p *plugin) unchanged(resource namespace.ResourceType, before, after *registry.Object) bool {
	for _, s := range p.sums[resource] {
		if string(before.Fields[s.path.Top()]) != string(after.Fields[s.path.Top()]) {
			return false
		}
	}
	return true
}
