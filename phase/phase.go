// Package phase derives where a namespace is in its life: its phase, the stage
// inside Terminating, and the conditions that say why it is still there.
//
// Nothing here is stored truth. The phase follows from the deletion timestamp
// (rule R2), the stage from the finalizers and the conditions, and the
// conditions from what a pass observed (rule R9).
package phase

import (
	"strings"
	"time"
)

// Phase is where a namespace is in its life (design document, "Phases").
type Phase string

// The phases. A namespace that was removed has none.
const (
	Active      Phase = "Active"
	Terminating Phase = "Terminating"
)

// Of derives the phase from the deletion timestamp: Terminating if and only if
// it is set (rule R2).
func Of(deletion time.Time) Phase {
	if deletion.IsZero() {
		return Active
	}
	return Terminating
}

// Legal reports whether a write may take one incarnation of a namespace from one
// phase to the other: it stays what it is, or goes from Active to Terminating,
// and never back (rule R3).
func Legal(from, to Phase) bool {
	switch from {
	case Active:
		return to == Active || to == Terminating
	case Terminating:
		return to == Terminating
	}
	return false
}

// Stage is how far a terminating namespace has come. It is derived and never
// stored. A namespace that is not terminating is at the empty stage.
type Stage string

// The stages inside Terminating, in order.
const (
	DeletingContent      Stage = "DeletingContent"      // content remains, or nobody knows that it does not
	WaitingForFinalizers Stage = "WaitingForFinalizers" // content is gone; some party has not let go yet
	ReadyToRemove        Stage = "ReadyToRemove"        // nothing holds it (rule R1)
)

// StageOf derives the stage from the deletion timestamp, the number of
// finalizers of both kinds that the namespace has, and its conditions. Content
// counts as gone when a ContentRemaining condition is there, of any party, and
// every one of them is False.
func StageOf(deletion time.Time, finalizers int, conditions []Condition) Stage {
	switch {
	case Of(deletion) != Terminating:
		return ""
	case finalizers <= 0:
		return ReadyToRemove
	case contentGone(conditions):
		return WaitingForFinalizers
	}
	return DeletingContent
}

func contentGone(conditions []Condition) bool {
	told := false
	for _, c := range conditions {
		if c.Type != ContentRemaining && !strings.HasSuffix(string(c.Type), "."+string(ContentRemaining)) {
			continue
		}
		if c.Status != False {
			return false
		}
		told = true
	}
	return told
}
