package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// How long something may take before it is a cause.
const (
	startGrace = 30 * time.Second // until the first pass, and within one
	idleGrace  = 2 * time.Minute  // after the time of the next pass
	stallGrace = time.Hour        // without a change of a count
)

// facts is everything that the rules read. Where the sources contradict each other, gather
// has decided; see DESIGN.md.
type facts struct {
	Input
	history History // of this incarnation
	name    string
	uid     string
	phase   phase.Phase // empty: absent, or not known
	stage   phase.Stage
	since   time.Time
	exists  bool // Namespace is set

	protections []declare.Protection // of an active namespace
	delayed     bool                 // it has a hold
	hold        declare.Hold
	holdErr     error

	conditions []condition
	failures   []failing
	objects    []objects
	blockers   []blocker
	progress   *Progress
	arriving   bool          // nothing remains, but content may still arrive
	arrivingIn time.Duration // within this time; zero: not known
	holders    []holder
	attendance Kind // Removable, Queued, SourceSlow, Unattended, Starting, or empty
	attended   time.Time
	overdue    []partyHistory // controllers that stopped working on a finalizer
	waivers    []waiver
	expired    []declare.Waiver
	forces     []audit.Drop
}

// failing is a failure of the last pass or in a condition.
type failing struct {
	Failure
	asOf time.Time // zero: it is current
}

// objects is remaining content and the kind of cause that it is; empty: another cause
// explains it.
type objects struct {
	Objects
	kind Kind
}

// blocker is a finalizer on objects.
type blocker struct {
	finalizer finalizer.Name
	objects   int
	since     time.Time
	resource  string  // of some of the objects
	where     []place // empty: read from a condition
}

// place is a resource type with objects that a blocker holds.
type place struct {
	*objects
	by *HeldBy
}

// holder is a finalizer of the namespace and the kind of cause that it is; empty: none.
type holder struct {
	Holder
	kind    Kind
	overdue time.Time // the missed pass of its controller in this process
}

// waiver is a waiver in force.
type waiver struct {
	declare.Waiver
	waived  string   // the failure that it waived in the last pass
	failure *Failure // the failure that it did not waive
}

// gather reads the sources and resolves their contradictions.
func gather(in Input) *facts {
	ns := in.Namespace
	in.Primary = cmp.Or(in.Primary, finalizer.Kubernetes)
	f := &facts{Input: in, exists: ns.Name != "" || ns.UID != "", uid: ns.UID, conditions: conditionsOf(ns, in.Primary)}
	if !f.exists || in.History.uid == "" || in.History.uid == ns.UID {
		f.history = in.History
	}
	f.name = cmp.Or(in.Name, ns.Name)
	switch {
	case f.exists:
		f.phase, f.stage, f.since = ns.Phase(), ns.Stage(), ns.CreationTimestamp.Time
		if f.phase == phase.Terminating {
			f.since = ns.DeletionTimestamp.Time
		}
	case f.unreadable() && f.history.uid != "":
		f.uid, f.phase = f.history.uid, phase.Terminating
		f.since = f.history.deletedAt
		if f.since.IsZero() {
			f.since = f.history.began
		}
	}
	f.gatherForces()
	switch {
	case f.phase == phase.Active:
		f.gatherDeclarations()
		return f
	case f.absent():
		f.progress = f.measure()
		return f
	}
	f.gatherFailures()
	f.gatherObjects()
	f.gatherBlockers()
	f.progress = f.measure()
	f.gatherArriving()
	for i := range f.objects {
		f.objects[i].kind = f.classifyObjects(f.objects[i].Objects)
	}
	f.gatherHolders()
	f.gatherAttendance()
	f.gatherWaivers()
	return f
}

// absent reports whether no namespace has the name.
func (f *facts) absent() bool { return !f.exists && f.Unread == nil }

// unreadable reports whether the namespace could not be read. It is Terminating if it was
// recorded, else its phase is not known.
func (f *facts) unreadable() bool { return !f.exists && f.Unread != nil }

// age returns how long ago t was, or zero.
func (f *facts) age(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(f.Now.Sub(t), 0)
}

func (f *facts) gatherForces() {
	uid := f.uid
	if uid == "" {
		uid = f.history.uid
	}
	f.forces = relevantForces(audit.Drops(f.Records), uid, func(call audit.Drop) bool {
		dropped := func(name finalizer.Name) bool { return !f.Namespace.Spec.Finalizers.Has(name) }
		return f.unreadable() || f.exists && call.Last().UID == f.uid && !slices.ContainsFunc(call.Last().Finalizers, dropped)
	})
}

