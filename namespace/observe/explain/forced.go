package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// force is one call that dropped finalizers by force, or may have.
type force struct {
	begun *audit.Record // with what was left; nil: it is not there
	end   *audit.Record // that they were dropped; nil: the call did not get to say so
	swept *audit.Record // the last sweep of what was left
}

// first is the record that is there in any case.
func (f force) first() audit.Record {
	if f.begun != nil {
		return *f.begun
	}
	return *f.end
}

func (f force) uid() string { return f.first().UID }

// id is that of the record a sweep goes by.
func (f force) id() string {
	if f.begun != nil {
		return f.begun.ID
	}
	return f.end.Follows
}

// last is the end, or else the beginning.
func (f force) last() audit.Record {
	if f.end != nil {
		return *f.end
	}
	return *f.begun
}

// forcesIn pairs the records of calls that were not refused, the oldest first. A call
// that did not get to its end is left out if a later one went on with it.
func forcesIn(records []audit.Record) []force {
	var list []force
	refused, resumed := map[string]bool{}, map[string]string{}
	find := func(r *audit.Record) *force {
		at := slices.IndexFunc(list, func(f force) bool { return f.uid() == r.UID && f.id() == r.Follows })
		if at < 0 {
			return nil
		}
		return &list[at]
	}
	for i := range records {
		r := &records[i]
		f := find(r)
		switch {
		case r.Action == audit.Forcing:
			list = append(list, force{begun: r})
			resumed[r.Follows] = r.ID
		case r.Action == audit.Forced && f != nil:
			f.end = r
		case r.Action == audit.Forced:
			list = append(list, force{end: r})
		case r.Action == audit.Refused:
			refused[r.Follows] = true
		case r.Action == audit.Swept && f != nil:
			f.swept = r
		}
	}
	return slices.DeleteFunc(list, func(f force) bool {
		next, again := resumed[f.id()]
		return f.end == nil && (refused[f.id()] || again && !refused[next])
	})
}

// left returns how many objects may be there still that force has left, and how many
// sources did not tell then, whose objects no sweep knows. Without the record of what
// was left, something was, unless a sweep says otherwise.
func (f force) left() (objects, untold int) {
	switch {
	case f.begun == nil && f.swept == nil:
		return 1, 0
	case f.begun == nil:
		return counts(*f.swept)
	}
	objects, untold = counts(*f.begun)
	if f.swept != nil {
		objects, _ = counts(*f.swept)
	}
	return objects, untold
}

// unfinished reports whether something is to be done about what it has left.
func (f force) unfinished() bool {
	objects, untold := f.left()
	return objects > 0 || untold > 0
}

// counts returns how much is in the inventory of r, which a listing leaves out.
func counts(r audit.Record) (objects, failures int) {
	if r.Inventory == nil {
		return r.Objects, r.Failures
	}
	return len(r.Inventory.Objects), len(r.Inventory.Failures)
}

// maxForces bounds how many of them are told, the latest.
const maxForces = 16

// worthTelling returns those of forces that left something, of any incarnation, and the
// last one of this (uid empty: of any). Where the namespace is there still, as held says
// of a finalizer, one without an end counts only if it is not held any more.
func worthTelling(forces []force, uid string, held func(force) bool) []force {
	forces = slices.DeleteFunc(forces, func(f force) bool { return f.end == nil && held(f) })
	last := len(forces) - 1
	for last >= 0 && uid != "" && forces[last].uid() != uid {
		last--
	}
	var list []force
	for i, f := range forces {
		if i == last || f.unfinished() {
			list = append(list, f)
		}
	}
	return list[max(len(list)-maxForces, 0):]
}

// records finds what operators did to this incarnation, and what they left of others.
func (b *builder) records() {
	uid := b.d.UID
	if !b.exists {
		uid = b.in.History.UID
	}
	b.forces = worthTelling(forcesIn(b.in.Records), uid, b.holds)
}

// holds reports whether the namespace is there with all finalizers that were to be
// dropped, or may be.
func (b *builder) holds(f force) bool {
	return b.in.Unread != "" || b.exists && f.uid() == b.d.UID && !slices.ContainsFunc(f.first().Finalizers, func(name finalizer.Name) bool {
		return !b.in.Namespace.Spec.Finalizers.Has(name)
	})
}

// forced explains finalizers that were dropped by force, and what was left then.
func (b *builder) forced() {
	for _, f := range b.forces {
		b.cause(b.force(f))
	}
}

func (b *builder) force(f force) Cause {
	r := f.last()
	var list []string
	for _, name := range r.Finalizers {
		list = append(list, string(name))
	}
	c := Cause{Kind: Forced, Source: listed(list, maxSample), Since: r.Time, Remedy: f.remedy()}
	what := "dropped"
	if f.end == nil {
		what = "began to drop"
	}
	c.Summary = fmt.Sprintf("%s %s %s by force %s ago: %s", orSomebody(r.By), what, c.Source, human(b.age(r.Time)), r.Reason)
	if b.exists && f.uid() != b.d.UID {
		c.Summary = fmt.Sprintf("of an earlier namespace of that name (uid %s): %s", f.uid(), c.Summary)
	}
	var details []string
	if f.end == nil {
		details = append(details, "whether that was done is not on record")
	}
	if f.begun != nil && f.begun.Inventory != nil {
		details = append(details, "left then: "+inventory(f.begun.Inventory))
	}
	if f.swept != nil {
		details = append(details, strings.TrimSpace(fmt.Sprintf("swept %s ago: %s", human(b.age(f.swept.Time)), f.swept.Detail)))
	}
	c.Detail = strings.Join(details, "; ")
	return c
}

// remedy is what to do about what force has left.
func (f force) remedy() Remedy {
	objects, untold := f.left()
	again := ""
	if f.end == nil {
		again = "Call force.Drop again with the same request, which puts on record what became of it. "
	}
	switch {
	case f.begun == nil && objects+untold > 0:
		return Remedy{Text: fmt.Sprintf("The record %s of what was left was forgotten, or cannot be read, so no sweep can go by it: see what is left under that name, and remove it.", f.id())}
	case objects > 0:
		return Remedy{Text: fmt.Sprintf("%sRemove what was left: force.Sweep with the record %s.", again, f.id())}
	case untold > 0:
		return Remedy{Text: again + plural(untold, "source", "sources") + " did not tell then what they hold, so no sweep knows: see what is left there, and remove it."}
	}
	return Remedy{Text: cmp.Or(strings.TrimSpace(again), "Nothing more is to be done for it.")}
}
