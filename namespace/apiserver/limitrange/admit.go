package limitrange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// annotation lists the defaults that the plug-in set, as in Kubernetes.
const annotation = "kubernetes.io/limit-ranger"

// Admit implements [registry.Admission].
func (p *plugin) Admit(ctx context.Context, w *registry.Write) error {
	if w.Namespace == "" {
		return nil
	}
	for i := range w.Objects {
		c := &w.Objects[i]
		if c.New == nil || c.Verb != registry.Create && c.Verb != registry.Update {
			continue
		}
		if c.Type.Name() == Resource {
			if err := admitLimitRange(c); err != nil {
				return err
			}
			continue
		}
		rule, ok := p.rules[c.Type.Name()]
		if !ok || !c.New.DeletionTimestamp.IsZero() || rule.unchanged(c) {
			continue
		}
		if err := rule.admit(ctx, w, c); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports whether an update changes no top-level field that the rule reads.
func (p paths) unchanged(c *registry.ObjectChange) bool {
	if c.Old == nil {
		return false
	}
	return !slices.ContainsFunc(p.all(), func(path fieldpath.Path) bool {
		return string(c.Old.Fields[path.Top()]) != string(c.New.Fields[path.Top()])
	})
}

// admit sets an object's defaults and checks it against the limits of its namespace.
func (p paths) admit(ctx context.Context, w *registry.Write, c *registry.ObjectChange) error {
	limits, err := listLimits(ctx, w)
	if err != nil || len(limits) == 0 {
		return err
	}
	document := fieldpath.Of(c.New.Fields)
	o, wrong := p.resourcesOf(document)
	if text := tooManyPairs(len(o.items), limits); text != "" {
		return forbidden(c, text)
	}
	if c.Verb == registry.Create && len(wrong) == 0 {
		if err := o.setDefaults(c.New, document, limits); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return c.Type.Invalid(c.New.Name, wrong)
	}
	if found := p.check(o, limits); len(found.texts) > 0 {
		return forbidden(c, found.String())
	}
	return nil
}

func forbidden(c *registry.ObjectChange, text string) error {
	resource := c.Type.Name().String()
	return &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: resource, Name: c.New.Name,
		Message: fmt.Sprintf("%s %q is forbidden: %s", resource, c.New.Name, text),
	}
}

// listLimits returns the limits of the namespace, ordered by LimitRange name. It skips invalid
// parts of LimitRanges that bypassed the plug-in.
func listLimits(ctx context.Context, w *registry.Write) ([]limit, error) {
	objects, err := w.List(ctx, Resource)
	if err != nil {
		return nil, err
	}
	var all []limit
	for _, o := range objects {
		limits, _ := read(fieldpath.Of(o.Fields))
		all = append(all, limits...)
	}
	return all, nil
}

// resources are the requests and limits of one item or of the whole object.
type resources struct {
	at               string         // the path of the item, or of the object's own resources
	item             map[string]any // has the field resources; nil for the object's own
	init             bool
	requests, limits amounts
}

// object has the resources of one object.
type object struct {
	items []resources
	own   *resources // nil if the rule has no path for them
}

// resourcesOf reads the resources at the rule's paths.
func (p paths) resourcesOf(document *fieldpath.Document) (o object, wrong []namespace.Violation) {
	for _, group := range []struct {
		paths []fieldpath.Path
		init  bool
	}{{p.items, false}, {p.init, true}} {
		for _, path := range group.paths {
			found, err := document.Find(path)
			wrong = append(wrong, mismatch(path, err)...)
			for _, f := range found {
				item, ok := f.Value.(map[string]any)
				if !ok {
					wrong = append(wrong, violation(f.At, "", "must be an object"))
					continue
				}
				r := resources{at: f.At, item: item, init: group.init}
				wrong = append(wrong, r.read(item["resources"], f.At+".resources")...)
				fill(r.requests, r.limits) // as in Kubernetes, a request defaults to the limit
				o.items = append(o.items, r)
			}
		}
	}
	found, err := document.Find(p.resources)
	wrong = append(wrong, mismatch(p.resources, err)...)
	if !p.resources.IsZero() {
		o.own = &resources{at: p.resources.String(), requests: amounts{}, limits: amounts{}}
	}
	for _, f := range found {
		wrong = append(wrong, o.own.read(f.Value, f.At)...)
	}
	return o, wrong
}

func mismatch(path fieldpath.Path, err error) []namespace.Violation {
	var m *fieldpath.Mismatch
	switch {
	case err == nil:
		return nil
	case errors.As(err, &m):
		return []namespace.Violation{violation(m.At, "", "must be "+m.Want)}
	}
	return []namespace.Violation{violation(path.Top(), "", err.Error())}
}

func (r *resources) read(value any, at string) (wrong []namespace.Violation) {
	r.requests, r.limits = amounts{}, amounts{}
	if value == nil {
		return nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return []namespace.Violation{violation(at, "", "must be an object")}
	}
	var more []namespace.Violation
	r.limits, wrong = quantities(fields["limits"], at+".limits")
	r.requests, more = quantities(fields["requests"], at+".requests")
	return append(wrong, more...)
}

// setDefaults sets the defaults of Container limits in every item, and the annotation.
func (o *object) setDefaults(into *registry.Object, document *fieldpath.Document, limits []limit) error {
	requests, maxima := amounts{}, amounts{}
	found := false
	for _, l := range limits {
		if l.kind == container { // the first LimitRange by name wins
			found = true
			fill(requests, l.fallbackRequest)
			fill(maxima, l.fallback)
		}
	}
	if !found {
		return nil
	}
	var n note
	for i := range o.items {
		o.items[i].setDefaults(requests, maxima, &n)
	}
	tops := map[string]bool{}
	for _, r := range o.items {
		top, _, _ := strings.Cut(r.at, ".")
		top, _, _ = strings.Cut(top, "[")
		if tops[top] {
			continue
		}
		tops[top] = true
		if err := encode(into, document, top); err != nil {
			return err
		}
	}
	if text := n.String(); text != "" {
		if into.Annotations == nil {
			into.Annotations = map[string]string{}
		}
		into.Annotations[annotation] = "LimitRanger plugin set: " + text
	}
	return nil
}

// setDefaults sets the defaults of one item and adds their names to n, in Kubernetes' words.
func (r *resources) setDefaults(requests, maxima amounts, n *note) {
	set := func(into, from amounts) (names []string) {
		for _, name := range from.names() {
			if _, ok := into[name]; !ok {
				into[name] = from[name]
				names = append(names, name)
			}
		}
		return names
	}
	target := "container " + r.name()
	if r.init {
		target = "init " + target
	}
	n.add(set(r.requests, requests), " request for "+target)
	n.add(set(r.limits, maxima), " limit for "+target)
	if len(r.requests)+len(r.limits) == 0 {
		return
	}
	fields, ok := r.item["resources"].(map[string]any)
	if !ok {
		fields = map[string]any{}
		r.item["resources"] = fields
	}
	put(fields, "requests", r.requests)
	put(fields, "limits", r.limits)
}

// name returns the name of the item, or its path if it has none.
func (r *resources) name() string {
	if name, ok := r.item["name"].(string); ok && name != "" {
		return excerpt(name)
	}
	return r.at
}
