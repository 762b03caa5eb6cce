package namespace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// The sizes that a client's request must keep.
const (
	// MaxAnnotations is the greatest total size of the keys and values of all
	// annotations of one object, in bytes.
	MaxAnnotations = 256 << 10
	// MaxSize is the greatest total size of all strings in the metadata of one
	// namespace or content object, in bytes, and again in the finalizers of a
	// namespace's spec, and in its conditions: each has a bound of its own, so that a
	// large one does not keep the conditions from being written (rule R9).
	MaxSize = 1 << 20

	maxManager = 128 // bytes of a field manager's name
	maxSub     = 256 // bytes of a subresource's name
)

// ValidateMeta returns every violation of the metadata that a client may send
// with an object of any kind, in the order of the document; nil when there is
// none. Names must have been generated before.
func ValidateMeta(m Meta, rule NameRule) []Violation {
	var vs []Violation
	vs = append(vs, validateNames(m, rule)...)
	vs = append(vs, text("metadata.selfLink", m.SelfLink)...)
	vs = append(vs, text("metadata.uid", m.UID)...)
	vs = append(vs, text("metadata.resourceVersion", m.ResourceVersion)...)
	if m.Generation < 0 {
		vs = append(vs, invalidValue("metadata.generation", fmt.Sprint(m.Generation), "must be greater than or equal to 0"))
	}
	vs = append(vs, moment("metadata.creationTimestamp", m.CreationTimestamp)...)
	vs = append(vs, moment("metadata.deletionTimestamp", m.DeletionTimestamp)...)
	vs = append(vs, validateLabels(m.Labels)...)
	vs = append(vs, validateAnnotations(m.Annotations)...)
	vs = append(vs, validateOwners(m.OwnerReferences)...)
	vs = append(vs, validateMetaFinalizers(m.Finalizers)...)
	vs = append(vs, validateManagers(m.ManagedFields)...)
	if m.size() > MaxSize {
		vs = append(vs, tooLong("metadata", MaxSize))
	}
	return vs
}

func validateNames(m Meta, rule NameRule) []Violation {
	var vs []Violation
	if m.Name == "" {
		vs = append(vs, required("metadata.name", "name or generateName is required"))
	} else {
		vs = append(vs, invalidEach("metadata.name", m.Name, rule.Check(m.Name))...)
	}
	if m.GenerateName != "" {
		vs = append(vs, invalidEach("metadata.generateName", m.GenerateName, rule.CheckPrefix(m.GenerateName))...)
	}
	switch {
	case !rule.Namespaced && m.Namespace != "":
		vs = append(vs, ForbiddenField("metadata.namespace", "not allowed on this type"))
	case rule.Namespaced && m.Namespace == "":
		vs = append(vs, required("metadata.namespace", ""))
	case rule.Namespaced:
		vs = append(vs, invalidEach("metadata.namespace", m.Namespace, ValidateName(m.Namespace))...)
	}
	return vs
}

func validateLabels(labels map[string]string) []Violation {
	const field = "metadata.labels"
	var vs []Violation
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		vs = append(vs, invalidEach(field, k, syntax.QualifiedName(k))...)
		vs = append(vs, invalidEach(field, labels[k], syntax.LabelValue(labels[k]))...)
	}
	return vs
}

func validateAnnotations(annotations map[string]string) []Violation {
	const field = "metadata.annotations"
	var vs []Violation
	size := 0
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		size += len(k) + len(annotations[k])
		// Keys are qualified names in which the case of the prefix does not matter.
		vs = append(vs, invalidEach(field, k, syntax.QualifiedName(strings.ToLower(k)))...)
		vs = append(vs, text(field+"["+cut(k)+"]", annotations[k])...)
	}
	if size > MaxAnnotations {
		vs = append(vs, tooLong(field, MaxAnnotations))
	}
	return vs
}

