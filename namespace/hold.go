package namespace

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/phase"
)

// The annotations of a delayed deletion.
const (
	// HoldAnnotation schedules the deletion of an Active namespace: a [Hold] as JSON.
	// Setting it requires permission to delete the namespace. Package apiserver asks its
	// Authorizer for the verb delete too, and a host that updates namespaces for its users
	// through the Go API must do the same. A create or an update cannot set a past time.
	HoldAnnotation = "nslifecycle.io/delete-after"
	// GraceAnnotation is a duration ("24h"): DELETE puts the namespace on hold for this
	// duration instead of making it Terminating at once. Until the hold ends the namespace
	// is Active and its content can be created and changed. Package hold ends holds. If it
	// does not run, a namespace stays on hold until it is deleted again.
	GraceAnnotation = "nslifecycle.io/deletion-grace"
)

// MaxGrace is the longest grace. Nobody remembers a DELETE for longer.
const MaxGrace = 365 * 24 * time.Hour

// Hold is a deletion that was asked for and has not begun: the namespace is Active, and
// becomes Terminating at Until unless the hold is taken off before. It is an
// annotation, [HoldAnnotation], so that every client can set, see and remove it. That of
// a namespace that is Terminating means nothing any more (rule R3). By is a claim, unless
// a DELETE of an authenticated client has set the hold; who wrote the annotation is on
// record (package audit).
type Hold struct {
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Due reports whether the hold is over: from Until on.
func (h Hold) Due(now time.Time) bool { return !now.Before(h.Until) }

// Annotation returns h as the annotation that sets it. The error is an [*Error] of kind
// [ErrInvalid] for a hold without an end, and for text that is too long (512 bytes of By,
// 1024 of Reason) or not of one line.
func (h Hold) Annotation() (key, value string, err error) {
	until, err := writeTime("until", h.Until)
	if err != nil {
		return "", "", badDeclaration(HoldAnnotation, err)
	}
	return writeAnnotation(HoldAnnotation, h.members(&until))
}

// HoldOf returns the hold that the metadata of a namespace declares, and whether there
// is one. The error, an [*Error] of kind [ErrInvalid] with one cause, is of an
// annotation that is there and cannot be read: unknown members are refused, until is
// required. It holds nothing up, and nothing is deleted because of it.
func HoldOf(m Meta) (Hold, bool, error) {
	value, ok := m.Annotations[HoldAnnotation]
	if !ok {
		return Hold{}, false, nil
	}
	h, err := readHold(value)
	if err != nil {
		return Hold{}, true, Invalid(Kind, Resource, m.Name, []Violation{unreadable(HoldAnnotation, value, err)})
	}
	return h, true, nil
}

func (h *Hold) members(until *string) []member {
	return []member{
		{name: "until", value: until, limit: maxMoment},
		{name: "by", value: &h.By, limit: maxWho, optional: true},
		{name: "reason", value: &h.Reason, limit: maxWhy, optional: true},
	}
}

func readHold(text string) (h Hold, err error) {
	var until string
	if err = readAnnotation(HoldAnnotation, text, h.members(&until)); err == nil {
		h.Until, err = readTime("until", until)
	}
	if err != nil {
		return Hold{}, err
	}
	return h, nil
}

// GraceOf returns for how long a DELETE puts a namespace with this metadata on hold;
// zero: not at all. A [GraceAnnotation] that is no duration, or a negative one, or one
// above [MaxGrace], is an [*Error] of kind [ErrInvalid] with one cause.
func GraceOf(m Meta) (time.Duration, error) {
	value, ok := m.Annotations[GraceAnnotation]
	if !ok {
		return 0, nil
	}
	grace, err := time.ParseDuration(value)
	if err == nil && grace >= 0 && grace <= MaxGrace {
		return grace, nil
	}
	return 0, Invalid(Kind, Resource, m.Name, []Violation{
		invalid("metadata.annotations["+GraceAnnotation+"]", value, `must be a duration such as "90m" or "24h": not negative, and at most 8760h`),
	})
}

// PrepareDelete returns n as a DELETE by somebody (empty: it is not known by whom)
// leaves it, which may be as it is:
//
//   - Terminating, if it has no grace ([GraceOf]), or is on hold and the time of that has
//     come ([Hold.Due]); see [MarkDeleted]
//   - Active and on hold from now for the grace, rounded up to a second; a hold that
//     cannot be read is replaced
//   - as it is, while it is on hold and has a grace, and if it is Terminating (rule R3)
//
// A namespace whose grace cannot be read is refused with [ErrForbidden], unless its hold
// is over: nobody knows how much time it was to have. What a hold cannot say of somebody's
// name is left out of it: hidden characters, and what is beyond 512 bytes.
func PrepareDelete(n Namespace, by string, now time.Time) (Namespace, error) {
	if n.Phase() == phase.Terminating {
		return n.DeepCopy(), nil
	}
	if _, ok := n.Annotations[GraceAnnotation]; !ok {
		return MarkDeleted(n, now), nil
	}
	hold, held, unreadable := HoldOf(n.Meta)
	held = held && unreadable == nil
	if held && hold.Due(now) {
		return MarkDeleted(n, now), nil
	}
	grace, err := GraceOf(n.Meta)
	switch {
	case err != nil:
		return Namespace{}, unknownGrace(n.Name, err)
	case grace == 0:
		return MarkDeleted(n, now), nil
	case held:
		return n.DeepCopy(), nil
	}
	return WithHold(n, Hold{
		Until: upToSecond(now.Add(grace)), By: fitting(by, maxWho),
		Reason: fmt.Sprintf("DELETE was asked for, and the namespace has a grace of %v", grace),
	})
}

// unknownGrace refuses a deletion because of a grace that cannot be read.
func unknownGrace(name string, err error) error {
	refusal := &Error{
		Kind: ErrForbidden, Resource: Resource, Name: name, Err: err,
		Message: fmt.Sprintf("%s %s is forbidden: how long its deletion is to be held cannot be read; correct or remove the annotation %s first",
			Resource, quoted(name), GraceAnnotation),
	}
	var invalid *Error
	if errors.As(err, &invalid) {
		refusal.Causes = invalid.Causes
	}
	return refusal
}

// WithHold returns n on hold, instead of what hold it may have. The errors are those of
// [Hold.Annotation].
func WithHold(n Namespace, h Hold) (Namespace, error) {
	key, value, err := h.Annotation()
	if err != nil {
		return Namespace{}, err
	}
	n = n.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = make(map[string]string, 1)
	}
	n.Annotations[key] = value
	return n, nil
}

// upToSecond returns the first whole second at or after t.
func upToSecond(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// HoldEvent tells of one namespace on hold.
type HoldEvent struct {
	Type  HoldEventType
	Name  string    // empty in a [HoldsSynced]
	UID   string    // the incarnation
	Until time.Time // of a [HoldSet]
	Token string    // where to resume after this event; empty: nowhere yet
}

// HoldEventType is the kind of a [HoldEvent]. The zero value is none.
type HoldEventType uint8

// The kinds of hold events.
const (
	HoldSet     HoldEventType = iota + 1 // the namespace is on hold, or its hold has changed
	HoldOver                             // it no longer is: restored, terminating or gone
	HoldsSynced                          // everything up to Token has been delivered; no namespace is named
)
