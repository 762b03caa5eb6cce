package namespace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The limits of a client's request, in bytes.
const (
	// MaxAnnotations is the limit of the keys and values of all annotations of one object.
	MaxAnnotations = 256 << 10
	// MaxSize is the limit of all strings in the metadata of one object. Spec.finalizers and
	// the conditions of a namespace have the same limit each, so that large metadata does not
	// prevent writing the conditions (rule R9).
	MaxSize = 1 << 20

	maxManager     = 128 // the name of a field manager
	maxSubresource = 256
)

// NameRule defines the names of one type of object. The zero rule is the rule for namespaces.
type NameRule struct {
	// Subdomain allows names that are DNS subdomains, with dots and up to 253 bytes, as most
	// content has. Otherwise names must be DNS labels of at most 63 bytes.
	Subdomain bool
	// Namespaced objects must have metadata.namespace; others must not.
	Namespaced bool
}

func (r NameRule) check(name string) []string {
	if r.Subdomain {
		return syntax.Subdomain(name)
	}
	return syntax.Label(name)
}

// checkPrefix checks a generateName. It may end in a dash, since characters are appended.
func (r NameRule) checkPrefix(prefix string) []string {
	if stem, ok := strings.CutSuffix(prefix, "-"); ok && stem != "" && !strings.HasSuffix(stem, ".") {
		return r.check(stem + "a")
	}
	return r.check(prefix)
}

// ValidateName returns all problems of the name of a namespace, in the words of Kubernetes, or
// nil. An empty name is invalid.
func ValidateName(name string) []string { return NameRule{}.check(name) }

// ValidateMeta returns every violation in the metadata that a client sends with an object of any
// kind, in the order of the document. If the object has no name, call [GenerateName] before.
func ValidateMeta(m Meta, rule NameRule) []Violation {
	var vs violations
	vs.names(m, rule)
	vs.utf8("metadata.selfLink", m.SelfLink)
	vs.utf8("metadata.uid", m.UID)
	vs.utf8("metadata.resourceVersion", m.ResourceVersion)
	if m.Generation < 0 {
		vs.broken("metadata.generation", fmt.Sprintf("%d: must be greater than or equal to 0", m.Generation))
	}
	vs.time("metadata.creationTimestamp", m.CreationTimestamp)
	vs.time("metadata.deletionTimestamp", m.DeletionTimestamp)
	vs.labels(m.Labels)
	vs.annotations(m.Annotations)
	vs.owners(m.OwnerReferences)
	vs.finalizers(m.Finalizers)
	vs.managers(m.ManagedFields)
	vs.limit("metadata", m.size(), MaxSize)
	return vs
}

func (vs *violations) names(m Meta, rule NameRule) {
	if m.Name == "" {
		vs.required("metadata.name", "name or generateName is required")
	} else {
		vs.problems("metadata.name", m.Name, rule.check(m.Name))
	}
	if m.GenerateName != "" {
		vs.problems("metadata.generateName", m.GenerateName, rule.checkPrefix(m.GenerateName))
	}
	switch {
	case !rule.Namespaced && m.Namespace != "":
		vs.forbidden("metadata.namespace", "not allowed on this type")
	case rule.Namespaced && m.Namespace == "":
		vs.required("metadata.namespace", "")
	case rule.Namespaced:
		vs.problems("metadata.namespace", m.Namespace, ValidateName(m.Namespace))
	}
}

func (vs *violations) labels(labels map[string]string) {
	const field = "metadata.labels"
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		vs.problems(field, k, syntax.QualifiedName(k))
		vs.problems(field, labels[k], syntax.LabelValue(labels[k]))
	}
}

func (vs *violations) annotations(annotations map[string]string) {
	const field = "metadata.annotations"
	size := 0
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		size += len(k) + len(annotations[k])
		vs.problems(field, k, syntax.QualifiedName(strings.ToLower(k))) // the prefix may have upper case letters
		vs.utf8(field+"["+phase.Truncate(k, maxShown)+"]", annotations[k])
	}
	vs.limit(field, size, MaxAnnotations)
}

