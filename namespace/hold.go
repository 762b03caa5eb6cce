package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/phase"
)

// The annotations of a delayed deletion.
const (
	// HoldAnnotation says when an Active namespace will be deleted: a [Hold] as JSON.
	HoldAnnotation = "nslifecycle.io/delete-after"
	// GraceAnnotation is a duration ("24h"): DELETE puts the namespace on hold for so
	// long, instead of making it Terminating at once.
	GraceAnnotation = "nslifecycle.io/deletion-grace"
)

// maxHold is the greatest size of the value of a [HoldAnnotation], in bytes.
const maxHold = 4 << 10

// Hold is a deletion that was asked for and has not begun: the namespace is Active, and
// becomes Terminating at Until unless the hold is taken off before. It is an
// annotation, [HoldAnnotation], so that every client can set, see and remove it. That of
// a namespace that is Terminating means nothing any more (rule R3).
type Hold struct {
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Due reports whether the hold is over: from Until on.
func (h Hold) Due(now time.Time) bool { return !now.Before(h.Until) }

// Annotation returns h as the annotation that sets it. A hold without an end, one that
// is longer than 4 KiB, and text that is not valid UTF-8 are refused with [ErrInvalid].
func (h Hold) Annotation() (key, value string, err error) {
	switch {
	case h.Until.IsZero():
		return "", "", invalidHold("", "", "until is required: when the deletion is to begin")
	case !utf8.ValidString(h.By):
		return "", "", invalidHold("", h.By, "by must be valid UTF-8")
	case !utf8.ValidString(h.Reason):
		return "", "", invalidHold("", h.Reason, "reason must be valid UTF-8")
	}
	h.Until = h.Until.UTC()
	data, err := json.Marshal(h)
	if err != nil { // a year that has no more than four digits
		return "", "", invalidHold("", "", err.Error())
	}
	if len(data) > maxHold {
		return "", "", invalidHold("", "", longHold)
	}
	return HoldAnnotation, string(data), nil
}

var longHold = fmt.Sprintf("may not be more than %d bytes", maxHold)

// HoldOf returns the hold that the metadata of a namespace declares, and whether there
// is one. The error, an [*Error] of kind [ErrInvalid] with one cause, is of an
// annotation that is there and cannot be read: unknown fields are refused, until is
// required. It holds nothing up, and nothing is deleted because of it.
func HoldOf(m Meta) (Hold, bool, error) {
	value, ok := m.Annotations[HoldAnnotation]
	if !ok {
		return Hold{}, false, nil
	}
	h, why := decodeHold(value)
	if why != "" {
		return Hold{}, true, invalidHold(m.Name, value, why)
	}
	return h, true, nil
}

// decodeHold returns the hold in the value of an annotation, or what is wrong with it.
func decodeHold(value string) (h Hold, why string) {
	switch {
	case len(value) > maxHold:
		return Hold{}, longHold
	case !utf8.ValidString(value):
		return Hold{}, "must be valid UTF-8"
	}
	d := json.NewDecoder(strings.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(&h)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return Hold{}, `must be an object such as {"until":"2030-01-02T15:04:05Z","by":"...","reason":"..."}: ` + err.Error()
	}
	if h.Until.IsZero() {
		return Hold{}, "until is required: when the deletion is to begin"
	}
	h.Until = h.Until.UTC()
	return h, ""
}

func invalidHold(name, value, why string) error {
	return Invalid(Kind, Resource, name, []Violation{invalid("metadata.annotations["+HoldAnnotation+"]", value, why)})
}

// GraceOf returns for how long a DELETE puts a namespace with this metadata on hold;
// zero: not at all. A [GraceAnnotation] that is no duration, or a negative one, is an
// [*Error] of kind [ErrInvalid] with one cause.
func GraceOf(m Meta) (time.Duration, error) {
	value, ok := m.Annotations[GraceAnnotation]
	if !ok {
		return 0, nil
	}
	grace, err := time.ParseDuration(value)
	if err == nil && grace >= 0 {
		return grace, nil
	}
	return 0, Invalid(Kind, Resource, m.Name, []Violation{
		invalid("metadata.annotations["+GraceAnnotation+"]", value, `must be a duration such as "90m" or "24h", and not negative`),
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
// is over: nobody knows how much time it was to have.
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
		Until: upToSecond(now.Add(grace)), By: by,
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
