// Package phase derives where a namespace is in its life: its phase, the stage
// inside Terminating, and the conditions that say why it is still there.
//
// Nothing here is stored truth. The phase follows from the deletion timestamp
// (rule R2) and the conditions from what a pass observed (rule R9).
package phase

import "time"

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