func validateOwners(owners []OwnerReference) []Violation {
	const field = "metadata.ownerReferences"
	var vs []Violation
	controller := ""
	for i, o := range owners {
		at := indexed(field, i)
		vs = append(vs, validateOwner(o, at)...)
		if o.Controller == nil || !*o.Controller {
			continue
		}
		name := o.Kind + "/" + o.Name
		if controller == "" {
			controller = name
			continue
		}
		vs = append(vs, invalidValue(field, "", fmt.Sprintf(
			`Only one reference can have Controller set to true. Found "true" in references for %s and %s`, cut(controller), cut(name))))
	}
	return vs
}

func validateOwner(o OwnerReference, at string) []Violation {
	var vs []Violation
	if version(o.APIVersion) == "" {
		vs = append(vs, InvalidField(at+".apiVersion", o.APIVersion, "version must not be empty"))
	}
	vs = append(vs, text(at+".apiVersion", o.APIVersion)...)
	for _, f := range []struct{ field, value string }{{".kind", o.Kind}, {".name", o.Name}, {".uid", o.UID}} {
		if f.value == "" {
			vs = append(vs, InvalidField(at+f.field, "", "must not be empty"))
		}
		vs = append(vs, text(at+f.field, f.value)...)
	}
	if o.APIVersion == "v1" && o.Kind == "Event" {
		vs = append(vs, invalidValue(at, "", "/v1, Kind=Event is disallowed from being an owner"))
	}
	return vs
}

// version returns the version of "version" or "group/version", empty if there is
// none.
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

func validateMetaFinalizers(set finalizer.Set) []Violation {
	const field = "metadata.finalizers"
	var vs []Violation
	for i, n := range set.All() {
		vs = append(vs, invalidEach(indexed(field, i), string(n), n.Problems())...)
	}
	if set.Has(finalizer.Orphan) && set.Has(finalizer.ForegroundDeletion) {
		vs = append(vs, invalidValue(field, "", fmt.Sprintf("finalizer %s and %s cannot be both set",
			finalizer.Orphan, finalizer.ForegroundDeletion)))
	}
	return vs
}

func validateManagers(entries []ManagedFieldsEntry) []Violation {
	var vs []Violation
	for i, e := range entries {
		at := indexed("metadata.managedFields", i)
		vs = append(vs, validateManager(at+".manager", e.Manager)...)
		if e.Operation != "Apply" && e.Operation != "Update" {
			vs = append(vs, InvalidField(at+".operation", e.Operation, "must be `Apply` or `Update`"))
		}
		vs = append(vs, text(at+".apiVersion", e.APIVersion)...)
		vs = append(vs, moment(at+".time", e.Time)...)
		if e.FieldsType != "" && e.FieldsType != "FieldsV1" {
			vs = append(vs, InvalidField(at+".fieldsType", e.FieldsType, "must be `FieldsV1`"))
		}
		if len(e.FieldsV1) > 0 && !isObject(e.FieldsV1) {
			vs = append(vs, invalidValue(at+".fieldsV1", "", "must be a JSON object"))
		}
		vs = append(vs, text(at+".subresource", e.Subresource)...)
		if len(e.Subresource) > maxSub {
			vs = append(vs, tooLong(at+".subresource", maxSub))
		}
	}
	return vs
}

func validateManager(field, manager string) []Violation {
	var vs []Violation
	if len(manager) > maxManager {
		vs = append(vs, tooLong(field, maxManager))
	}
	for i, r := range manager {
		if !unicode.IsPrint(r) {
			vs = append(vs, InvalidField(field, manager, fmt.Sprintf("invalid character %#U (at position %d)", r, i)))
		}
	}
	if len(vs) == 0 {
		vs = text(field, manager)
	}
	return vs
}

func isObject(raw RawJSON) bool {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{':
			return json.Valid(raw)
		default:
			return false
		}
	}
	return false
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
	return n + sizeOf(m.Finalizers)
}

func sizeOf(set finalizer.Set) int {
	n := 0
	for _, name := range set.All() {
		n += len(name)
	}
	return n
}