// maxForces bounds how many forced drops a diagnosis lists.
const maxForces = 16

// relevantForces returns the latest drops that are open, of any incarnation, and the last drop
// for the incarnation uid (empty: any). It omits drops without an end whose finalizers are all
// still set.
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

// gatherDeclarations reads protections and a hold. An unreadable protection protects as well.
func (f *facts) gatherDeclarations() {
	protections, _ := declare.Protections(f.Namespace.Meta)
	for key := range f.Namespace.Annotations {
		name, ok := strings.CutPrefix(key, declare.ProtectionPrefix)
		if ok && !slices.ContainsFunc(protections, func(p declare.Protection) bool { return p.Name == name }) {
			protections = append(protections, declare.Protection{Name: name})
		}
	}
	slices.SortFunc(protections, func(a, b declare.Protection) int { return strings.Compare(a.Name, b.Name) })
	hold, delayed, err := declare.HoldOf(f.Namespace.Meta)
	switch {
	case !f.Unguarded:
		f.protections, f.delayed, f.hold, f.holdErr = protections, delayed, hold, err
	case len(protections) > 0 || delayed:
		f.Notes = append(slices.Clip(f.Notes), "the host of the namespace does not enforce the protections and the hold in its annotations")
	}
}

// missed reports whether a controller should have reported something long ago.
func (f *facts) missed(p partyHistory) bool {
	return p.queued.IsZero() && p.running.IsZero() && !p.done && !p.left && f.age(p.due()) > idleGrace
}

// due returns when the next report is due at the latest.
func (p partyState) due() time.Time {
	if !p.next.At.IsZero() {
		return p.next.At
	}
	return p.reported
}

// current reports whether the record of a party is still true. If it is not, another
// process may have worked on the namespace since, and the conditions take precedence.
func (f *facts) current(p partyHistory) bool {
	return !p.observed.IsZero() && !p.done && !p.left && !f.missed(p)
}

// superseded reports whether the record of a party takes precedence over its conditions.
func (f *facts) superseded(c condition) bool {
	return slices.ContainsFunc(f.history.parties, func(p partyHistory) bool { return p.party == c.party && f.current(p) })
}

// reported returns the True conditions of a type that no record supersedes.
func (f *facts) reported(t phase.ConditionType) []condition {
	var list []condition
	for _, c := range f.conditions {
		if c.plain == t && c.Status == phase.True && !f.superseded(c) {
			list = append(list, c)
		}
	}
	return list
}

func anyCondition(condition) bool { return true }

// gatherFailures collects the failures of the last passes, one for each source, and those
// of other processes from the conditions.
func (f *facts) gatherFailures() {
	h := f.history
	bySource := map[string]*failing{}
	for _, p := range h.parties {
		for _, s := range p.failing {
			asOf := p.observed
			if f.current(p) {
				asOf = time.Time{}
			} else if asOf.IsZero() || has(f.conditions, p.party, anyCondition) {
				continue
			}
			one := bySource[s.source]
			if one == nil {
				one = &failing{Failure{Kind: SourceFailed, Source: s.source, Text: "it failed in the last pass"}, asOf}
				if i := slices.IndexFunc(h.failures, func(g Failure) bool { return g.Source == s.source }); i >= 0 {
					one.Failure = h.failures[i]
				}
				bySource[s.source] = one
			}
			one.Count, one.First = s.passes, s.since
			if !one.asOf.IsZero() && (asOf.IsZero() || asOf.After(one.asOf)) {
				one.asOf = asOf
			}
		}
	}
	for _, one := range bySource {
		f.failures = append(f.failures, *one)
	}
	slices.SortFunc(f.failures, func(a, b failing) int { return strings.Compare(a.Source, b.Source) })
	for _, t := range failureConditions {
		for _, c := range f.reported(t.condition) {
			f.failures = append(f.failures, failing{Failure: c.failure(t.kind, t.source)})
		}
	}
	if f.unreadable() && !slices.ContainsFunc(f.failures, func(g failing) bool { return g.Kind == StorageFailed }) {
		f.failures = append(f.failures, failing{Failure: Failure{Kind: StorageFailed, Source: sourceNamespace, Text: shorten(text(f.Unread), maxText)}})
	}
}

