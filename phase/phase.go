// Package phase derives the state of a namespace: its phase, the stage of a terminating
// namespace, and the conditions that explain why it still exists.
//
// All of it is derived: the phase from the deletion timestamp (rule R2), the stage from the
// finalizers and the conditions, and the conditions from the observations of a pass (rule R9).
package phase

import "time"

// Phase is the phase of a namespace (design proposal of Kubernetes, "Phases").
type Phase string

// The phases. An incarnation goes from Active to Terminating and never back (rule R3).
const (
	Active      Phase = "Active"
	Terminating Phase = "Terminating"
)

// Of derives the phase: Terminating if and only if the deletion timestamp is set (rule R2).
func Of(deletion time.Time) Phase {
	if deletion.IsZero() {
		return Active
	}
	return Terminating
}

// Stage is the progress of a terminating namespace. It is derived and never stored. Other
// namespaces have the empty stage.
type Stage string

// The stages, in order.
const (
	DeletingContent      Stage = "DeletingContent"      // content remains, or may remain
	WaitingForFinalizers Stage = "WaitingForFinalizers" // content is deleted; a party has not removed its finalizer
	ReadyToRemove        Stage = "ReadyToRemove"        // no finalizer is left (rule R1)
)

// StageOf derives the stage from the deletion timestamp, the number of the namespace's
// finalizers of both kinds, and its conditions. Content counts as deleted if there is a
// ContentRemaining condition, of any party, and all of them are False.
func StageOf(deletion time.Time, finalizers int, conditions []Condition) Stage {
	switch {
	case Of(deletion) != Terminating:
		return ""
	case finalizers <= 0:
		return ReadyToRemove
	case contentDeleted(conditions):
		return WaitingForFinalizers
	}
	return DeletingContent
}

func contentDeleted(conditions []Condition) bool {
	found := false
	for _, c := range conditions {
		if plain, _ := c.Type.Split(); plain != ContentRemaining {
			continue
		}
		if c.Status != False {
			return false
		}
		found = true
	}
	return found
}
