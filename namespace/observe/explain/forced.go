package explain

import (
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// open reports whether something remains to be done for a forced drop.
func open(d audit.Drop) bool {
	objects, unanswered := d.Left()
	return objects+unanswered > 0
}

// maxForces bounds how many calls a diagnosis lists.
const maxForces = 16

// relevantForces returns the latest calls that are open, of any incarnation, and the last
// call for the incarnation uid (empty: any). It omits calls without an end whose finalizers
// are all still set.
func relevantForces(forces []audit.Drop, uid string, stillSet func(audit.Drop) bool) []audit.Drop {
	forces = slices.DeleteFunc(forces, func(d audit.Drop) bool { return d.Forced == nil && stillSet(d) })
	last := len(forces) - 1
	for last >= 0 && uid != "" && forces[last].Last().UID != uid {
		last--
	}
	var list []audit.Drop
	for i, d := range forces {
		if i == last || open(d) {
			list = append(list, d)
		}
	}
	return list[max(len(list)-maxForces, 0):]
}
