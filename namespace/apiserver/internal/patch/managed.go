package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// preserve lets a schema, and all in it, have unknown fields.
const preserve = "x-kubernetes-preserve-unknown-fields"

// manage makes the field managers of all kinds.
func (p *Patcher) manage(list []kinds.Kind, d *openapi.Documents) error {
	if !slices.ContainsFunc(list, isNamespaces) {
		list = append(slices.Clone(list), kinds.Namespaces())
	}
	schemas := p.schemas
	var err error
	if p.strict, err = managedfields.NewTypeConverter(schemas, false); err != nil {
		return fmt.Errorf("the kinds cannot have managed fields: %w", err)
	}
	// What is stored may have been valid under an earlier schema.
	stored := p.strict
	if lenient, some := leniently(schemas, list, d); some {
		if stored, err = managedfields.NewTypeConverter(lenient, false); err != nil {
			return fmt.Errorf("the kinds cannot have managed fields: %w", err)
		}
	}
	p.managers = map[endpoint]*managedfields.FieldManager{}
	for _, k := range list {
		for subresource, owned := range ownership(k) {
			m, err := newManager(k, subresource, stored, owned)
			if err != nil {
				return fmt.Errorf("%s: %w", k.Name(), err)
			}
			p.managers[endpointOf(k, subresource)] = m
		}
	}
	return nil
}

func leniently(schemas map[string]*spec.Schema, list []kinds.Kind, d *openapi.Documents) (map[string]*spec.Schema, bool) {
	out, some := maps.Clone(schemas), false
	for _, k := range list {
		name := d.Definition(k)
		if k.BuiltIn() || len(k.Schema) == 0 || out[name] == nil {
			continue
		}
		s := *out[name]
		s.Extensions = maps.Clone(s.Extensions)
		s.AddExtension(preserve, true)
		out[name], some = &s, true
	}
	return out, some
}

func isNamespaces(k kinds.Kind) bool { return k.Group == "" && k.Resource == namespace.Resource }

// ownership returns the endpoints of a kind, and what can be owned through each:
// what a request there cannot change is nobody's by it.
func ownership(k kinds.Kind) map[string]fieldpath.Filter {
	status := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	finalizers := fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "finalizers"))
	only := func(parts ...any) fieldpath.Filter {
		return fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie(parts...))
	}
	switch {
	case isNamespaces(k):
		return map[string]fieldpath.Filter{
			"":         fieldpath.NewExcludeSetFilter(status.Union(finalizers)),
			"status":   only("status"),
			"finalize": only("spec", "finalizers"),
		}
	case k.Status:
		return map[string]fieldpath.Filter{"": fieldpath.NewExcludeSetFilter(status), "status": only("status")}
	}
	return map[string]fieldpath.Filter{"": nil}
}

func newManager(k kinds.Kind, subresource string, types managedfields.TypeConverter, owned fieldpath.Filter) (*managedfields.FieldManager, error) {
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	var filters map[fieldpath.APIVersion]fieldpath.Filter
	if owned != nil {
		filters = map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(k.APIVersion()): owned}
	}
	return managedfields.NewDefaultCRDFieldManager(types, unversioned{}, unversioned{}, unversioned{}, gvk, gvk.GroupVersion(), subresource, filters)
}

// Updated returns updated, what live becomes by a create (live is zero), an update or
// a patch, with its managed fields: manager owns what changed. Entries that a client
// sends are taken over if they make sense, and one empty entry ends the tracking.
//
// Tracking begins with the first server-side apply, and what was there before is
// owned by "before-first-apply": an object that nobody ever applied has no managed
// fields. Kubernetes tracks from the creation on, at a price that everybody pays.
// Tracking ends when an object gets wider than server-side apply takes it: more than
// 10,000 fields, 2,000 items in a list that is merged, or 250 managed fields.
func (p *Patcher) Updated(k kinds.Kind, subresource string, live, updated registry.Object, manager string, now time.Time) registry.Object {
	m := p.managers[endpointOf(k, subresource)]
	if !sane(live.ManagedFields) {
		live.ManagedFields = nil
	}
	if !sane(updated.ManagedFields) && !isReset(updated.ManagedFields) {
		updated.ManagedFields = live.ManagedFields
	}
	untracked := len(live.ManagedFields) == 0 && (subresource != "" || len(updated.ManagedFields) == 0)
	if m == nil || untracked || subresource == "" && isReset(updated.ManagedFields) {
		updated.ManagedFields = nil
		return updated
	}
	entries, err := p.update(m, k, live, updated, manager)
	if err != nil { // as Kubernetes does: better nothing than something wrong
		updated.ManagedFields = nil
		return updated
	}
	updated.ManagedFields = stamped(live, updated, entries, now)
	return updated
}

