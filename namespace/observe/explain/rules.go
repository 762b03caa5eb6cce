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
	// The namespace is not terminating.
	Protected      Kind = "protected"       // a protection refuses the deletion
	OnHold         Kind = "on-hold"         // the deletion is delayed
	NotTerminating Kind = "not-terminating" // no deletion was requested
	LeftByForce    Kind = "left-by-force"   // it was removed; a forced drop left objects
	Gone           Kind = "gone"            // it was removed; its record remains
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
	Unknown     Kind = "unknown"       // no rule applied
)

// Severity says how much attention a cause needs.
type Severity string

// The severities.
const (
	Calm Severity = "calm" // no one needs to act
	Warn Severity = "warn" // an operator should look at it
	Bad  Severity = "bad"  // an operator must act
)

// rule defines a kind: the state of a namespace whose first cause is of this kind, and the
// function that finds its causes. A rule reads the facts alone.
type rule struct {
	kind     Kind
	state    string
	severity Severity
	find     func(*facts) []Cause
}

// stuck is the state in which no end of the deletion is predicted.
const stuck = "stuck"

// rules lists all kinds, in the order in which to act on their causes.
var rules = [...]rule{
	{Protected, "active", Warn, protected},
	{OnHold, "active", Warn, onHold},
	{NotTerminating, "active", Calm, notTerminating},
	{LeftByForce, "gone", Warn, leftByForce},
	{Gone, "gone", Calm, gone},
	{NotFound, "not found", Calm, notFound},

	{OwnerMissing, stuck, Bad, ownerMissing},
	{Unattended, stuck, Bad, unattended},
	{Removable, stuck, Bad, removable},
	{StorageFailed, stuck, Bad, storageFailed},
	{DiscoveryFailed, stuck, Bad, discoveryFailed},
	{ParsingFailed, stuck, Bad, parsingFailed},
	{Undeclared, stuck, Bad, undeclared},
	{SourceFailed, stuck, Bad, sourceFailed},
	{SourceSlow, stuck, Warn, sourceSlow},
	{Returning, stuck, Bad, returning},
	{Held, stuck, Warn, held},
	{Conflicts, stuck, Bad, conflicts},
	{Stalled, stuck, Bad, stalled},
	{OwnerUnknown, stuck, Warn, ownerUnknown},
	{Queued, stuck, Warn, queued},

	{OwnerAtWork, "being deleted", Calm, ownerAtWork},
	{Stopping, "being deleted", Calm, stopping},
	{Moving, "being deleted", Calm, moving},
	{Confirming, "being deleted", Calm, confirming},
	{Ordered, "being deleted", Calm, ordered},
	{Remaining, "being deleted", Warn, remaining},
	{Starting, "being deleted", Calm, starting},
	{Forced, "being deleted", Warn, forced},
	{Waived, "being deleted", Warn, waived},
}

// lastRule applies if no other does.
var lastRule = rule{Unknown, "being deleted", Bad, unknown}

// causes applies the rules.
func (f *facts) causes() []Cause {
	var list []Cause
	for _, r := range rules {
		list = append(list, r.apply(f)...)
	}
	if len(list) == 0 {
		list = lastRule.apply(f)
	}
	return list[:min(len(list), maxCauses)]
}

func (r rule) apply(f *facts) []Cause {
	list := r.find(f)
	for i := range list {
		list[i].Kind = r.kind
	}
	return list
}

func (k Kind) rule() rule {
	if i := slices.IndexFunc(rules[:], func(r rule) bool { return r.kind == k }); i >= 0 {
		return rules[i]
	}
	return lastRule
}

// Severity returns how much attention causes of the kind need.
func (k Kind) Severity() Severity { return k.rule().severity }

