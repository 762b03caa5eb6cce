package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// holders explains the finalizers of the namespace.
func (b *builder) holders() {
	ns := b.in.Namespace
	for _, f := range ns.Spec.Finalizers.Names() {
		b.d.Holders = append(b.d.Holders, b.holder(f, false))
	}
	for _, f := range ns.Finalizers.Names() {
		b.d.Holders = append(b.d.Holders, b.holder(f, true))
	}
	for _, h := range b.d.Holders {
		if c, ok := b.owner(h); ok {
			b.cause(c)
		}
	}
}

// holder returns what is known of a finalizer and its owner.
func (b *builder) holder(f finalizer.Name, object bool) Holder {
	h := Holder{Finalizer: f, Object: object, Since: b.d.Since, Asked: b.in.Parties != nil}
	for _, p := range b.in.Parties {
		if p.Finalizer == f {
			h.Known, h.Alive, h.LastSeen, h.Contact = true, p.Alive, p.LastSeen, p.Contact
		}
	}
	for _, p := range slices.Backward(b.in.History.Passes) {
		if owner(p.Party) == f && !object { // a party works on its own in the spec
			h.LastPass = p.Start.Add(p.Took)
			break
		}
	}
	return h
}

// owner explains a finalizer by its owner, unless the owner is known to work on it:
// then the other causes say what it waits for.
func (b *builder) owner(h Holder) (Cause, bool) {
	c := Cause{Source: string(h.Finalizer), Since: h.Since, Remedy: b.remedyOwner(h)}
	name := string(h.Finalizer)
	if h.Object {
		name += " (in metadata.finalizers)"
	}
	silent, overdue := b.voice(h.Finalizer)
	overdue = overdue && !h.Object && b.overdue(silent)
	switch {
	case h.Known && !h.Alive && !h.LastPass.After(h.LastSeen.Add(idleGrace)):
		c.Kind, c.Since = OwnerMissing, h.LastSeen
		c.Summary = fmt.Sprintf("the owner of %s is missing: last seen %s ago%s", name, human(b.age(h.LastSeen)), contact(h.Contact))
	case !h.LastPass.IsZero() && !(overdue && h.Known):
		return c, false
	case h.Known && h.Alive:
		c.Kind = OwnerAtWork
		c.Summary = fmt.Sprintf("%s has not let go yet; its owner is alive%s", name, contact(h.Contact))
		if overdue {
			c.Detail = fmt.Sprintf("the pass that was due here %s ago did not come: another process may have taken over", human(b.age(silent.due())))
		}
		return c, overdue || !b.speaks(h.Finalizer)
	case b.speaks(h.Finalizer) && !h.Object:
		return c, false
	case h.Finalizer == finalizer.Kubernetes && !h.Object && b.in.History.Total == 0:
		return c, false // nobody works on the namespace: attendance tells
	case b.in.Parties != nil:
		c.Kind = OwnerUnknown
		c.Summary = fmt.Sprintf("%s holds it, and no owner of it ever announced itself", name)
	default:
		c.Kind = OwnerUnknown
		c.Summary = fmt.Sprintf("%s holds it; whether anybody works on that is not known here", name)
		return c, h.Object || b.d.Stage != phase.DeletingContent || len(b.d.Causes) == 0
	}
	return c, true
}

// speaks reports whether the conditions of a party say that it is not done.
func (b *builder) speaks(f finalizer.Name) bool {
	return slices.ContainsFunc(b.in.Namespace.Status.Conditions, func(c phase.Condition) bool {
		party, _ := split(c.Type)
		return party == f && c.Status != phase.False
	})
}

// ownerOf says what is known of the owner of a finalizer that holds objects.
func (b *builder) ownerOf(f finalizer.Name) string {
	h := b.holder(f, true)
	switch {
	case !h.Known:
		return ""
	case h.Alive:
		return "its owner is alive" + contact(h.Contact)
	}
	return fmt.Sprintf("its owner is missing: last seen %s ago%s", human(b.age(h.LastSeen)), contact(h.Contact))
}

func contact(who string) string {
	if who == "" {
		return ""
	}
	return " (contact: " + who + ")"
}

// How long nothing may happen before somebody is told.
const (
	startGrace = 30 * time.Second // until the first pass
	idleGrace  = 2 * time.Minute  // beyond the time of the next pass
	stallGrace = time.Hour        // until what is being deleted gracefully has begun to go
)

// attendance explains that nobody works on the namespace, or not yet.
func (b *builder) attendance() {
	h, ns := b.in.History, b.in.Namespace
	spec := ns.Spec.Finalizers.Len()
	switch idle := h.Queued.IsZero() && h.Running.IsZero(); {
	case spec+ns.Finalizers.Len() == 0:
		b.cause(Cause{
			Kind: Removable, Since: b.d.Since, Summary: "nothing holds it any more, and yet it was not removed", Remedy: b.remedyRemovable(),
		})
	case spec == 0:
	case b.age(h.Queued) > startGrace:
		b.cause(Cause{
			Kind: Queued, Since: h.Queued, Summary: fmt.Sprintf("it has been waiting for a worker for %s", human(b.age(h.Queued))),
			Remedy: Remedy{Text: "Give the controller more workers (controller.Options.Workers) or more replicas; see which passes take its time."},
		})
	case b.age(h.Running) > startGrace:
		b.cause(Cause{
			Kind: SourceSlow, Source: sourceDeleter, Since: h.Running,
			Summary: fmt.Sprintf("the pass that runs has been waiting for answers for %s", human(b.age(h.Running))),
			Remedy:  b.remedyFailure(SourceSlow, Failure{Source: sourceDeleter}),
		})
	case h.Total == 0 && len(ns.Status.Conditions) == 0:
		b.unattended(idle)
	default:
		b.silent()
	}
}

// silent explains that a controller that worked on it here has gone quiet, and no other
// is known to have taken over.
func (b *builder) silent() {
	for _, v := range b.voices() {
		f := owner(v.Party)
		if !b.overdue(v) || !b.in.Namespace.Spec.Finalizers.Has(f) || b.holder(f, false).Alive || b.movedOn(f, v.Heard) {
			continue
		}
		what := "the next pass was due"
		if v.Next == nil {
			what = "it was last heard of"
		}
		b.cause(Cause{
			Kind: Unattended, Source: string(f), Since: v.due(), Remedy: remedyUnattended,
			Summary: fmt.Sprintf("nobody works on it here any more: %s %s ago", what, human(b.age(v.due()))),
		})
	}
}

// unattended explains that no pass was seen at all.
func (b *builder) unattended(idle bool) {
	age := b.age(b.d.Since)
	switch {
	case age <= startGrace || !idle:
		b.cause(Cause{Kind: Starting, Since: b.d.Since, Summary: "its deletion has just begun; the first pass is due", Remedy: remedyWait})
	case !b.has(OwnerMissing): // which says why
		c := Cause{
			Kind: Unattended, Since: b.d.Since, Remedy: remedyUnattended,
			Summary: fmt.Sprintf("nobody works on it: there was no pass in the %s since it was deleted", human(age)),
		}
		if f := b.in.Namespace.Spec.Finalizers.Names()[0]; b.in.Parties != nil && !b.holder(f, false).Known {
			c.Detail = fmt.Sprintf("no owner of %s ever announced itself", f)
		}
		b.cause(c)
	}
}