func (vs *violations) owners(owners []OwnerReference) {
	const field = "metadata.ownerReferences"
	controller := ""
	for i, o := range owners {
		vs.owner(indexed(field, i), o)
		if o.Controller == nil || !*o.Controller {
			continue
		}
		name := phase.Truncate(o.Kind+"/"+o.Name, maxShown)
		if controller == "" {
			controller = name
			continue
		}
		vs.broken(field, fmt.Sprintf(
			`Only one reference can have Controller set to true. Found "true" in references for %s and %s`, controller, name))
	}
}

func (vs *violations) owner(at string, o OwnerReference) {
	if version(o.APIVersion) == "" {
		vs.invalid(at+".apiVersion", o.APIVersion, "version must not be empty")
	}
	vs.utf8(at+".apiVersion", o.APIVersion)
	for _, f := range []struct{ field, value string }{{".kind", o.Kind}, {".name", o.Name}, {".uid", o.UID}} {
		if f.value == "" {
			vs.invalid(at+f.field, "", "must not be empty")
		}
		vs.utf8(at+f.field, f.value)
	}
	if o.APIVersion == "v1" && o.Kind == "Event" {
		vs.broken(at, "/v1, Kind=Event is disallowed from being an owner")
	}
}

// version returns the version of "version" or "group/version", or "" if there is none.
func version(apiVersion string) string {
	switch group, v, qualified := strings.Cut(apiVersion, "/"); {
	case !qualified:
		return group
	case strings.Contains(v, "/"):
		return ""
	default:
		return v
	}
}

func (vs *violations) finalizers(set finalizer.Set) {
	const field = "metadata.finalizers"
	for i, n := range set.All() {
		vs.problems(indexed(field, i), string(n), n.Problems())
	}
	if set.Has(finalizer.Orphan) && set.Has(finalizer.ForegroundDeletion) {
		vs.broken(field, fmt.Sprintf("finalizer %s and %s cannot be both set", finalizer.Orphan, finalizer.ForegroundDeletion))
	}
}

func (vs *violations) managers(entries []ManagedFieldsEntry) {
	for i, e := range entries {
		at := indexed("metadata.managedFields", i)
		vs.manager(at+".manager", e.Manager)
		if e.Operation != "Apply" && e.Operation != "Update" {
			vs.invalid(at+".operation", e.Operation, "must be `Apply` or `Update`")
		}
		vs.utf8(at+".apiVersion", e.APIVersion)
		vs.time(at+".time", e.Time)
		if e.FieldsType != "" && e.FieldsType != "FieldsV1" {
			vs.invalid(at+".fieldsType", e.FieldsType, "must be `FieldsV1`")
		}
		if len(e.FieldsV1) > 0 && !isObject(e.FieldsV1) {
			vs.broken(at+".fieldsV1", "must be a JSON object")
		}
		vs.utf8(at+".subresource", e.Subresource)
		vs.limit(at+".subresource", len(e.Subresource), maxSubresource)
	}
}

func (vs *violations) manager(field, manager string) {
	vs.limit(field, len(manager), maxManager)
	printable := true
	for i, r := range manager {
		if !unicode.IsPrint(r) {
			vs.invalid(field, manager, fmt.Sprintf("invalid character %#U (at position %d)", r, i))
			printable = false
		}
	}
	if printable && len(manager) <= maxManager {
		vs.utf8(field, manager)
	}
}

func isObject(raw RawJSON) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && json.Valid(raw)
}

// size returns the total size of the strings of m.
func (m Meta) size() int {
	n := len(m.Name) + len(m.GenerateName) + len(m.Namespace) + len(m.SelfLink) + len(m.UID) + len(m.ResourceVersion)
	for k, v := range m.Labels {
		n += len(k) + len(v)
	}
	for k, v := range m.Annotations {
		n += len(k) + len(v)
	}
	for _, o := range m.OwnerReferences {
		n += len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID)
	}
	for _, f := range m.ManagedFields {
		n += len(f.Manager) + len(f.Operation) + len(f.APIVersion) + len(f.FieldsType) + len(f.FieldsV1) + len(f.Subresource)
	}
	return n + setSize(m.Finalizers)
}

func setSize(set finalizer.Set) int {
	n := 0
	for _, name := range set.All() {
		n += len(name)
	}
	return n
}