// state returns the state of a namespace in that phase (empty: none, or not known) whose
// first cause is of kind k.
func (k Kind) state(p phase.Phase) string {
	if p == "" && k == StorageFailed {
		return "unreadable"
	}
	return k.rule().state
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

// remedyOwner returns the remedy for a finalizer of the namespace.
func (f *facts) remedyOwner(h Holder) Remedy {
	switch {
	case h.Known && h.Alive:
		return Remedy{Text: "Wait, or ask its owner" + contact(h.Contact) + "; the owner's log says what it waits for."}
	case h.Object:
		return Remedy{
			Text:    "Restart its owner. If the owner is gone for good, remove the finalizer with an update.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "jsonpath={.metadata.finalizers}"),
		}
	}
	return Remedy{
		Text:    "Restart its owner. If the owner is gone for good, drop the finalizer on the record (force.Drop).",
		Command: f.kubectl("get", "namespace", f.name, "-o", "jsonpath={.spec.finalizers}"),
		Template: fmt.Sprintf("force.Drop(ctx, namespaces, content, log, force.Request{Name: %q, UID: %q, Finalizers: []finalizer.Name{%q}, By: <WHO>, Reason: <WHY>})",
			f.name, f.uid, h.Finalizer),
	}
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

var remedyWait = Remedy{Text: "Wait; the deletion proceeds by itself."}

func starting(f *facts) []Cause {
	if f.attendance != Starting {
		return nil
	}
	return []Cause{{Since: f.attended, Summary: "the deletion has just begun; the first pass is due or running", Remedy: remedyWait}}
}

func storageFailed(f *facts) []Cause {
	return f.ofFailures(StorageFailed, func(g failing) (string, Remedy) {
		return "the storage of namespaces fails: " + g.Text,
			Remedy{Text: "Restore the storage of namespaces; the pass is retried automatically.", Command: f.kubectl("get", "namespace", f.name)}
	})
}

func discoveryFailed(f *facts) []Cause {
	return f.ofFailures(DiscoveryFailed, func(g failing) (string, Remedy) {
		r := Remedy{Text: "Restore the API that serves it, or remove its registration.", Command: f.kubectl("get", "apiservices")}
		switch {
		case strings.HasPrefix(g.Source, sourceDiscovery):
			r.Text = "Find out why resource types cannot be discovered, and fix it."
			return "resource types cannot be discovered: " + g.Text, r
		case g.Source == coreGroup:
			r.Command = f.kubectl("api-resources", "--namespaced")
		case isResource(g.Source):
			r.Command = f.kubectl("api-resources", groupOption+g.Source)
		}
		return fmt.Sprintf("the resource types of %s cannot be discovered: %s", g.Source, g.Text), f.orWaive(g, r)
	})
}

func parsingFailed(f *facts) []Cause {
	return f.ofFailures(ParsingFailed, func(g failing) (string, Remedy) {
		return "a resource type cannot be read: " + g.Text,
			Remedy{Text: "Correct the group and version of its registration.", Command: f.kubectl("api-resources", "--namespaced")}
	})
}

func undeclared(f *facts) []Cause {
	return f.ofFailures(Undeclared, func(g failing) (string, Remedy) {
		left := f.left(g.Source)
		summary := fmt.Sprintf("the controller does not declare %s, which another version of the service stored%s", g.Source, left)
		if g.Unwaived > 0 {
			summary += "; its waiver has no effect, because " + were(g.Unwaived) + " seen"
		}
		r := Remedy{Text: "Run a controller of the version that declares it. If the service has dropped the type, let the last version that declares it delete " +
			"the remaining objects, then retire the type (Registry.RetireType)."}
		if left == "" || g.Unwaived > 0 {
			r = f.orWaive(g, r)
		}
		return summary, r
	})
}

func sourceFailed(f *facts) []Cause {
	return f.ofFailures(SourceFailed, func(g failing) (string, Remedy) {
		summary := fmt.Sprintf("%s fails: %s", g.Source, g.Text)
		if strings.HasPrefix(g.Source, sourceDeleter) {
			summary = "content cannot be deleted: " + g.Text
		}
		if strings.Contains(g.Text, "forbidden") && isResource(g.Source) {
			return summary, Remedy{
				Text:    "Permit the controller to list and delete it (run this as the controller); it is retried automatically.",
				Command: f.kubectl("auth", "can-i", "delete", g.Source, "-n", f.name),
			}
		}
		return summary, f.orWaive(g, Remedy{Text: "Find the cause and fix it; it is retried automatically.", Command: f.get(g.Source)})
	})
}

// sourceSlow finds the failures by a timeout, and a pass that has been running for long.
func sourceSlow(f *facts) []Cause {
	remedy := Remedy{Text: "Find out why it is slow; it is retried automatically, with a longer timeout each time."}
	list := f.ofFailures(SourceSlow, func(g failing) (string, Remedy) {
		r := remedy
		r.Command = f.get(g.Source)
		return fmt.Sprintf("%s does not answer in time: %s", g.Source, g.Text), f.orWaive(g, r)
	})
	if f.attendance == SourceSlow {
		list = append(list, Cause{
			Source: sourceDeleter, Since: f.attended, Remedy: remedy,
			Summary: fmt.Sprintf("the current pass has waited %s for answers", show.Duration(f.age(f.attended))),
		})
	}
	return list
}

// returning finds content that a source reports to reappear, and content that the counts of
// several passes show to reappear.
func returning(f *facts) []Cause {
	remedy := func(resource string) Remedy {
		return Remedy{
			Text:    "Stop what creates them: a writer that does not check the gate, or objects that ignore their deletion.",
			Command: f.get(resource),
		}
	}
	list := f.ofFailures(Returning, func(g failing) (string, Remedy) {
		return fmt.Sprintf("objects of %s exist again after their deletion: %s", g.Source, g.Text), remedy(g.Source)
	})
	for _, o := range f.of(Returning) {
		list = append(list, Cause{
			Source: o.Resource, Since: o.Since, Remedy: remedy(o.Resource),
			Summary: fmt.Sprintf("objects of %s reappear as fast as they are deleted: %s left%s%s", o.Resource, show.Number(o.Remaining), names(o.Sample, o.Remaining), o.asOf(f.Now)),
		})
	}
	return list
}

func conflicts(f *facts) []Cause {
	list := f.ofFailures(Conflicts, func(g failing) (string, Remedy) {
		return "other writers change the namespace faster than a pass can: " + g.Text, Remedy{
			Text:    "Find the client that keeps writing the namespace, and stop it.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "yaml", "--show-managed-fields"),
		}
	})
	for i := range list {
		list[i].Detail = joined(f.lastWriter(), list[i].Detail)
	}
	return list
}

// ofFailures returns the causes for the failures of a kind.
func (f *facts) ofFailures(kind Kind, explain func(failing) (summary string, r Remedy)) []Cause {
	var list []Cause
	for _, g := range f.failures {
		if g.Kind != kind {
			continue
		}
		c := Cause{Source: g.Source, Since: g.First}
		c.Summary, c.Remedy = explain(g)
		var details []string
		if g.Count > 1 {
			details = append(details, "in "+passes(g.Count))
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
		list = append(list, c)
	}
	return list
}

// orWaive adds a waiver to the remedy for a failure of a resource type or group.
func (f *facts) orWaive(g failing, r Remedy) Remedy {
	switch {
	case g.Unwaived > 0:
		r.Text += " No waiver helps: only the source knows whether its objects are gone."
	case isResource(g.Source):
		r.Text += " If it holds no content of this namespace, a waiver lets the deletion continue."
		r.Template = f.waive(g.Source)
	}
	return r
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

func held(f *facts) []Cause {
	var list []Cause
	for _, b := range f.blockers {
		c := Cause{Source: string(b.finalizer), Since: b.since, Remedy: Remedy{
			Text: fmt.Sprintf("Check that the owner of %s is running. If it is gone for good, remove the finalizer from these objects.", b.finalizer),
		}}
		if isResource(b.resource) {
			c.Remedy.Command = f.kubectl("get", b.resource, "-n", f.name, "-o", "custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers")
		}
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

// leftByForce finds the forced drops that left objects of a namespace which is gone: they
// are all that is left to do.
func leftByForce(f *facts) []Cause {
	return f.ofForces(func(d audit.Drop) bool { return f.absent() && open(d) })
}

func forced(f *facts) []Cause {
	return f.ofForces(func(d audit.Drop) bool { return !f.absent() || !open(d) })
}

// open reports whether something remains to be done for a forced drop.
func open(d audit.Drop) bool {
	objects, unanswered := d.Left()
	return objects+unanswered > 0
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

// remedyForced returns the remedy for the objects that a forced drop left.
func remedyForced(d audit.Drop) Remedy {
	objects, unanswered := d.Left()
	again := ""
	if d.Forced == nil {
		again = "Call force.Drop again with the same request, which records its outcome. "
	}
	switch {
	case d.Forcing == nil && objects+unanswered > 0:
		return Remedy{Text: fmt.Sprintf("Record %s of the objects left then is lost or unreadable, so no sweep can use it: look for content under this name, and remove it.", d.ID())}
	case objects > 0:
		return Remedy{Text: fmt.Sprintf("%sRemove the objects left then: force.Sweep with record %s.", again, d.ID())}
	case unanswered > 0:
		return Remedy{Text: fmt.Sprintf("%s%s did not answer then, so no sweep knows their objects: check them, and remove what is left.", again, show.Count(unanswered, "source"))}
	case again != "":
		return Remedy{Text: strings.TrimSpace(again)}
	}
	return Remedy{Text: "There is nothing more to do for it."}
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

func unknown(f *facts) []Cause {
	return []Cause{{
		Summary: "the cause is not known here",
		Remedy: Remedy{
			Text:    "Read its conditions and finalizers, and the log of its controller.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "yaml"),
		},
	}}
}
