package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Kind is the kind of a cause.
type Kind string

// The kinds, in the order of their rank. DESIGN.md explains the order.
const (
	// Of namespaces that are not terminating.
	Protected      Kind = "protected"       // a protection refuses the deletion
	OnHold         Kind = "on-hold"         // the deletion is delayed
	NotTerminating Kind = "not-terminating" // no deletion was requested
	Gone           Kind = "gone"            // the namespace was removed; its record remains
	NotFound       Kind = "not-found"       // no namespace and no record has the name

	// The namespace is stuck: someone must act.
	OwnerMissing    Kind = "owner-missing"    // the owner of a finalizer has gone
	Unattended      Kind = "unattended"       // no controller works on the namespace
	Removable       Kind = "removable"        // no finalizer is left, but the namespace was not removed
	StorageFailed   Kind = "storage-failed"   // the namespace cannot be read or written
	DiscoveryFailed Kind = "discovery-failed" // resource types cannot be discovered
	ParsingFailed   Kind = "parsing-failed"   // a resource type cannot be read
	Undeclared      Kind = "type-undeclared"  // the controller does not declare a stored resource type
	SourceFailed    Kind = "source-failed"    // a resource type cannot be listed or deleted
	SourceSlow      Kind = "source-slow"      // a source does not answer in time
	Returning       Kind = "content-returns"  // content reappears as fast as it is deleted
	Held            Kind = "object-held"      // a finalizer holds objects
	Conflicts       Kind = "conflict-storm"   // other writers are faster than the pass
	Stalled         Kind = "stalled"          // no object has gone for long, for no known reason
	OwnerUnknown    Kind = "owner-unknown"    // the owner of a finalizer never announced itself
	Queued          Kind = "queued"           // the namespace has waited long for a worker

	// The deletion proceeds.
	OwnerAtWork Kind = "owner-at-work" // the owner of a finalizer has not finished
	Stopping    Kind = "stopping"      // objects are being deleted gracefully
	Moving      Kind = "moving"        // content is being deleted
	Confirming  Kind = "confirming"    // nothing is left, and the next pass must confirm it
	Ordered     Kind = "ordered"       // a type waits for earlier types
	Remaining   Kind = "remaining"     // content is left, for no known reason
	Starting    Kind = "starting"      // the deletion has just begun
	Forced      Kind = "forced"        // finalizers were dropped by force
	Waived      Kind = "waived"        // a waiver is in force, or why it has no effect
	Unknown     Kind = "unknown"
)

// rule finds the causes of one kind.
type rule struct {
	kind Kind
	find func(*facts) []Cause
}

// rules are in the order in which to act on their causes. A rule reads the facts alone.
var rules = []rule{
	{Protected, protected},
	{OnHold, onHold},
	{NotTerminating, notTerminating},
	{Forced, forcedAndGone},
	{Gone, gone},
	{NotFound, notFound},
	{OwnerMissing, ownerMissing},
	{Unattended, unattended},
	{Removable, removable},
	{StorageFailed, failed(StorageFailed)},
	{DiscoveryFailed, failed(DiscoveryFailed)},
	{ParsingFailed, failed(ParsingFailed)},
	{Undeclared, failed(Undeclared)},
	{SourceFailed, failed(SourceFailed)},
	{SourceSlow, failed(SourceSlow)},
	{SourceSlow, slowPass},
	{Returning, failed(Returning)},
	{Returning, returning},
	{Held, held},
	{Conflicts, failed(Conflicts)},
	{Stalled, stalled},
	{OwnerUnknown, ownerUnknown},
	{Queued, queued},
	{OwnerAtWork, ownerAtWork},
	{Stopping, stopping},
	{Moving, moving},
	{Confirming, confirming},
	{Ordered, ordered},
	{Remaining, remaining},
	{Starting, starting},
	{Forced, forced},
	{Waived, waived},
}

