package quota

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/quantity"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// state is the content of a quota.
type state struct {
	hard amounts
	used amounts // the counted figures of names in hard
}

// read returns the state of a quota and the violations in its spec. It omits impossible figures in
// the status, so that they are counted again.
func (p *plugin) read(o *registry.Object) (state, []namespace.Violation) {
	document := fieldpath.Of(o.Fields)
	s := state{used: amounts{}}
	hard, wrong := section(document, hardPath)
	s.hard, wrong = p.limits(hard, wrong)
	wrong = append(wrong, scopes(document)...)
	used, faults := section(document, usedPath)
	if len(faults) > 0 {
		return s, wrong
	}
	for name, value := range used {
		q, err := quantity.Parse(value)
		_, limited := s.hard[name]
		if err == nil && limited && q.Cmp(tooMuchSum) < 0 && (!isCount(name) || whole(q)) {
			s.used[name] = q
		}
	}
	return s, wrong
}

// limits reads spec.hard.
func (p *plugin) limits(hard map[string]any, wrong []namespace.Violation) (amounts, []namespace.Violation) {
	out := make(amounts, len(hard))
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		at := "spec.hard[" + excerpt(name) + "]"
		if why := p.nameProblem(name); why != "" {
			wrong = append(wrong, namespace.InvalidField(at, name, why))
			continue
		}
		q, err := parseQuantity(hard[name])
		switch {
		case err != nil:
			wrong = append(wrong, invalidQuantity(at, hard[name], err))
		case isCount(name) && !whole(q):
			wrong = append(wrong, invalidQuantity(at, hard[name], errNotWhole))
		default:
			out[name] = q
		}
	}
	return out, wrong
}

// nameProblem explains why a quota cannot limit a name. It returns "" if it can.
func (p *plugin) nameProblem(name string) string {
	if why := nameFault(name); why != "" {
		return why
	}
	switch _, known := p.types[name]; {
	case known, p.anyName:
		return ""
	case strings.HasPrefix(name, countPrefix):
		if err := countedType(name).Validate(); err != nil {
			return "must be count/<resource> or count/<resource>.<group>"
		}
		return ""
	case isCount(name):
		return ""
	case strings.Contains(name, "/"):
		return "is not counted: the service has no rule for it"
	}
	return "must be a standard resource for quota: the service has no rule for it"
}

func whole(q resource.Quantity) bool {
	rounded := q.DeepCopy()
	return rounded.RoundUp(0)
}

// scopes refuses scopes: a quota counts all objects.
func scopes(document *fieldpath.Document) (wrong []namespace.Violation) {
	for _, path := range []fieldpath.Path{scopesPath, selectorPath} {
		found, err := document.Find(path)
		if err != nil || len(found) == 0 {
			continue
		}
		if list, ok := found[0].Value.([]any); ok && len(list) == 0 {
			continue
		}
		wrong = append(wrong, namespace.ForbiddenField(path.String(), "scopes are not supported: a quota counts all objects of its namespace"))
	}
	return wrong
}

// section returns the map of quantities at a path.
func section(document *fieldpath.Document, path fieldpath.Path) (map[string]any, []namespace.Violation) {
	found, err := document.Find(path)
	switch {
	case err != nil:
		return nil, []namespace.Violation{invalidField(path.String(), err.Error())}
	case len(found) == 0:
		return nil, nil
	}
	values, ok := found[0].Value.(map[string]any)
	if !ok {
		return nil, []namespace.Violation{invalidField(path.String(), "must be an object")}
	}
	return values, nil
}

var (
	hardPath, _     = fieldpath.Parse("spec.hard")
	usedPath, _     = fieldpath.Parse("status.used")
	scopesPath, _   = fieldpath.Parse("spec.scopes")
	selectorPath, _ = fieldpath.Parse("spec.scopeSelector")
)

// store writes the state into the status of a quota. Equal states have equal bytes.
func (s state) store(o *registry.Object) error {
	status := struct {
		Hard map[string]string `json:"hard,omitempty"`
		Used map[string]string `json:"used,omitempty"`
	}{texts(s.hard, s.hard), texts(s.used, s.hard)}
	raw, err := json.Marshal(status)
	if err != nil {
		return err
	}
	if bytes.Equal(raw, o.Fields["status"]) {
		return nil
	}
	if o.Fields = maps.Clone(o.Fields); o.Fields == nil {
		o.Fields = map[string]json.RawMessage{}
	}
	o.Fields["status"] = raw
	return nil
}

// texts formats quantities in the format of their limit.
func texts(a, hard amounts) map[string]string {
	out := make(map[string]string, len(a))
	for name, q := range a {
		q = resource.NewQuantity(0, hard[name].Format).DeepCopy()
		q.Add(a[name])
		q.Format = hard[name].Format
		out[name] = q.String()
	}
	return out
}