// fails reports whether a source fails.
func (f *facts) fails(source string) bool {
	return slices.ContainsFunc(f.failures, func(g failing) bool { return g.Source == source })
}

// gatherObjects collects the recorded content, and that of other processes from the
// conditions.
func (f *facts) gatherObjects() {
	for _, p := range f.history.parties {
		for _, o := range p.objects {
			if o, ok := f.counted(p, o); ok {
				f.objects = append(f.objects, objects{Objects: o})
			}
		}
	}
	slices.SortStableFunc(f.objects, func(a, b objects) int { return strings.Compare(a.Resource, b.Resource) })
	for _, c := range f.reported(phase.ContentRemaining) {
		for _, o := range c.remaining() {
			if !slices.ContainsFunc(f.objects, func(known objects) bool { return known.Resource == o.Resource }) {
				f.objects = append(f.objects, objects{Objects: o})
			}
		}
	}
}

// counted returns recorded content as far as it is still true. Conditions that report the
// same count confirm it; they lack its names.
func (f *facts) counted(p partyHistory, o Objects) (_ Objects, ok bool) {
	if f.current(p) {
		for _, last := range slices.Backward(f.history.passes) {
			if last.Party == p.party && last.Outcome != "interrupted" {
				o.Old = !o.Counted.IsZero() && o.Counted.Before(last.Start)
				break
			}
		}
		return o, true
	}
	o.Old = true
	if o.Counted.IsZero() {
		o.Counted = p.observed
	}
	if !has(f.conditions, p.party, anyCondition) {
		return o, !o.Counted.IsZero()
	}
	var confirmed []string
	for _, c := range f.conditions {
		switch {
		case c.party != p.party || c.Status != phase.True:
		case c.plain == phase.ContentRemaining:
			ok = ok || slices.ContainsFunc(c.remaining(), func(r Objects) bool { return r.Resource == o.Resource && r.Remaining == o.Remaining })
		case c.plain == phase.FinalizersRemaining:
			for _, h := range c.holders() {
				confirmed = append(confirmed, h.Finalizer)
			}
		}
	}
	o.HeldBy = slices.DeleteFunc(slices.Clone(o.HeldBy), func(h HeldBy) bool { return !slices.Contains(confirmed, h.Finalizer) })
	return o, ok
}

// gatherBlockers collects the finalizers that hold objects, each once.
func (f *facts) gatherBlockers() {
	find := func(name string) int {
		return slices.IndexFunc(f.blockers, func(b blocker) bool { return b.finalizer == finalizer.Name(name) })
	}
	for i := range f.objects {
		o := &f.objects[i]
		for j := range o.HeldBy {
			h := &o.HeldBy[j]
			at := find(h.Finalizer)
			if at < 0 {
				at = len(f.blockers)
				f.blockers = append(f.blockers, blocker{finalizer: finalizer.Name(h.Finalizer), resource: o.Resource})
			}
			b := &f.blockers[at]
			b.objects, b.since = plus(b.objects, h.Objects), earlier(b.since, h.Since)
			b.where = append(b.where, place{o, h})
		}
	}
	for _, c := range f.reported(phase.FinalizersRemaining) {
		for _, h := range c.holders() {
			if at := find(h.Finalizer); at >= 0 && len(f.blockers[at].where) > 0 {
				continue
			}
			b := blocker{finalizer: finalizer.Name(h.Finalizer), objects: h.Objects, since: h.Since}
			if i := slices.IndexFunc(f.objects, func(o objects) bool { return o.Remaining > 0 }); i >= 0 {
				b.resource = f.objects[i].Resource
			}
			f.blockers = append(f.blockers, b)
		}
	}
}

// classifyObjects returns the kind of cause that remaining content is.
func (f *facts) classifyObjects(o Objects) Kind {
	recorded := func(o objects) bool { return o.Party != "" }
	switch {
	case o.Waiting:
		return Ordered
	case o.Remaining <= 0 || f.fails(o.Resource):
		return ""
	case o.Returning:
		return Returning
	case len(o.HeldBy) > 0:
		return "" // its blockers
	case !o.Counted.IsZero() && !o.Old && !o.AtLeast && f.age(o.Since) > stallGrace:
		return Stalled
	case o.Deleting >= o.Remaining:
		return Stopping
	case f.progress.PerSecond > 0 || o.AtLeast && !o.Old:
		return Moving
	case len(f.blockers) > 0 && !slices.ContainsFunc(f.objects, recorded):
		return "" // conditions do not say which objects are held
	}
	return Remaining
}

