package declare

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// MaxGrace is the longest grace.
const MaxGrace = 365 * 24 * time.Hour

// Hold is a scheduled deletion: the namespace is Active, and becomes Terminating at Until
// unless the hold is removed before. It is an annotation, [HoldAnnotation]. A hold has no
// effect on a terminating namespace (rule R3). By is unverified unless a DELETE of an
// authenticated client has set the hold; package audit records the writer of the annotation.
type Hold struct {
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Due reports whether the hold is over: now is Until or later.
func (h Hold) Due(now time.Time) bool { return !now.Before(h.Until) }

// Annotation returns the annotation that declares h. The error is an [*namespace.Error] of
// kind [namespace.ErrInvalid] if Until is missing, or if By (at most 512 bytes) or Reason (at
// most 1024) is too long or not of one line.
func (h Hold) Annotation() (key, value string, err error) {
	return writeAnnotation(HoldAnnotation, h.fields())
}

func (h *Hold) fields() []field {
	return []field{
		{name: "until", time: &h.Until, limit: maxTime},
		{name: "by", text: &h.By, limit: maxName, optional: true},
		{name: "reason", text: &h.Reason, limit: maxReason, optional: true},
	}
}

// HoldOf returns the hold of a namespace, and whether its annotation exists. The error, an
// [*namespace.Error] of kind [namespace.ErrInvalid], reports an unreadable annotation, which
// neither deletes the namespace nor delays a deletion.
func HoldOf(m namespace.Meta) (Hold, bool, error) {
	value, ok := m.Annotations[HoldAnnotation]
	if !ok {
		return Hold{}, false, nil
	}
	h, err := readHold(value)
	if err != nil {
		return Hold{}, true, invalidAnnotation(m, HoldAnnotation, err)
	}
	return h, true, nil
}

func readHold(value string) (Hold, error) {
	var h Hold
	err := readAnnotation(HoldAnnotation, value, h.fields())
	return h, err
}

// WithHold returns n with h in place of any other hold. It returns the errors of
// [Hold.Annotation].
func WithHold(n namespace.Namespace, h Hold) (namespace.Namespace, error) {
	key, value, err := h.Annotation()
	if err != nil {
		return namespace.Namespace{}, err
	}
	n = n.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = make(map[string]string, 1)
	}
	n.Annotations[key] = value
	return n, nil
}

// GraceOf returns the delay that a [GraceAnnotation] gives every DELETE of a namespace, or zero
// if there is none. The error is an [*namespace.Error] of kind [namespace.ErrInvalid] if the
// annotation is not a duration between zero and [MaxGrace].
func GraceOf(m namespace.Meta) (time.Duration, error) {
	value, ok := m.Annotations[GraceAnnotation]
	if !ok {
		return 0, nil
	}
	grace, err := readGrace(value)
	if err != nil {
		return 0, invalidAnnotation(m, GraceAnnotation, err)
	}
	return grace, nil
}

func readGrace(value string) (time.Duration, error) {
	grace, err := time.ParseDuration(value)
	if err != nil || grace < 0 || grace > MaxGrace {
		return 0, errors.New(`must be a duration such as "90m" or "24h": not negative, and at most 8760h`)
	}
	return grace, nil
}

func invalidAnnotation(m namespace.Meta, key string, err error) error {
	return namespace.Invalid(namespace.Kind, namespace.Resource, m.Name, []namespace.Violation{unreadable(key, m.Annotations[key], err)})
}

// PrepareDelete returns the result of a DELETE of n at now, requested by the user by (may be
// empty). It takes the place of [namespace.MarkDeleted]:
//
//	grace       hold                   result
//	none, 0     any                    Terminating
//	set         none or unreadable     on hold for the grace, rounded up to a second
//	set         before its end         unchanged
//	any         over                   Terminating
//	unreadable  any other              refused with [namespace.ErrForbidden]: the delay is unknown
//
// A terminating namespace is unchanged (rule R3). The hold's By is the [Printable] part of by.
func PrepareDelete(n namespace.Namespace, by string, now time.Time) (namespace.Namespace, error) {
	if n.Phase() == phase.Terminating {
		return n.DeepCopy(), nil
	}
	if _, ok := n.Annotations[GraceAnnotation]; !ok {
		return namespace.MarkDeleted(n, now), nil
	}
	hold, held, unreadable := HoldOf(n.Meta)
	held = held && unreadable == nil
	if held && hold.Due(now) {
		return namespace.MarkDeleted(n, now), nil
	}
	grace, err := GraceOf(n.Meta)
	switch {
	case err != nil:
		return namespace.Namespace{}, unknownGrace(n.Meta, err)
	case grace == 0:
		return namespace.MarkDeleted(n, now), nil
	case held:
		return n.DeepCopy(), nil
	}
	return WithHold(n, Hold{
		Until: roundUp(now.Add(grace)), By: Printable(by, maxName),
		Reason: fmt.Sprintf("requested by DELETE; the namespace has a grace of %v", grace),
	})
}

// unknownGrace refuses a deletion because the grace cannot be read.
func unknownGrace(m namespace.Meta, err error) error {
	refusal := &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: namespace.Resource, Name: m.Name, Err: err,
		Message: fmt.Sprintf("%s is forbidden: its deletion grace cannot be read; correct or remove the annotation %s first",
			subject(m), GraceAnnotation),
	}
	var invalid *namespace.Error
	if errors.As(err, &invalid) {
		refusal.Causes = invalid.Causes
	}
	return refusal
}

// roundUp returns the first whole second at or after t.
func roundUp(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}
