package explain

import (
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// force is one call of force.Drop, as the audit log records it. At least one of begun and
// ended is set.
type force struct {
	begun *audit.Record // with the remaining objects; nil: forgotten or unreadable
	ended *audit.Record // nil: the call did not record its end
	swept *audit.Record // the last sweep
}

// last is the end of the call, or its beginning.
func (f force) last() audit.Record {
	if f.ended != nil {
		return *f.ended
	}
	return *f.begun
}

func (f force) uid() string { return f.last().UID }

// id is the id of the record that a sweep refers to.
func (f force) id() string {
	if f.begun != nil {
		return f.begun.ID
	}
	return f.ended.Follows
}

// left returns how many objects may still be there, and how many sources did not answer
// the call. A sweep does not know the objects of those.
func (f force) left() (objects, unanswered int) {
	switch {
	case f.begun == nil && f.swept == nil:
		return 1, 0 // at least
	case f.begun == nil:
		return counts(*f.swept)
	}
	objects, unanswered = counts(*f.begun)
	if f.swept != nil {
		objects, _ = counts(*f.swept)
	}
	return objects, unanswered
}

// open reports whether something remains to be done.
func (f force) open() bool {
	objects, unanswered := f.left()
	return objects+unanswered > 0
}

// counts returns the size of the inventory of r. Listed records only have its counts.
func counts(r audit.Record) (objects, failures int) {
	if r.Inventory == nil {
		return r.Objects, r.Failures
	}
	return len(r.Inventory.Objects), len(r.Inventory.Failures)
}

// forcesIn pairs the records of calls, the oldest first. It omits refused calls, and
// unfinished ones that a later call completed.
func forcesIn(records []audit.Record) []force {
	var list []force
	refused, resumed := map[string]bool{}, map[string]string{}
	for i := range records {
		r := &records[i]
		at := slices.IndexFunc(list, func(f force) bool { return f.uid() == r.UID && f.id() == r.Follows })
		switch {
		case r.Action == audit.Forcing:
			list = append(list, force{begun: r})
			resumed[r.Follows] = r.ID
		case r.Action == audit.Forced && at >= 0:
			list[at].ended = r
		case r.Action == audit.Forced:
			list = append(list, force{ended: r})
		case r.Action == audit.Refused:
			refused[r.Follows] = true
		case r.Action == audit.Swept && at >= 0:
			list[at].swept = r
		}
	}
	return slices.DeleteFunc(list, func(f force) bool {
		next, again := resumed[f.id()]
		return f.ended == nil && (refused[f.id()] || again && !refused[next])
	})
}

// maxForces bounds how many calls a diagnosis lists.
const maxForces = 16

// relevantForces returns the latest calls that are open, of any incarnation, and the last
// call for the incarnation uid (empty: any). It omits calls without an end whose finalizers
// are all still set.
func relevantForces(forces []force, uid string, stillSet func(force) bool) []force {
	forces = slices.DeleteFunc(forces, func(f force) bool { return f.ended == nil && stillSet(f) })
	last := len(forces) - 1
	for last >= 0 && uid != "" && forces[last].uid() != uid {
		last--
	}
	var list []force
	for i, f := range forces {
		if i == last || f.open() {
			list = append(list, f)
		}
	}
	return list[max(len(list)-maxForces, 0):]
}
