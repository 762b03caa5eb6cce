package audit

import "slices"

// Drop is one call of force.Drop. At least one of Forcing and Forced is set.
type Drop struct {
	Forcing *Record // lists the remaining objects; nil: forgotten or unreadable
	Forced  *Record // nil: the call did not record its end
	Swept   *Record // the last sweep; nil: none has ended
}

// Drops returns the calls whose records are in the list, as pointers into it, in the order of the list.
// It omits calls that were refused, and unfinished calls that a later one resumed.
func Drops(records []Record) []Drop {
	var drops []Drop
	refused := map[string]bool{}
	resumed := map[string][]string{} // the IDs of the later calls
	for i := range records {
		r := &records[i]
		at := slices.IndexFunc(drops, func(d Drop) bool { return d.ID() == r.Follows })
		switch {
		case r.Action == Forcing:
			drops = append(drops, Drop{Forcing: r})
			resumed[r.Follows] = append(resumed[r.Follows], r.ID)
		case r.Action == Refused:
			refused[r.Follows] = true
		case r.Action == Forced && at < 0:
			drops = append(drops, Drop{Forced: r})
		case r.Action == Forced:
			drops[at].Forced = r
		case r.Action == Swept && at >= 0:
			drops[at].Swept = r
		}
	}
	return slices.DeleteFunc(drops, func(d Drop) bool {
		taken := func(id string) bool { return !refused[id] }
		return d.Forced == nil && (refused[d.ID()] || slices.ContainsFunc(resumed[d.ID()], taken))
	})
}

// ID returns the ID of the Forcing, which a sweep refers to.
func (d Drop) ID() string {
	if d.Forcing != nil {
		return d.Forcing.ID
	}
	return d.Forced.Follows
}

// Last returns the end of the call, or its beginning if no end is recorded.
func (d Drop) Last() Record {
	if d.Forced != nil {
		return *d.Forced
	}
	return *d.Forcing
}

// Left returns how many objects may remain, and how many sources did not answer the call.
// No sweep knows the objects of those sources. Without any inventory it returns one object.
func (d Drop) Left() (objects, unanswered int) {
	switch {
	case d.Forcing != nil && d.Swept != nil:
		return d.Swept.Objects, d.Forcing.Failures
	case d.Forcing != nil:
		return d.Forcing.Objects, d.Forcing.Failures
	case d.Swept != nil:
		return d.Swept.Objects, d.Swept.Failures
	}
	return 1, 0
}