// of returns the content of one kind of cause.
func (f *facts) of(kind Kind) []Objects {
	var list []Objects
	for _, o := range f.objects {
		if o.kind == kind {
			list = append(list, o.Objects)
		}
	}
	return list
}

// listed returns all remaining content.
func (f *facts) listed() []Objects {
	list := make([]Objects, len(f.objects))
	for i, o := range f.objects {
		list[i] = o.Objects
	}
	return list
}

// measure sums up the removed and the remaining objects. Objects left by force remain until
// they are swept.
func (f *facts) measure() *Progress {
	h := f.history
	p := &Progress{Removed: max(h.removed, 0), Passes: h.total}
	waiting := false
	for _, o := range f.objects {
		p.Remaining = plus(p.Remaining, max(o.Remaining, 0))
		p.AtLeast = p.AtLeast || o.AtLeast || o.Waiting
		waiting = waiting || o.Waiting
	}
	if n := len(h.passes); n > 0 && f.age(h.passes[n-1].Start.Add(h.passes[n-1].Took)) <= idleGrace && !f.absent() {
		p.PerSecond = h.perSecond // still true
		const most = 100 * 365 * 24 * time.Hour
		if left := float64(p.Remaining) / p.PerSecond; p.Remaining > 0 && !waiting && left < most.Seconds() {
			p.End = f.Now.UTC().Add(time.Duration(left * float64(time.Second))).Truncate(time.Second)
		}
	}
	left := 0
	for _, call := range f.forces {
		n, unanswered := call.Left()
		left = plus(left, n)
		p.AtLeast = p.AtLeast || unanswered > 0 || call.Forcing == nil && n > 0
	}
	p.Remaining = max(p.Remaining, left)
	p.AtLeast = p.AtLeast || slices.ContainsFunc(f.failures, func(g failing) bool { return g.Source != sourceNamespace })
	empty := f.absent() && (h.uid != "" || len(f.Records) > 0) || f.stage == phase.WaitingForFinalizers || f.stage == phase.ReadyToRemove
	p.Known = p.Remaining > 0 || empty && !p.AtLeast
	switch {
	case p.Removed == 0 && p.Remaining == 0 && p.Passes == 0:
		return nil
	case p.Known && p.Remaining == 0:
		p.Percent = 100
	case p.Known:
		done := 100 * (float64(p.Removed) / (float64(p.Removed) + float64(p.Remaining)))
		p.Percent = min(int(done), 99)
	}
	return p
}

// gatherArriving decides whether nothing is left but content may still arrive.
func (f *facts) gatherArriving() {
	if len(f.failures)+len(f.blockers) > 0 || slices.ContainsFunc(f.objects, func(o objects) bool { return o.Remaining > 0 || o.Waiting }) {
		return
	}
	recorded := false
	for _, p := range f.history.parties {
		if f.current(p) {
			recorded = true
			f.arrivingIn = max(f.arrivingIn, p.arriving)
		}
	}
	f.arriving = f.arrivingIn > 0 || !recorded && slices.ContainsFunc(f.conditions, condition.arriving)
}

// gatherHolders collects the finalizers of the namespace and the state of their owners.
func (f *facts) gatherHolders() {
	for _, name := range f.Namespace.Spec.Finalizers.Names() {
		f.holders = append(f.holders, f.classifyHolder(f.owner(name, false)))
	}
	for _, name := range f.Namespace.Finalizers.Names() {
		f.holders = append(f.holders, f.classifyHolder(f.owner(name, true)))
	}
}

// owner returns the state of the owner of a finalizer. A party's passes concern only
// its finalizer in spec.finalizers.
func (f *facts) owner(name finalizer.Name, object bool) Holder {
	h := Holder{Finalizer: name, Object: object, Since: f.since, Asked: f.Parties != nil}
	for _, p := range f.Parties {
		if p.Finalizer == name {
			h.Known, h.Alive, h.LastSeen, h.Contact = true, p.Alive, p.LastSeen, p.Contact
		}
	}
	for _, p := range slices.Backward(f.history.passes) {
		if p.Party == name && !object {
			h.LastPass = p.Start.Add(p.Took)
			break
		}
	}
	return h
}

