package quota

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// amounts are quantities by name. A name that is missing is zero.
type amounts map[string]resource.Quantity

func (a amounts) add(name string, q resource.Quantity) {
	sum := a[name].DeepCopy()
	sum.Add(q)
	a[name] = sum
}

func (a amounts) take(name string, q resource.Quantity) {
	difference := a[name].DeepCopy()
	difference.Sub(q)
	a[name] = difference
}

// settle drops what is zero.
func (a amounts) settle() {
	maps.DeleteFunc(a, func(_ string, q resource.Quantity) bool { return q.IsZero() })
}

// String lists the amounts as refusals do.
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

// uses returns what an object uses, and what is wrong with its quantities; those do
// not count.
func (p *plugin) uses(resource namespace.ResourceType, o *registry.Object) (amounts, []namespace.Violation) {
	a := amounts{}
	if free := p.free[resource]; o == nil || free != nil && free(*o) {
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
		wrong = append(wrong, s.into(a, document)...)
	}
	return a, wrong
}

// into adds up the quantities of a document.
func (s sum) into(a amounts, document *fieldpath.Document) (wrong []namespace.Violation) {
	found, err := document.Find(s.path)
	if err != nil {
		at, text := s.path.Top(), err.Error()
		if m := (*fieldpath.Mismatch)(nil); errors.As(err, &m) {
			at, text = m.At, "must be "+m.Want
		}
		return []namespace.Violation{{Type: namespace.FieldInvalid, Field: at, Message: "Invalid value: " + text}}
	}
	for _, f := range found {
		q, err := quantity(f.Value)
		if err != nil {
			wrong = append(wrong, wrongQuantity(f.At, f.Value, err))
			continue
		}
		a.add(s.name, q)
	}
	return wrong
}

// What a quantity, and a sum of them, must be less than. A sum is kept below its limit
// or below what there was when it was counted; with nine digits behind the point, and
// in any format, its text stays well below what clients and servers read.
var (
	tooMuch    = resource.MustParse("1e21")
	tooMuchSum = *resource.NewScaledQuantity(1, 40)
	errTooMuch = errors.New("must be less than 1e21")
)

// quantity reads a quantity that can be added up.
func quantity(value any) (resource.Quantity, error) {
	q, err := fieldpath.Quantity(value)
	if err == nil && q.Cmp(tooMuch) >= 0 {
		err = errTooMuch
	}
	return q, err
}

func wrongQuantity(at string, value any, why error) namespace.Violation {
	return namespace.Violation{
		Type: namespace.FieldInvalid, Field: at, Message: "Invalid value: " + fieldpath.Show(value) + ": " + why.Error(),
	}
}

// difference returns what a write uses more (less: negative) than there is now. An
// object with wrong quantities is refused, unless they were there before.
func (p *plugin) difference(changes []registry.ObjectChange) (amounts, error) {
	total := amounts{}
	for _, c := range changes {
		resource := c.Type.Name()
		if c.Old != nil && c.New != nil && p.unchanged(resource, c.Old, c.New) {
			continue
		}
		after, wrong := p.uses(resource, c.New)
		if len(wrong) > 0 {
			return nil, invalid(c.Type, c.New.Name, wrong)
		}
		before, _ := p.uses(resource, c.Old)
		for name, q := range after {
			total.add(name, q)
		}
		for name, q := range before {
			total.take(name, q)
		}
	}
	total.settle()
	return total, nil
}

// unchanged reports whether nothing that a sum looks at has changed.
func (p *plugin) unchanged(resource namespace.ResourceType, before, after *registry.Object) bool {
	for _, s := range p.sums[resource] {
		if string(before.Fields[s.path.Top()]) != string(after.Fields[s.path.Top()]) {
			return false
		}
	}
	return true
}

// invalid is the refusal of an object, as the registry words it.
func invalid(t registry.ResourceType, name string, wrong []namespace.Violation) error {
	kind := t.Kind
	if t.Group != "" {
		kind += "." + t.Group
	}
	return namespace.Invalid(kind, t.Name().String(), name, wrong)
}
