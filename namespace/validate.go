package namespace

import (
	"fmt"
	"slices"

	"github.com/nslifecycle/nslifecycle/phase"
)

// What a namespace is called in documents and in errors.
const (
	Kind       = "Namespace"
	APIVersion = "v1"
	Resource   = "namespaces"
)

// ValidateCreate reports whether n, as [PrepareCreate] returned it, may be
// created. The error is an [*Error] of kind [ErrInvalid] with every violation, or
// of kind [ErrBadRequest] for a document of another kind.
func ValidateCreate(n Namespace) error {
	if err := checkType(n); err != nil {
		return err
	}
	vs := validateWhole(n)
	for _, name := range n.Spec.Finalizers.All() {
		vs = append(vs, invalidEach("spec.finalizers", string(name), name.Problems())...)
	}
	vs = append(vs, validatePhase(n)...)
	return n.invalid(append(vs, validateSize(n)...))
}

// ValidateUpdate reports whether updated, as [PrepareUpdate] returned it, may
// take the place of old. Errors are those of [ValidateCreate].
func ValidateUpdate(old, updated Namespace) error {
	if err := checkType(updated); err != nil {
		return err
	}
	vs := validateWhole(updated)
	vs = append(vs, validateKept(old, updated)...)
	if !updated.Spec.Finalizers.Equal(old.Spec.Finalizers) {
		vs = append(vs, ForbiddenField("spec.finalizers", "only finalize may change them")) // R4
	}
	vs = append(vs, validatePhase(updated)...)
	return updated.invalid(append(vs, validateSize(updated)...))
}

// ValidateStatus reports whether updated, as [PrepareStatus] returned it, may
// take the place of old. Errors are those of [ValidateCreate].
func ValidateStatus(old, updated Namespace) error {
	if err := checkType(updated); err != nil {
		return err
	}
	vs := validateKept(old, updated)
	if !updated.Spec.Finalizers.Equal(old.Spec.Finalizers) {
		vs = append(vs, ForbiddenField("spec.finalizers", "only finalize may change them")) // R4
	}
	vs = append(vs, validatePhase(updated)...)
	vs = append(vs, validateConditions(updated.Status.Conditions)...)
	return updated.invalid(append(vs, validateSize(updated)...))
}

// ValidateFinalize reports whether updated, as [PrepareFinalize] returned it, may
// take the place of old. Finalizers may be added while the namespace is
// terminating: a late party may still hold it. Errors are those of
// [ValidateCreate].
func ValidateFinalize(old, updated Namespace) error {
	if err := checkType(updated); err != nil {
		return err
	}
	vs := validateKept(old, updated)
	for i, name := range updated.Spec.Finalizers.All() {
		vs = append(vs, invalidEach(indexed("spec.finalizers", i), string(name), name.Problems())...)
	}
	vs = append(vs, validatePhase(updated)...)
	return updated.invalid(append(vs, validateSize(updated)...))
}

func (n Namespace) invalid(vs []Violation) error { return Invalid(Kind, Resource, n.Name, vs) }

func checkType(n Namespace) error {
	if n.TypeMeta == (TypeMeta{Kind, APIVersion}) {
		return nil
	}
	return &Error{
		Kind: ErrBadRequest, Resource: Resource, Name: n.Name,
		Message: fmt.Sprintf("a document of kind %s and apiVersion %s is not a namespace: send kind %q and apiVersion %q, or neither",
			quoted(n.TypeMeta.Kind), quoted(n.TypeMeta.APIVersion), Kind, APIVersion),
	}
}

// validateWhole validates the metadata of a namespace that a client sends.
func validateWhole(n Namespace) []Violation {
	vs := ValidateMeta(n.Meta, NameRule{})
	if n.Labels[NameLabel] != n.Name {
		vs = append(vs, InvalidField("metadata.labels", n.Labels[NameLabel], "the label "+NameLabel+" must be the name of the namespace"))
	}
	return vs
}