// missing reports whether an owner has gone and its controller reported nothing since.
func (h Holder) missing() bool {
	return h.Known && !h.Alive && !h.LastPass.After(h.LastSeen.Add(idleGrace))
}

// classifyHolder returns the kind of cause that a finalizer is. While its owner is known to
// work on it, other causes explain the delay.
func (f *facts) classifyHolder(h Holder) holder {
	one := holder{Holder: h}
	if !h.Object {
		for _, p := range f.history.parties {
			if p.party == h.Finalizer && f.missed(p) {
				one.overdue = p.due()
			}
		}
	}
	unfinished := has(f.conditions, h.Finalizer, func(c condition) bool { return c.Status != phase.False })
	content := f.arriving || len(f.failures)+len(f.objects)+len(f.blockers) > 0
	switch {
	case h.missing():
		one.kind = OwnerMissing
	case !h.LastPass.IsZero() && (one.overdue.IsZero() || !h.Known):
	case h.Known && h.Alive:
		if !one.overdue.IsZero() || !unfinished {
			one.kind = OwnerAtWork
		}
	case unfinished && !h.Object:
	case h.Finalizer == f.Primary && !h.Object && f.history.total == 0: // Starting or Unattended explains it
	case h.Known: // the overdue pass, a cause of Unattended, explains it
	case h.Object || f.Parties != nil || !content || f.stage != phase.DeletingContent:
		one.kind = OwnerUnknown
	}
	return one
}

// gatherAttendance decides whether a controller works on the namespace.
func (f *facts) gatherAttendance() {
	var queued, running time.Time
	for _, p := range f.history.parties {
		queued, running = earlier(queued, p.queued), earlier(running, p.running)
	}
	missing := slices.ContainsFunc(f.holders, func(h holder) bool { return h.kind == OwnerMissing })
	set := func(kind Kind, since time.Time) { f.attendance, f.attended = kind, since }
	switch spec := f.Namespace.Spec.Finalizers.Len(); {
	case !f.exists:
	case spec+f.Namespace.Finalizers.Len() == 0:
		set(Removable, f.since)
	case spec == 0:
	case f.age(queued) > startGrace:
		set(Queued, queued)
	case f.age(running) > startGrace:
		set(SourceSlow, running)
	case f.history.total > 0 || len(f.conditions) > 0:
		for _, p := range f.history.parties {
			moved := func(c condition) bool { return c.LastTransitionTime.After(p.reported) }
			if f.missed(p) && f.Namespace.Spec.Finalizers.Has(p.party) && !f.owner(p.party, false).Alive && !has(f.conditions, p.party, moved) {
				f.overdue = append(f.overdue, p)
			}
		}
	case f.age(f.since) <= startGrace || !queued.IsZero() || !running.IsZero():
		set(Starting, f.since)
	case !missing: // OwnerMissing explains it
		set(Unattended, f.since)
	}
}

// next returns the next recorded pass: the one that runs, is queued, or is scheduled first.
func (f *facts) next() *Next {
	var running, queued, scheduled time.Time
	reason := ""
	for _, p := range f.history.parties {
		running, queued = earlier(running, p.running), earlier(queued, p.queued)
		if at := earlier(scheduled, p.next.At); !at.Equal(scheduled) {
			scheduled, reason = at, p.next.Reason
		}
	}
	switch {
	case !running.IsZero():
		return &Next{At: running, Reason: nextRunning}
	case !queued.IsZero():
		return &Next{At: queued, Reason: nextQueued}
	case !scheduled.IsZero():
		return &Next{At: scheduled, Reason: reason}
	}
	return nil
}

// gatherWaivers collects the waivers in force and their effect on the last pass.
func (f *facts) gatherWaivers() {
	list, _ := declare.Waivers(f.Namespace.Meta)
	for _, w := range list {
		if w.Expired(f.Now) {
			f.expired = append(f.expired, w)
			continue
		}
		one := waiver{Waiver: w}
		for _, p := range f.history.parties {
			for _, text := range p.waived {
				if rest, ok := strings.CutPrefix(text, w.Source+": "); ok {
					one.waived = rest
				}
			}
		}
		if at := slices.IndexFunc(f.failures, func(g failing) bool { return g.Source == w.Source }); one.waived == "" && at >= 0 {
			one.failure = &f.failures[at].Failure
		}
		f.waivers = append(f.waivers, one)
	}
}
