package namespace

import (
	"fmt"
	"slices"

	"github.com/nslifecycle/nslifecycle/phase"
)

// ValidateCreate reports whether n, as [PrepareCreate] returned it, may be created. The error
// is an [*Error] of kind [ErrInvalid] with every violation, or of kind [ErrBadRequest] for a
// document of another kind.
func ValidateCreate(n Namespace) error {
	if err := checkType(n); err != nil {
		return err
	}
	vs := validateObjectMeta(n)
	for _, name := range n.Spec.Finalizers.All() {
		vs.problems("spec.finalizers", string(name), name.Problems())
	}
	vs.phase(n)
	vs.size(n)
	return Invalid(Kind, Resource, n.Name, vs)
}

// ValidateUpdate reports whether updated, as [PrepareUpdate] returned it, may replace old. It
// returns the errors of [ValidateCreate].
func ValidateUpdate(old, updated Namespace) error {
	if err := checkType(updated); err != nil {
		return err
	}
	vs := validateObjectMeta(updated)
	vs.serverFields(old, updated)
	vs.sameFinalizers(old, updated)
	vs.phase(updated)
	vs.size(updated)
	return Invalid(Kind, Resource, updated.Name, vs)
}

// ValidateStatus reports whether updated, as [PrepareStatus] returned it, may replace old. It
// returns the errors of [ValidateCreate].
func ValidateStatus(old, updated Namespace) error {
	if err := checkType(updated); err != nil {
		return err
	}
	var vs violations
	vs.serverFields(old, updated)
	vs.sameFinalizers(old, updated)
	vs.phase(updated)
	vs.conditions(updated.Status.Conditions)
	vs.size(updated)
	return Invalid(Kind, Resource, updated.Name, vs)
}

// ValidateFinalize reports whether updated, as [PrepareFinalize] returned it, may replace old.
// Finalizers may be added to a terminating namespace, for a party that registers late. It returns
// the errors of [ValidateCreate].
func ValidateFinalize(old, updated Namespace) error {
	if err := checkType(updated); err != nil {
		return err
	}
	var vs violations
	vs.serverFields(old, updated)
	for i, name := range updated.Spec.Finalizers.All() {
		vs.problems(indexed("spec.finalizers", i), string(name), name.Problems())
	}
	vs.phase(updated)
	vs.size(updated)
	return Invalid(Kind, Resource, updated.Name, vs)
}

// DefaultImmortal returns the names of the namespaces that a host does not delete by default,
// as Kubernetes does not: "default", "kube-system" and "kube-public".
func DefaultImmortal() []string { return []string{"default", "kube-system", "kube-public"} }

// ValidateDelete reports whether a client may delete n. It returns an [*Error] of kind
// [ErrForbidden] if the name is among the immortal ones, and of kind [ErrConflict] if n is not
// the namespace that p asks for.
func ValidateDelete(n Namespace, p Preconditions, immortal ...string) error {
	if slices.Contains(immortal, n.Name) {
		return &Error{Kind: ErrForbidden, Resource: Resource, Name: n.Name,
			Message: fmt.Sprintf("%s %q is forbidden: this namespace may not be deleted", Resource, n.Name)}
	}
	return p.Check(Resource, n.Meta)
}

// Preconditions restrict a request to one incarnation, or to one version, of an object. Empty
// fields are not checked.
type Preconditions struct {
	UID             string
	ResourceVersion string
}

// Check returns nil if m, the metadata of an object of a resource ("namespaces"), fulfills p,
// and an [*Error] of kind [ErrConflict] otherwise.
func (p Preconditions) Check(resource string, m Meta) error {
	for _, c := range []struct{ field, want, have string }{
		{"UID", p.UID, m.UID},
		{"ResourceVersion", p.ResourceVersion, m.ResourceVersion},
	} {
		if c.want == "" || c.want == c.have {
			continue
		}
		return &Error{Kind: ErrConflict, Resource: resource, Name: m.Name, Message: fmt.Sprintf(
			"Operation cannot be fulfilled on %s %s: Precondition failed: %s in precondition: %s, %s in object meta: %s",
			resource, quoted(m.Name), c.field, phase.Truncate(c.want, maxShown), c.field, c.have)}
	}
	return nil
}