// validateKept refuses changes of what no request may change. Prepare puts all
// of it back, but for the name, which says what the request is about.
func validateKept(old, updated Namespace) []Violation {
	var vs []Violation
	for _, f := range []struct{ field, was, is string }{
		{"metadata.name", old.Name, updated.Name},
		{"metadata.namespace", old.Meta.Namespace, updated.Meta.Namespace},
		{"metadata.uid", old.UID, updated.UID},
		{"metadata.creationTimestamp", stamp(old.CreationTimestamp), stamp(updated.CreationTimestamp)},
		{"metadata.deletionTimestamp", stamp(old.DeletionTimestamp), stamp(updated.DeletionTimestamp)}, // R3
	} {
		if f.was != f.is {
			vs = append(vs, immutable(f.field, f.is))
		}
	}
	if grace, was := updated.DeletionGracePeriodSeconds, old.DeletionGracePeriodSeconds; !samePointed(grace, was) {
		vs = append(vs, invalidValue("metadata.deletionGracePeriodSeconds", "", "field is immutable"))
	}
	if old.Phase() == phase.Terminating {
		vs = append(vs, NoNewFinalizers(old.Meta, updated.Meta)...)
	}
	return vs
}

func stamp(t phase.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func samePointed(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// NoNewFinalizers returns a violation when metadata.finalizers of updated has
// names that old has not: none can be added once an object is being deleted. The
// caller knows whether it is.
func NoNewFinalizers(old, updated Meta) []Violation {
	added, _ := old.Finalizers.Diff(updated.Finalizers)
	if len(added) == 0 {
		return nil
	}
	names := make([]string, 0, len(added))
	for _, n := range added {
		names = append(names, string(n))
	}
	slices.Sort(names) // as upstream does
	return []Violation{ForbiddenField("metadata.finalizers", fmt.Sprintf(
		"no new finalizers can be added if the object is being deleted, found new finalizers %#v", names))}
}

// validatePhase holds R2 against what a client wrote.
func validatePhase(n Namespace) []Violation {
	switch is := n.Phase(); {
	case n.Status.Phase == is:
		return nil
	case is == phase.Active:
		return []Violation{InvalidField("status.Phase", string(n.Status.Phase), "may only be 'Active' if `deletionTimestamp` is empty")}
	default:
		return []Violation{InvalidField("status.Phase", string(n.Status.Phase), "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
}

func validateConditions(conditions []phase.Condition) []Violation {
	var vs []Violation
	seen := make(map[phase.ConditionType]bool, len(conditions))
	for i, c := range conditions {
		at := indexed("status.conditions", i)
		switch {
		case c.Type == "":
			vs = append(vs, required(at+".type", ""))
		case seen[c.Type]:
			vs = append(vs, Violation{FieldDuplicate, at + ".type", "Duplicate value: " + quoted(string(c.Type))})
		}
		seen[c.Type] = true
		vs = append(vs, text(at+".type", string(c.Type))...)
		if c.Status != phase.True && c.Status != phase.False && c.Status != phase.Unknown {
			vs = append(vs, Violation{FieldNotSupported, at + ".status",
				"Unsupported value: " + quoted(string(c.Status)) + `: supported values: "False", "True", "Unknown"`})
		}
		vs = append(vs, moment(at+".lastTransitionTime", c.LastTransitionTime)...)
		vs = append(vs, text(at+".reason", c.Reason)...)
		vs = append(vs, text(at+".message", c.Message)...)
	}
	return vs
}

// validateSize bounds spec and status; metadata was checked before.
func validateSize(n Namespace) []Violation {
	var vs []Violation
	if sizeOf(n.Spec.Finalizers) > MaxSize {
		vs = append(vs, tooLong("spec.finalizers", MaxSize))
	}
	size := 0
	for _, c := range n.Status.Conditions {
		size += len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
	}
	if size > MaxSize {
		vs = append(vs, tooLong("status.conditions", MaxSize))
	}
	return vs
}

// cut returns s for use inside a message.
func cut(s string) string { return phase.Truncate(s, 256) }
