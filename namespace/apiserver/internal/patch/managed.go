package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// preserve allows unknown fields in a schema.
const preserve = "x-kubernetes-preserve-unknown-fields"

// manage creates the field managers of all kinds.
func (p *Patcher) manage(list []kinds.Kind, d *openapi.Documents) error {
	if !slices.ContainsFunc(list, isNamespaces) {
		list = append(slices.Clone(list), kinds.Namespaces())
	}
	schemas := p.schemas
	var err error
	if p.strict, err = managedfields.NewTypeConverter(schemas, false); err != nil {
		return fmt.Errorf("the kinds cannot have managed fields: %w", err)
	}
	// A stored object may have been valid under an earlier schema.
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

// leniently returns a copy of schemas in which the host's schemas allow unknown fields. It
// reports whether there are any.
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

// ownership returns, for each endpoint of a kind, the fields that a manager can own through
// it: those that a request to it can change.
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

// Updated returns updated with its managed fields: manager owns the difference to live, which
// is zero for a create. Valid entries that the client sends are adopted, and one empty entry
// ends the tracking.
//
// Tracking begins with the first server-side apply, which assigns the existing fields to
// "before-first-apply". Kubernetes tracks from the creation on, at a cost for every write.
// Tracking ends when an object exceeds the bounds of server-side apply: 10,000 fields, 2,000
// items in a merged list, or 250 managed fields.
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
	if err != nil { // as in Kubernetes: none rather than wrong ones
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

// sane reports whether the libraries can read managed fields. Otherwise they would write to
// the log of the process, and wait.
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

// isReset reports whether a client ends the tracking.
func isReset(list []namespace.ManagedFieldsEntry) bool {
	if list == nil || len(list) > 1 {
		return false
	}
	return len(list) == 0 || list[0].Manager == "" && list[0].Operation == "" && list[0].APIVersion == "" && len(list[0].FieldsV1) == 0
}

// untyped converts an object for the libraries of Kubernetes.
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

// stamped returns entries with the time of the request in each new or changed one. If nothing
// changes, it returns the live entries.
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

// sameEntry compares entries without their times.
func sameEntry(a, b namespace.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion &&
		a.FieldsType == b.FieldsType && a.Subresource == b.Subresource && string(a.FieldsV1) == string(b.FieldsV1)
}

// unchanged compares objects without their managed fields.
func unchanged(a, b registry.Object) bool {
	a.ManagedFields, b.ManagedFields = nil, nil
	x, errX := json.Marshal(a.Meta)
	y, errY := json.Marshal(b.Meta)
	return errX == nil && errY == nil && string(x) == string(y) &&
		maps.EqualFunc(a.Fields, b.Fields, func(x, y json.RawMessage) bool { return string(x) == string(y) })
}

// unversioned implements the conversions of field managers for kinds with one version and
// without defaults.
type unversioned struct{}

func (unversioned) Default(runtime.Object) {}

func (unversioned) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	var o unstructured.Unstructured
	o.SetGroupVersionKind(kind)
	return &o, nil
}

func (unversioned) Convert(_, _, _ any) error {
	return errors.New("kinds have one version: there are no conversions")
}

// ConvertToVersion returns in if it has the version. The error makes the manager drop entries
// for other versions, which a client may send.
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

// Bounds of objects with managed fields. The libraries keep fields and the items of merged
// lists in sorted slices, so that their effort grows with the square of the number.
const (
	maxOwned   = 10_000 // fields, and items of merged lists, in an object
	maxMerged  = 2_000  // items of one merged list
	maxEntries = 250    // managed fields, each of which is compared with every change
)

// lastApplied is an annotation with a whole object, which the libraries read as well.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// errWide is the error for an object beyond the bounds.
type errWide struct{ field, what string }

func (e *errWide) Error() string {
	return fmt.Sprintf("%s has more %s: change it by another patch", e.field, e.what)
}

// ownable rejects an object beyond the bounds.
func (p *Patcher) ownable(k kinds.Kind, object map[string]any) error {
	c := counter{schemas: p.schemas}
	root := p.schemas[p.documents.Definition(k)]
	if err := c.count(object, root, ""); err != nil {
		return err
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[lastApplied].(string)
	if applied, err := numbered([]byte(text)); err == nil {
		c.seen = 0
		return c.count(applied, root, "metadata.annotations["+lastApplied+"]")
	}
	return nil
}

// counter counts the parts of an object that can have different owners.
type counter struct {
	schemas map[string]*spec.Schema
	seen    int
}

func (c *counter) count(value any, s *spec.Schema, at string) error {
	s = c.resolve(s)
	switch value := value.(type) {
	case map[string]any:
		if err := c.add(len(value), at); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := c.count(value[name], fieldSchema(s, name), within(at, "."+name)); err != nil {
				return err
			}
		}
	case []any:
		if !merged(s) {
			return nil // the list has one owner
		}
		if len(value) > maxMerged {
			return &errWide{clip(at), fmt.Sprintf("than %d items", maxMerged)}
		}
		if err := c.add(len(value), at); err != nil {
			return err
		}
		for i, item := range value {
			if err := c.count(item, itemSchema(s), within(at, fmt.Sprintf("[%d]", i))); err != nil {
				return err
			}
		}
	}
	return nil
}

// within returns the path of a part, shortened.
func within(at, part string) string {
	if len(at) > 500 {
		return at
	}
	return strings.TrimPrefix(at+part, ".")
}

func (c *counter) add(n int, at string) error {
	if c.seen += n; c.seen <= maxOwned {
		return nil
	}
	if at == "" {
		at = "the object"
	}
	return &errWide{clip(at), fmt.Sprintf("fields than there may be with managed fields: %d in the whole object", maxOwned)}
}

// resolve follows references.
func (c *counter) resolve(s *spec.Schema) *spec.Schema {
	for range maxDepth {
		if s == nil {
			return nil
		}
		ref := s.Ref.String()
		if ref == "" && len(s.AllOf) == 1 {
			ref = s.AllOf[0].Ref.String()
		}
		if ref == "" {
			return s
		}
		s = c.schemas[ref[strings.LastIndex(ref, "/")+1:]]
	}
	return nil
}

// merged reports whether the items of a list can have different owners.
func merged(s *spec.Schema) bool {
	if s == nil {
		return false
	}
	if kind, ok := s.Extensions.GetString("x-kubernetes-list-type"); ok {
		return kind != "atomic"
	}
	strategy, _ := s.Extensions.GetString("x-kubernetes-patch-strategy")
	return strings.Contains(strategy, "merge")
}

func fieldSchema(s *spec.Schema, name string) *spec.Schema {
	if s == nil {
		return nil
	}
	if field, ok := s.Properties[name]; ok {
		return &field
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

func itemSchema(s *spec.Schema) *spec.Schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// few reports whether managed fields are within the bounds.
func few(list []namespace.ManagedFieldsEntry) bool {
	if len(list) > maxEntries {
		return false
	}
	for _, e := range list {
		tree, err := parse(e.FieldsV1)
		if err != nil || (&counter{}).count(tree, nil, "") != nil {
			return false
		}
	}
	return true
}