// maxShown limits the names that messages repeat, in bytes.
const maxShown = 256

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

// validateObjectMeta validates the metadata of a namespace that a client sends.
func validateObjectMeta(n Namespace) violations {
	vs := violations(ValidateMeta(n.Meta, NameRule{}))
	if n.Labels[NameLabel] != n.Name {
		vs.invalid("metadata.labels", n.Labels[NameLabel], "the label "+NameLabel+" must be the name of the namespace")
	}
	return vs
}

// serverFields refuses changes of the fields that no request may change. PrepareUpdate restores
// all of them except name, namespace and metadata.finalizers.
func (vs *violations) serverFields(old, updated Namespace) {
	vs.unchanged("metadata.name", old.Name, updated.Name)
	vs.unchanged("metadata.namespace", old.Meta.Namespace, updated.Meta.Namespace)
	vs.unchanged("metadata.uid", old.UID, updated.UID)
	vs.unchanged("metadata.creationTimestamp", timeText(old.CreationTimestamp), timeText(updated.CreationTimestamp))
	vs.unchanged("metadata.deletionTimestamp", timeText(old.DeletionTimestamp), timeText(updated.DeletionTimestamp)) // R3
	before, after := old.DeletionGracePeriodSeconds, updated.DeletionGracePeriodSeconds
	if (before == nil) != (after == nil) || before != nil && *before != *after {
		vs.broken("metadata.deletionGracePeriodSeconds", "field is immutable")
	}
	if old.Phase() == phase.Terminating {
		vs.add(NoNewFinalizers(old.Meta, updated.Meta)...)
	}
}

func timeText(t phase.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// sameFinalizers enforces rule R4.
func (vs *violations) sameFinalizers(old, updated Namespace) {
	if !updated.Spec.Finalizers.Equal(old.Spec.Finalizers) {
		vs.forbidden("spec.finalizers", "only finalize may change them")
	}
}

// NoNewFinalizers returns a violation if metadata.finalizers of updated has names that old does
// not have. It applies to objects that are being deleted, which the caller must check.
func NoNewFinalizers(old, updated Meta) []Violation {
	added, _ := old.Finalizers.Diff(updated.Finalizers)
	if len(added) == 0 {
		return nil
	}
	names := make([]string, 0, len(added))
	for _, n := range added {
		names = append(names, string(n))
	}
	slices.Sort(names) // as Kubernetes does
	return []Violation{ForbiddenField("metadata.finalizers", fmt.Sprintf(
		"no new finalizers can be added if the object is being deleted, found new finalizers %#v", names))}
}

// phase enforces rule R2.
func (vs *violations) phase(n Namespace) {
	switch derived := n.Phase(); {
	case n.Status.Phase == derived:
	case derived == phase.Active:
		vs.invalid("status.Phase", string(n.Status.Phase), "may only be 'Active' if `deletionTimestamp` is empty")
	default:
		vs.invalid("status.Phase", string(n.Status.Phase), "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
}

func (vs *violations) conditions(conditions []phase.Condition) {
	seen := make(map[phase.ConditionType]bool, len(conditions))
	for i, c := range conditions {
		at := indexed("status.conditions", i)
		switch {
		case c.Type == "":
			vs.required(at+".type", "")
		case seen[c.Type]:
			vs.add(Violation{FieldDuplicate, at + ".type", "Duplicate value: " + quoted(string(c.Type))})
		}
		seen[c.Type] = true
		vs.utf8(at+".type", string(c.Type))
		if c.Status != phase.True && c.Status != phase.False && c.Status != phase.Unknown {
			vs.add(Violation{FieldNotSupported, at + ".status",
				"Unsupported value: " + quoted(string(c.Status)) + `: supported values: "False", "True", "Unknown"`})
		}
		vs.time(at+".lastTransitionTime", c.LastTransitionTime)
		vs.utf8(at+".reason", c.Reason)
		vs.utf8(at+".message", c.Message)
	}
}

// size limits spec and status; ValidateMeta limits the metadata.
func (vs *violations) size(n Namespace) {
	vs.limit("spec.finalizers", setSize(n.Spec.Finalizers), MaxSize)
	size := 0
	for _, c := range n.Status.Conditions {
		size += len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
	}
	vs.limit("status.conditions", size, MaxSize)
}