func (p *Patcher) update(m *managedfields.FieldManager, k kinds.Kind, live, updated registry.Object, manager string) ([]namespace.ManagedFieldsEntry, error) {
	before, err := untyped(k, live)
	if err != nil {
		return nil, err
	}
	after, err := untyped(k, updated)
	if err != nil {
		return nil, err
	}
	for _, o := range []*unstructured.Unstructured{before, after} {
		if err := p.ownable(k, o.Object); err != nil {
			return nil, err
		}
	}
	var out runtime.Object
	err = guarded(func() error {
		out, err = m.Update(before, after, manager)
		return err
	})
	if err != nil {
		return nil, err
	}
	return entriesOf(out)
}

// sane reports whether the libraries beneath can read managed fields. What they
// cannot they write into the log of the process, and wait.
func sane(list []namespace.ManagedFieldsEntry) bool {
	if len(list) == 0 {
		return true
	}
	if !few(list) {
		return false
	}
	data, err := json.Marshal(list)
	if err != nil {
		return false
	}
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return false
	}
	for _, e := range entries {
		if e.FieldsV1 == nil { // or null
			return false
		}
	}
	return guarded(func() error { return managedfields.ValidateManagedFields(entries) }) == nil
}

// isReset reports whether a client wants no managed fields.
func isReset(list []namespace.ManagedFieldsEntry) bool {
	if list == nil || len(list) > 1 {
		return false
	}
	return len(list) == 0 || list[0].Manager == "" && list[0].Operation == "" && list[0].APIVersion == "" && len(list[0].FieldsV1) == 0
}

// untyped returns an object as the libraries of Kubernetes take it.
func untyped(k kinds.Kind, o registry.Object) (*unstructured.Unstructured, error) {
	o.Kind, o.APIVersion = k.Kind, k.APIVersion()
	data, err := encode(o)
	if err != nil {
		return nil, err
	}
	object, err := numbered(data)
	return &unstructured.Unstructured{Object: object}, err
}

// entriesOf returns the managed fields of an object.
func entriesOf(o runtime.Object) ([]namespace.ManagedFieldsEntry, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("managed fields of a %T", o)
	}
	data, err := json.Marshal(u.GetManagedFields())
	if err != nil {
		return nil, err
	}
	var out []namespace.ManagedFieldsEntry
	return out, json.Unmarshal(data, &out)
}

// stamped returns the entries with the time of the request in all that are new or
// changed; entries that only have another time are as they were. When nothing else of
// the object changes either, neither do they.
func stamped(live, updated registry.Object, entries []namespace.ManagedFieldsEntry, now time.Time) []namespace.ManagedFieldsEntry {
	same := unchanged(live, updated) && len(live.ManagedFields) == len(entries)
	for i := range entries {
		e := &entries[i]
		before := slices.IndexFunc(live.ManagedFields, func(b namespace.ManagedFieldsEntry) bool { return sameEntry(*e, b) })
		if before < 0 {
			same = false
		}
		if before < 0 || !e.Time.Time.Equal(live.ManagedFields[before].Time.Time) {
			if !now.IsZero() {
				e.Time = phase.At(now.UTC().Truncate(time.Second))
			}
		}
	}
	if same {
		return live.ManagedFields
	}
	return entries
}

// sameEntry compares entries apart from their time.
func sameEntry(a, b namespace.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion &&
		a.FieldsType == b.FieldsType && a.Subresource == b.Subresource && string(a.FieldsV1) == string(b.FieldsV1)
}

// unchanged compares objects apart from their managed fields.
func unchanged(a, b registry.Object) bool {
	a.ManagedFields, b.ManagedFields = nil, nil
	x, errX := json.Marshal(a.Meta)
	y, errY := json.Marshal(b.Meta)
	return errX == nil && errY == nil && string(x) == string(y) &&
		maps.EqualFunc(a.Fields, b.Fields, func(x, y json.RawMessage) bool { return string(x) == string(y) })
}

// unversioned is what field managers need to know of versions: there is one of each
// kind, without defaults.
type unversioned struct{}

func (unversioned) Default(runtime.Object) {}

func (unversioned) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	var o unstructured.Unstructured
	o.SetGroupVersionKind(kind)
	return &o, nil
}

func (unversioned) Convert(_, _, _ any) error {
	return fmt.Errorf("there is one version of each kind: nothing is converted")
}

// ConvertToVersion returns in if it has the version. Entries of managed fields for
// others, which a client may send, are dropped by this very error.
func (unversioned) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	has := in.GetObjectKind().GroupVersionKind()
	if want, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{has}); ok && want == has {
		return in, nil
	}
	return nil, runtime.NewNotRegisteredErrForTarget("kinds", nil, target)
}

func (unversioned) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
