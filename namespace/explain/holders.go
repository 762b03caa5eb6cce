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
		b.d.Holders = append(b.d.Holders, b.holder(f))
	}
	for _, f := range ns.Finalizers.Names() {
		h := b.holder(f)
		h.Object = true
		b.d.Holders = append(b.d.Holders, h)
	}
	for _, h := range b.d.Holders {
		if c, ok := b.owner(h); ok {
			b.cause(c)
		}
	}
}

// holder returns what is known of a finalizer and its owner.
func (b *builder) holder(f finalizer.Name) Holder {
	h := Holder{Finalizer: f, Since: b.d.Since, Asked: b.in.Parties != nil}
	for _, p := range b.in.Parties {
		if p.Finalizer == f {
			h.Known, h.Alive, h.LastSeen, h.Contact = true, p.Alive, p.LastSeen, p.Contact
		}
	}
	for _, p := range slices.Backward(b.in.History.Passes) {
		if b.whose(p) == f {
			h.LastPass = p.Start.Add(p.Took)
			break
		}
	}
	return h
}

// whose returns the party of a pass: that of the default finalizer, where the recorder
// was not told ([Recorder.Hooks]).
func (b *builder) whose(p Pass) finalizer.Name {
	if p.Party == "" {
		return finalizer.Kubernetes
	}
	return p.Party
}

// owner explains a finalizer by its owner, unless the owner is known to work on it:
// then the other causes say what it waits for.
func (b *builder) owner(h Holder) (Cause, bool) {
	c := Cause{Source: string(h.Finalizer), Since: h.Since, Remedy: b.remedyOwner(h)}
	name := string(h.Finalizer)
	if h.Object {
		name += " (in metadata.finalizers)"
	}
	switch {
	case h.Known && !h.Alive && !h.LastPass.After(h.LastSeen.Add(idleGrace)):
		c.Kind, c.Since = OwnerMissing, h.LastSeen
		c.Summary = fmt.Sprintf("the owner of %s is missing: last seen %s ago%s", name, human(b.age(h.LastSeen)), contact(h.Contact))
	case !h.LastPass.IsZero():
		return c, false
	case h.Known && h.Alive:
		c.Kind = OwnerAtWork
		c.Summary = fmt.Sprintf("%s has not let go yet; its owner is alive%s", name, contact(h.Contact))
		return c, !b.speaks(h.Finalizer)
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
	h := b.holder(f)
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
	case idle && h.Next != nil && b.age(h.Next.At) > idleGrace && !b.alive():
		b.cause(Cause{
			Kind: Unattended, Since: h.Next.At,
			Summary: fmt.Sprintf("nobody works on it here any more: the next pass was due %s ago", human(b.age(h.Next.At))),
			Remedy:  remedyUnattended,
		})
	}
}

// alive reports whether the owner of any finalizer is there.
func (b *builder) alive() bool {
	return slices.ContainsFunc(b.d.Holders, func(h Holder) bool { return h.Alive })
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
		if f := b.in.Namespace.Spec.Finalizers.Names()[0]; b.in.Parties != nil && !b.holder(f).Known {
			c.Detail = fmt.Sprintf("no owner of %s ever announced itself", f)
		}
		b.cause(c)
	}
}
