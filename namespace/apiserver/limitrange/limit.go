package limitrange

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/quantity"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// amounts are quantities by name.
type amounts map[string]resource.Quantity

func (a amounts) names() []string { return slices.Sorted(maps.Keys(a)) }

// limit is one item of a LimitRange.
type limit struct {
	at   string // the path of the item
	kind string
	raw  map[string]any

	min, max, fallback, fallbackRequest, ratio amounts // fallback is the field "default"
}

type limitField struct {
	name   string
	values *amounts
}

func (l *limit) fields() []limitField {
	return []limitField{
		{maxField, &l.max}, {minField, &l.min}, {defaultField, &l.fallback}, {requestField, &l.fallbackRequest}, {ratioField, &l.ratio},
	}
}

// allNames returns the names in all fields, sorted.
func (l *limit) allNames() []string {
	all := amounts{}
	for _, f := range l.fields() {
		maps.Copy(all, *f.values)
	}
	return all.names()
}

const container = string(corev1.LimitTypeContainer)

// The fields of an item.
const (
	minField     = "min"
	maxField     = "max"
	defaultField = "default"
	requestField = "defaultRequest"
	ratioField   = "maxLimitRequestRatio"
)

var limitsPath, _ = fieldpath.Parse("spec.limits[*]")

// read returns the completed limits of a LimitRange and the violations in its spec.
func read(document *fieldpath.Document) ([]limit, []namespace.Violation) {
	found, err := document.Find(limitsPath)
	if err != nil {
		return nil, []namespace.Violation{violation("spec.limits", "", "must be a list of objects")}
	}
	var limits []limit
	var wrong []namespace.Violation
	for _, f := range found {
		item, ok := f.Value.(map[string]any)
		if !ok {
			wrong = append(wrong, violation(f.At, "", "must be an object"))
			continue
		}
		l := limit{at: f.At, raw: item}
		l.kind, _ = item["type"].(string)
		for _, field := range l.fields() {
			var faults []namespace.Violation
			*field.values, faults = quantities(item[field.name], f.At+"."+field.name)
			wrong = append(wrong, faults...)
		}
		l.complete()
		limits = append(limits, l)
	}
	return limits, wrong
}

// quantities reads an object of quantities.
func quantities(value any, at string) (amounts, []namespace.Violation) {
	if value == nil {
		return amounts{}, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return amounts{}, []namespace.Violation{violation(at, "", "must be an object")}
	}
	out := make(amounts, len(object))
	var wrong []namespace.Violation
	for _, name := range slices.Sorted(maps.Keys(object)) {
		q, err := quantity.Parse(object[name])
		if err != nil {
			wrong = append(wrong, violation(at+"["+excerpt(name)+"]", fieldpath.Show(object[name]), err.Error()))
			continue
		}
		out[name] = q
	}
	return out, wrong
}

// violation returns an invalid field. If shown is not empty, the message includes it unquoted.
func violation(field, shown, text string) namespace.Violation {
	if shown != "" {
		text = shown + ": " + text
	}
	return namespace.Violation{Type: namespace.FieldInvalid, Field: field, Message: "Invalid value: " + text}
}

// complete sets the missing defaults of a Container limit: a default limit is the maximum, a
// default request is the default limit or, without one, the minimum.
func (l *limit) complete() {
	if l.kind != container {
		return
	}
	fill(l.fallback, l.max)
	fill(l.fallbackRequest, l.fallback)
	fill(l.fallbackRequest, l.min)
}

func fill(into, from amounts) {
	for name, q := range from {
		if _, ok := into[name]; !ok {
			into[name] = q
		}
	}
}

// store writes the defaults set by complete into the document.
func (l *limit) store() {
	if l.kind != container {
		return
	}
	put(l.raw, defaultField, l.fallback)
	put(l.raw, requestField, l.fallbackRequest)
}

// put adds missing quantities to the object in a field.
func put(into map[string]any, field string, values amounts) {
	object, ok := into[field].(map[string]any)
	if !ok {
		if len(values) == 0 {
			return
		}
		object = map[string]any{}
		into[field] = object
	}
	for name, q := range values {
		if object[name] == nil {
			object[name] = q.String()
		}
	}
}

// admitLimitRange checks and completes a LimitRange.
func admitLimitRange(c *registry.ObjectChange) error {
	if c.Old != nil && string(c.Old.Fields["spec"]) == string(c.New.Fields["spec"]) {
		return nil
	}
	document := fieldpath.Of(c.New.Fields)
	limits, wrong := read(document)
	wrong = append(wrong, validate(limits)...)
	if len(wrong) > 0 {
		return c.Type.Invalid(c.New.Name, wrong)
	}
	for i := range limits {
		limits[i].store()
	}
	return encode(c.New, document, limitsPath.Top())
}

// encode writes a top-level field of the document back into its object.
func encode(o *registry.Object, document *fieldpath.Document, top string) error {
	raw, err := document.Encode(top)
	if err != nil || raw == nil {
		return err
	}
	if o.Fields = maps.Clone(o.Fields); o.Fields == nil {
		o.Fields = map[string]json.RawMessage{}
	}
	o.Fields[top] = raw
	return nil
}