// causes applies the rules.
func (f *facts) causes() []Cause {
	var list []Cause
	for _, r := range rules {
		for _, c := range r.find(f) {
			c.Kind = r.kind
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		list = append(list, f.unknown())
	}
	return list[:min(len(list), maxCauses)]
}

// Kinds returns all kinds in the order of their rank.
func Kinds() []Kind {
	var list []Kind
	for _, r := range rules {
		if at := slices.Index(list, r.kind); at >= 0 {
			list = slices.Delete(list, at, at+1) // the usual rank of Forced is its last one
		}
		list = append(list, r.kind)
	}
	return append(list, Unknown)
}

// stuck reports whether someone must act on such a cause.
func (k Kind) stuck() bool {
	rank := func(kind Kind) int { return slices.IndexFunc(rules, func(r rule) bool { return r.kind == kind }) }
	return rank(k) >= rank(OwnerMissing) && rank(k) <= rank(Queued)
}

// hidesContent reports whether such a failure may hide content from a pass.
func (k Kind) hidesContent() bool {
	switch k {
	case DiscoveryFailed, ParsingFailed, Undeclared, SourceFailed, SourceSlow:
		return true
	}
	return false
}

// status is the state of the namespace in two words.
func (f *facts) status(first Kind) string {
	switch {
	case first == NotFound:
		return "is not found"
	case f.absent():
		return "is gone"
	case f.phase == "":
		return "is unreadable"
	case f.phase == phase.Active:
		return "is active"
	case first.stuck():
		return "is stuck"
	}
	return "is being deleted"
}

func protected(f *facts) []Cause {
	var list []Cause
	for _, p := range f.protections {
		c := Cause{
			Source:  p.Name,
			Summary: fmt.Sprintf("protection %s refuses its deletion (%s: %s)", p.Name, p.Owner, p.Reason),
			Remedy: Remedy{
				Text:    fmt.Sprintf("Ask %s. If they agree, remove the protection and delete the namespace.", p.Owner),
				Command: f.kubectl("annotate", "namespace", f.name, declare.ProtectionPrefix+p.Name+"-"),
			},
		}
		if p.Owner == "" {
			c.Summary = fmt.Sprintf("protection %s refuses its deletion; its owner and reason are unreadable", p.Name)
			c.Remedy.Text = "Find out who set it, then remove the protection and delete the namespace."
		}
		list = append(list, c)
	}
	return list
}

func onHold(f *facts) []Cause {
	if !f.delayed {
		return nil
	}
	h := f.hold
	why := strings.TrimPrefix(strings.TrimSuffix(h.By+": "+h.Reason, ": "), ": ")
	if why != "" {
		why = " (" + why + ")"
	}
	c := Cause{
		Summary: fmt.Sprintf("on hold, it will be deleted in %s at %s%s", show.Duration(h.Until.Sub(f.Now)), clock(h.Until, f.Now), why),
		Remedy: Remedy{
			Text:    "To keep the namespace, remove the hold before it ends (Registry.Restore).",
			Command: f.kubectl("annotate", "namespace", f.name, declare.HoldAnnotation+"-"),
		},
	}
	switch {
	case f.holdErr != nil:
		c.Summary = "its hold is unreadable, so it will not be deleted: " + shorten(f.holdErr.Error(), maxText)
		c.Remedy.Text = "Set the hold again, or remove it and delete the namespace."
	case !f.Now.Before(h.Until):
		c.Summary = fmt.Sprintf("its hold ended %s ago, but it was not deleted", show.Duration(f.age(h.Until)))
		c.Since = h.Until
		c.Remedy.Text = "Check that hold.Run is running and read its log, or delete the namespace now."
		c.Remedy.Command = f.kubectl("delete", "namespace", f.name)
	}
	if f.holdErr == nil && len(f.protections) > 0 {
		c.Detail = "its protections will refuse the deletion then"
	}
	return []Cause{c}
}

func notTerminating(f *facts) []Cause {
	if f.phase != phase.Active || len(f.protections) > 0 || f.delayed {
		return nil
	}
	return []Cause{{Summary: "no deletion was requested", Remedy: Remedy{Text: "Nothing is wrong, and there is nothing to do."}}}
}

func gone(f *facts) []Cause {
	h := f.history
	if !f.absent() || h.uid == "" && len(f.Records) == 0 {
		return nil
	}
	c := Cause{Since: h.removedAt, Summary: "it no longer exists", Remedy: Remedy{Text: "There is nothing to do."}}
	switch {
	case len(f.forces) > 0 && h.removedAt.IsZero():
		for _, call := range f.forces {
			c.Since = later(c.Since, call.Last().Time)
		}
		c.Summary = fmt.Sprintf("it no longer exists; its finalizers were dropped by force %s ago", show.Duration(f.age(c.Since)))
	case !h.removedAt.IsZero() && !h.deletedAt.IsZero():
		c.Summary = fmt.Sprintf("it was removed %s ago, %s after its deletion", show.Duration(f.age(h.removedAt)), show.Duration(h.removedAt.Sub(h.deletedAt)))
	case !h.removedAt.IsZero():
		c.Summary = fmt.Sprintf("it was removed %s ago", show.Duration(f.age(h.removedAt)))
	}
	if h.total > 0 {
		c.Detail = fmt.Sprintf("%s removed in %s", show.Count(h.removed, "object"), passes(h.total))
	}
	return []Cause{c}
}

func notFound(f *facts) []Cause {
	if !f.absent() || f.history.uid != "" || len(f.Records) > 0 {
		return nil
	}
	return []Cause{{
		Summary: "it does not exist, and no earlier one is known here",
		Remedy:  Remedy{Text: "Check the name.", Command: f.kubectl("get", "namespaces")},
	}}
}

func ownerMissing(f *facts) []Cause {
	return f.ofHolders(OwnerMissing, func(h holder, name string) Cause {
		return Cause{Since: h.LastSeen, Summary: fmt.Sprintf("the owner of finalizer %s is missing: last seen %s ago%s", name, show.Duration(f.age(h.LastSeen)), contact(h.Contact))}
	})
}

func ownerUnknown(f *facts) []Cause {
	return f.ofHolders(OwnerUnknown, func(h holder, name string) Cause {
		if f.Parties != nil {
			return Cause{Since: h.Since, Summary: fmt.Sprintf("finalizer %s is set, and no owner of it ever announced itself", name)}
		}
		return Cause{Since: h.Since, Summary: fmt.Sprintf("finalizer %s is set, and it is not known whether its owner is running", name)}
	})
}

func ownerAtWork(f *facts) []Cause {
	return f.ofHolders(OwnerAtWork, func(h holder, name string) Cause {
		c := Cause{Since: h.Since, Summary: fmt.Sprintf("finalizer %s is still set; its owner is alive%s", name, contact(h.Contact))}
		if !h.overdue.IsZero() {
			c.Detail = fmt.Sprintf("the pass that was due here %s ago did not run; another process may have taken over", show.Duration(f.age(h.overdue)))
		}
		return c
	})
}

func (f *facts) ofHolders(kind Kind, explain func(h holder, name string) Cause) []Cause {
	var list []Cause
	for _, h := range f.holders {
		if h.kind != kind {
			continue
		}
		name := string(h.Finalizer)
		if h.Object {
			name += " (in metadata.finalizers)"
		}
		c := explain(h, name)
		c.Source, c.Remedy = string(h.Finalizer), f.remedyOwner(h.Holder)
		list = append(list, c)
	}
	return list
}

func contact(who string) string {
	if who == "" {
		return ""
	}
	return " (contact: " + who + ")"
}

func unattended(f *facts) []Cause {
	remedy := Remedy{Text: "Start the controller of its finalizers. If it is running, check its log, its replicas and its queue."}
	var list []Cause
	for _, p := range f.overdue {
		what := "the next pass was due"
		if p.next.At.IsZero() {
			what = "the last report came"
		}
		list = append(list, Cause{
			Source: string(p.party), Since: p.due(), Remedy: remedy,
			Summary: fmt.Sprintf("no controller works on finalizer %s any more: %s %s ago", p.party, what, show.Duration(f.age(p.due()))),
		})
	}
	if f.attendance == Unattended {
		c := Cause{Since: f.attended, Remedy: remedy, Summary: fmt.Sprintf("no controller works on it: no pass in the %s since its deletion", show.Duration(f.age(f.attended)))}
		if first := f.Namespace.Spec.Finalizers.Names()[0]; f.Parties != nil && !f.owner(first, false).Known {
			c.Detail = fmt.Sprintf("no owner of finalizer %s ever announced itself", first)
		}
		list = append(list, c)
	}
	return list
}

func removable(f *facts) []Cause {
	if f.attendance != Removable {
		return nil
	}
	return []Cause{{
		Since: f.attended, Summary: "no finalizer is left, but the namespace was not removed",
		Remedy: Remedy{
			Text:    "Finalize it once more (PUT finalize with no finalizers); that write removes it.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "jsonpath={.metadata.finalizers}{.spec.finalizers}"),
		},
	}}
}

func queued(f *facts) []Cause {
	if f.attendance != Queued {
		return nil
	}
	return []Cause{{
		Since: f.attended, Summary: fmt.Sprintf("it has waited %s for a worker", show.Duration(f.age(f.attended))),
		Remedy: Remedy{Text: "Give the controller more workers (controller.Options.Workers) or more replicas, and check which passes take its time."},
	}}
}

func slowPass(f *facts) []Cause {
	if f.attendance != SourceSlow {
		return nil
	}
	return []Cause{{
		Source: sourceDeleter, Since: f.attended, Summary: fmt.Sprintf("the current pass has waited %s for answers", show.Duration(f.age(f.attended))),
		Remedy: f.remedyFailure(Failure{Kind: SourceSlow, Source: sourceDeleter}),
	}}
}

func starting(f *facts) []Cause {
	if f.attendance != Starting {
		return nil
	}
	return []Cause{{Since: f.attended, Summary: "the deletion has just begun, and the first pass is due", Remedy: remedyWait}}
}

// failed returns the rule for failures of a kind.
func failed(kind Kind) func(*facts) []Cause {
	return func(f *facts) []Cause {
		var list []Cause
		for _, g := range f.failures {
			if g.Kind == kind {
				list = append(list, f.failure(g))
			}
		}
		return list
	}
}

func (f *facts) failure(g failing) Cause {
	c := Cause{Source: g.Source, Since: g.First, Remedy: f.remedyFailure(g.Failure)}
	switch {
	case g.Kind == DiscoveryFailed && strings.HasPrefix(g.Source, sourceDiscovery):
		c.Summary = "resource types cannot be discovered: " + g.Text
	case g.Kind == DiscoveryFailed:
		c.Summary = fmt.Sprintf("the resource types of %s cannot be discovered: %s", g.Source, g.Text)
	case g.Kind == ParsingFailed:
		c.Summary = "a resource type cannot be read: " + g.Text
	case g.Kind == SourceSlow:
		c.Summary = fmt.Sprintf("%s does not answer in time: %s", g.Source, g.Text)
	case g.Kind == Returning:
		c.Summary = fmt.Sprintf("objects of %s exist again after their deletion: %s", g.Source, g.Text)
	case g.Kind == Conflicts:
		c.Summary = "other writers change the namespace faster than a pass can: " + g.Text
	case g.Kind == StorageFailed:
		c.Summary = "the storage of namespaces fails: " + g.Text
	case g.Kind == Undeclared:
		c.Summary = fmt.Sprintf("the controller does not declare %s, which another version of the service stored%s", g.Source, f.left(g.Source))
		if g.Unwaived > 0 {
			c.Summary += "; its waiver has no effect, because " + were(g.Unwaived) + " seen"
		}
	case strings.HasPrefix(g.Source, sourceDeleter):
		c.Summary = "content cannot be deleted: " + g.Text
	default:
		c.Summary = fmt.Sprintf("%s fails: %s", g.Source, g.Text)
	}
	var details []string
	if g.Count > 1 {
		details = append(details, "in "+passes(g.Count))
	}
	if g.Kind == Conflicts {
		details = append(details, f.lastWriter())
	}
	for _, w := range f.expired {
		if w.Source == g.Source {
			details = append(details, fmt.Sprintf("its waiver %s by %s ended %s ago", w.Name, w.By, show.Duration(f.age(w.Until))))
		}
	}
	if !g.asOf.IsZero() {
		details = append(details, "as of "+clock(g.asOf, f.Now))
	}
	c.Detail = joined(details...)
	return c
}

// left lists the known objects of a resource type.
func (f *facts) left(resource string) string {
	for _, o := range f.objects {
		if o.Resource == resource && o.Remaining > 0 {
			return fmt.Sprintf(": %s%s left%s", least(o.AtLeast), plural(o.Remaining, "object is", "objects are"), names(o.Sample, o.Remaining))
		}
	}
	return ""
}

func (f *facts) lastWriter() string {
	var last namespace.ManagedFieldsEntry
	for _, m := range f.Namespace.ManagedFields {
		if m.Manager != "" && m.Time.After(last.Time.Time) {
			last = m
		}
	}
	if last.Manager == "" {
		return ""
	}
	return "last written by " + shorten(last.Manager, maxName)
}

func returning(f *facts) []Cause {
	var list []Cause
	for _, o := range f.of(Returning) {
		list = append(list, Cause{
			Source: o.Resource, Since: o.Since, Remedy: f.remedyReturning(o.Resource),
			Summary: fmt.Sprintf("objects of %s reappear as fast as they are deleted: %s left%s%s", o.Resource, show.Number(o.Remaining), names(o.Sample, o.Remaining), o.asOf(f.Now)),
		})
	}
	return list
}

func held(f *facts) []Cause {
	var list []Cause
	for _, b := range f.blockers {
		c := Cause{Source: string(b.finalizer), Since: b.since, Remedy: f.remedyHeld(b)}
		var places []string
		for _, p := range b.where {
			places = append(places, fmt.Sprintf("%s of %s%s%s", show.Number(p.by.Objects), p.Resource, names(p.by.Sample, p.by.Objects), p.asOf(f.Now)))
		}
		c.Summary = fmt.Sprintf("finalizer %s holds %s", b.finalizer, show.Count(b.objects, "object"))
		switch len(places) {
		case 0:
		case 1:
			c.Summary = fmt.Sprintf("finalizer %s holds %s", b.finalizer, places[0])
		default:
			c.Summary += ": " + listed(places)
		}
		switch h := f.owner(b.finalizer, true); {
		case h.Known && h.Alive:
			c.Detail = "its owner is alive" + contact(h.Contact)
		case h.Known:
			c.Detail = fmt.Sprintf("its owner is missing: last seen %s ago%s", show.Duration(f.age(h.LastSeen)), contact(h.Contact))
		}
		list = append(list, c)
	}
	return list
}

// ofContent returns one cause for all content of a kind.
func (f *facts) ofContent(kind Kind, summary, remedy string) []Cause {
	list := f.of(kind)
	if len(list) == 0 {
		return nil
	}
	c := Cause{Source: list[0].Resource, Summary: summary + amounts(list, f.Now), Remedy: Remedy{Text: remedy, Command: f.get(list[0].Resource)}}
	for _, o := range list {
		c.Since = earlier(c.Since, o.Since)
	}
	return []Cause{c}
}

func stalled(f *facts) []Cause {
	return f.ofContent(Stalled, "objects do not disappear, and no finalizer holds them: ",
		"Stop what runs them, or find out what refuses their deletion. Waiting does not help.")
}

func stopping(f *facts) []Cause {
	return f.ofContent(Stopping, "objects are being deleted gracefully: ",
		"Wait; the next pass starts when they are gone. If they never go, check what runs them.")
}

func remaining(f *facts) []Cause {
	return f.ofContent(Remaining, "content is left: ", "Check what is left, and whether it disappears.")
}

func moving(f *facts) []Cause {
	list := f.of(Moving)
	if len(list) == 0 {
		return nil
	}
	left, atLeast := 0, false
	for _, o := range list {
		left, atLeast = plus(left, o.Remaining), atLeast || o.AtLeast
	}
	c := Cause{
		Source: list[0].Resource, Remedy: remedyWait,
		Summary: fmt.Sprintf("content is being deleted: %s removed, %s%s left", show.Number(f.progress.Removed), least(atLeast), show.Number(left)),
	}
	if len(list) > 1 {
		c.Detail = amounts(list, f.Now)
	}
	return []Cause{c}
}

func confirming(f *facts) []Cause {
	switch {
	case !f.arriving:
		return nil
	case f.arrivingIn > 0:
		return []Cause{{Summary: fmt.Sprintf("no content is left, but some may still arrive for %s; another pass will check", show.Duration(f.arrivingIn)), Remedy: remedyWait}}
	}
	return []Cause{{Summary: "no content is left, but some may still arrive; another pass will check", Remedy: remedyWait}}
}

func ordered(f *facts) []Cause {
	var types []string
	for _, o := range f.of(Ordered) {
		types = append(types, o.Resource)
	}
	if len(types) == 0 {
		return nil
	}
	return []Cause{{
		Source:  types[0],
		Summary: fmt.Sprintf("%s %s for earlier types to be empty", listed(types), verb(len(types), "waits", "wait")),
		Remedy:  Remedy{Text: "Remove what keeps the earlier types; the host declares the order (Source.After)."},
	}}
}

// forcedAndGone finds the forced drops that left objects of a namespace which is gone: they
// are all that is left to do.
func forcedAndGone(f *facts) []Cause {
	return f.ofForces(func(call audit.Drop) bool { return f.absent() && open(call) })
}

func forced(f *facts) []Cause {
	return f.ofForces(func(call audit.Drop) bool { return !f.absent() || !open(call) })
}

func (f *facts) ofForces(is func(audit.Drop) bool) []Cause {
	var list []Cause
	for _, call := range f.forces {
		if is(call) {
			list = append(list, f.force(call))
		}
	}
	return list
}

func (f *facts) force(call audit.Drop) Cause {
	r := call.Last()
	var finalizers []string
	for _, name := range r.Finalizers {
		finalizers = append(finalizers, string(name))
	}
	c := Cause{Source: listed(finalizers), Since: r.Time, Remedy: remedyForced(call)}
	by := r.By
	if by == "" {
		by = "an unknown operator"
	}
	did := "dropped"
	if call.Forced == nil {
		did = "began to drop"
	}
	c.Summary = fmt.Sprintf("%s %s %s by force %s ago: %s", by, did, c.Source, show.Duration(f.age(r.Time)), r.Reason)
	if f.exists && call.Last().UID != f.uid {
		c.Summary = fmt.Sprintf("in an earlier namespace of this name (uid %s), %s", call.Last().UID, c.Summary)
	}
	var details []string
	if call.Forced == nil {
		details = append(details, "its completion is not on record")
	}
	if call.Forcing != nil && call.Forcing.Inventory != nil {
		details = append(details, "left then: "+inventory(call.Forcing.Inventory))
	}
	if call.Swept != nil {
		details = append(details, strings.TrimSpace(fmt.Sprintf("swept %s ago: %s", show.Duration(f.age(call.Swept.Time)), call.Swept.Detail)))
	}
	c.Detail = strings.Join(details, "; ")
	return c
}

// inventory sums up an inventory by type.
func inventory(left *audit.Inventory) string {
	var types []Objects
	for _, o := range left.Objects {
		at := slices.IndexFunc(types, func(t Objects) bool { return t.Resource == o.Resource })
		if at < 0 {
			at = len(types)
			types = append(types, Objects{Resource: o.Resource})
		}
		types[at].Remaining++
		if len(types[at].Sample) < maxSample {
			types[at].Sample = append(types[at].Sample, o.Name)
		}
	}
	text := amounts(types, time.Time{})
	if len(types) == 0 {
		text = "nothing"
	}
	if n := len(left.Failures); n > 0 {
		text += fmt.Sprintf(" (%s did not answer)", show.Count(n, "source"))
	}
	return text
}

func waived(f *facts) []Cause {
	var list []Cause
	for _, w := range f.waivers {
		c := Cause{Source: w.Source}
		who := fmt.Sprintf("waiver %s of %s by %s (%s)", w.Name, w.Source, w.By, w.Reason)
		switch {
		case w.failure == nil:
			c.Summary = fmt.Sprintf("failures of %s are ignored until %s (waiver %s by %s: %s)", w.Source, clock(w.Until, f.Now), w.Name, w.By, w.Reason)
			if w.waived != "" {
				c.Detail = "it failed in the last pass: " + w.waived
			}
			c.Remedy = Remedy{
				Text:    fmt.Sprintf("If the source may hold content after all, remove waiver %s.", w.Name),
				Command: f.kubectl("annotate", "namespace", f.name, declare.WaiverPrefix+w.Name+"-"),
			}
		case w.failure.Unwaived > 0:
			c.Summary = fmt.Sprintf("%s has no effect: %s left at its last answer", who, were(w.failure.Unwaived))
			c.Remedy = Remedy{Text: "Restore the source, so that it reports what is left.", Command: f.get(w.Source)}
		default:
			c.Summary = who + " had no effect: the last pass was cut short, began before it, or did not support waivers"
			c.Remedy = Remedy{Text: "Wait for the next pass. If it fails in the same way, check that the deleter of the host supports waivers and waits for its sources to fail."}
		}
		list = append(list, c)
	}
	return list
}

func (f *facts) unknown() Cause {
	return Cause{
		Kind: Unknown, Summary: "the cause is not known here",
		Remedy: Remedy{
			Text:    "Read its conditions and finalizers, and the log of its controller.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "yaml"),
		},
	}
}
