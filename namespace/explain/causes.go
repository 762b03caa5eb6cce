package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// failures explains what failed in the last pass, by source, and returns it.
func (b *builder) failures() []Failure {
	h := b.in.History
	var now []Failure
	for _, source := range h.Failing {
		var sum Failure
		for _, f := range h.Failures { // the last one first
			if f.Source != source {
				continue
			}
			if sum.Source == "" {
				sum = f
				continue
			}
			sum.Count, sum.First = plus(sum.Count, f.Count), earlier(sum.First, f.First)
		}
		if sum.Source == "" {
			sum = Failure{Kind: SourceFailed, Source: source, Text: "it failed in the last pass"}
		}
		now = append(now, sum)
		b.cause(b.failure(sum))
	}
	return now
}

// failure explains one source that fails.
func (b *builder) failure(f Failure) Cause {
	c := Cause{Kind: f.Kind, Source: f.Source, Since: f.First}
	often := ""
	if f.Count > 1 {
		often = fmt.Sprintf(" (%s times)", number(f.Count))
	}
	switch f.Kind {
	case DiscoveryFailed:
		c.Summary = fmt.Sprintf("the resource types of %s cannot be discovered%s: %s", f.Source, often, f.Text)
		if f.Source == sourceDiscovery {
			c.Summary = fmt.Sprintf("resource types cannot be discovered%s: %s", often, f.Text)
		}
	case ParsingFailed:
		c.Summary = fmt.Sprintf("a resource type cannot be read%s: %s", often, f.Text)
	case SourceSlow:
		c.Summary = fmt.Sprintf("%s does not answer in time%s: %s", f.Source, often, f.Text)
	case Returning:
		c.Summary = fmt.Sprintf("%s comes back as fast as it is deleted%s: %s", f.Source, often, f.Text)
	case Conflicts:
		c.Summary = fmt.Sprintf("others write the namespace faster than a pass can%s: %s", often, f.Text)
	case StorageFailed:
		c.Summary = fmt.Sprintf("the place where namespaces are kept fails%s: %s", often, f.Text)
	default:
		c.Kind = SourceFailed
		c.Summary = fmt.Sprintf("%s fails%s: %s", f.Source, often, f.Text)
	}
	c.Detail = b.expired(f.Source)
	c.Remedy = b.remedyFailure(c.Kind, f.Source)
	return c
}

// expired tells of a waiver of that source that counts no more.
func (b *builder) expired(source string) string {
	waivers, _ := namespace.Waivers(b.in.Namespace.Meta)
	for _, w := range waivers {
		if w.Source == source && w.Expired(b.in.Now) {
			return fmt.Sprintf("its waiver %s by %s ended %s ago", w.Name, w.By, human(b.age(w.Until)))
		}
	}
	return ""
}

func (b *builder) returning(o Objects) Cause {
	return Cause{
		Kind: Returning, Source: o.Resource, Since: o.Since,
		Summary: fmt.Sprintf("%s comes back as fast as it is deleted: %s left%s", o.Resource, count(o.Remaining), names(o.Sample, o.Remaining)),
		Remedy:  b.remedyReturning(o.Resource),
	}
}

func (b *builder) stopping(list []Objects) Cause {
	return Cause{
		Kind: Stopping, Source: list[0].Resource, Since: oldest(list),
		Summary: "objects are being deleted gracefully: " + amounts(list),
		Remedy: Remedy{
			Text:    "Wait; the next pass starts when they have gone. If they never go, see what runs them.",
			Command: b.kubectl("get", list[0].Resource, "-n", b.d.Name),
		},
	}
}

func (b *builder) moving(list []Objects) Cause {
	p := b.d.Progress
	c := Cause{Kind: Moving, Source: list[0].Resource}
	c.Summary = fmt.Sprintf("content is being deleted: %s removed, %s%s left", count(p.Removed), least(p.AtLeast), count(p.Remaining))
	if !p.End.IsZero() {
		c.Summary += ", done in about " + human(p.End.Sub(b.d.At))
	}
	c.Detail = amounts(list)
	c.Remedy = Remedy{Text: "Wait; it goes on by itself."}
	return c
}

func (b *builder) remaining(list []Objects) Cause {
	return Cause{
		Kind: Remaining, Source: list[0].Resource, Since: oldest(list),
		Summary: "content is left: " + amounts(list),
		Remedy: Remedy{
			Text:    "See what is left, and whether it goes.",
			Command: b.kubectl("get", list[0].Resource, "-n", b.d.Name),
		},
	}
}

func (b *builder) ordered(list []Objects) Cause {
	var types []string
	for _, o := range list {
		types = append(types, o.Resource)
	}
	return Cause{
		Kind: Ordered, Source: list[0].Resource,
		Summary: fmt.Sprintf("%s: not asked yet, %s after others that are not empty", listed(types, maxSample), verb(len(types), "comes", "come")),
		Remedy:  Remedy{Text: "Remove what keeps the others; the order is declared by the host (Source.After)."},
	}
}

func (b *builder) settling() Cause {
	return Cause{
		Kind:    Settling,
		Summary: fmt.Sprintf("nothing is left, but content may still come for %s, so it is looked at again", human(b.in.History.Settles)),
		Remedy:  Remedy{Text: "Wait; it goes on by itself."},
	}
}

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
		if !b.works(h) {
			b.absentOwner(h)
		}
	}
}

// works reports whether somebody is known to work on it for the finalizer, so that the
// causes tell what keeps its owner.
func (b *builder) works(h Holder) bool {
	if !h.LastPass.IsZero() && (!h.Known || h.Alive || h.LastPass.After(h.LastSeen)) {
		return true
	}
	if h.Known && !h.Alive || h.Object {
		return false
	}
	if len(b.in.History.Parties) == 0 && b.in.History.Total > 0 && h.Finalizer == finalizer.Kubernetes {
		return true // told by a recorder that does not know whose passes it saw
	}
	told := slices.ContainsFunc(b.in.Namespace.Status.Conditions, func(c condition) bool {
		party, _ := split(c.Type)
		return party == h.Finalizer
	})
	return told && !h.Known
}

// absentOwner explains a finalizer whose owner is not known to work on it.
func (b *builder) absentOwner(h Holder) {
	c := Cause{Source: string(h.Finalizer), Since: h.Since, Remedy: b.remedyOwner(h)}
	where := ""
	if h.Object {
		where = " (in metadata.finalizers)"
	}
	switch {
	case h.Known && h.Alive:
		c.Kind = OwnerAtWork
		c.Summary = fmt.Sprintf("%s%s has not let go yet; its owner is there%s", h.Finalizer, where, contact(h.Contact))
	case h.Known:
		c.Kind, c.Since = OwnerMissing, h.LastSeen
		c.Summary = fmt.Sprintf("the owner of %s%s is missing: last seen %s ago%s", h.Finalizer, where, human(b.age(h.LastSeen)), contact(h.Contact))
	case h.Finalizer == finalizer.Kubernetes && b.in.History.Total == 0:
		return // nobody works on it: that is told of the namespace
	case b.in.Parties != nil:
		c.Kind = OwnerUnknown
		c.Summary = fmt.Sprintf("%s%s holds it, and no owner of it ever announced itself", h.Finalizer, where)
	default:
		c.Kind = OwnerUnknown
		c.Summary = fmt.Sprintf("%s%s holds it; who owns it is not known here", h.Finalizer, where)
	}
	b.cause(c)
}

// How long nothing may happen before somebody is told.
const (
	startGrace = 30 * time.Second // until the first pass
	idleGrace  = 2 * time.Minute  // beyond the time of the next pass
)

// attendance explains that nobody works on the namespace.
func (b *builder) attendance() {
	h, ns := b.in.History, b.in.Namespace
	age := b.age(b.d.Since)
	held := ns.Spec.Finalizers.Len() + ns.Finalizers.Len()
	switch {
	case held == 0:
		b.cause(Cause{
			Kind: Removable, Since: b.d.Since, Summary: "nothing holds it any more, and yet it was not removed",
			Remedy: b.remedyRemovable(),
		})
	case !h.Queued.IsZero() && b.age(h.Queued) > startGrace:
		b.cause(Cause{
			Kind: Queued, Since: h.Queued, Summary: fmt.Sprintf("it has been waiting for a worker for %s", human(b.age(h.Queued))),
			Remedy: Remedy{Text: "Give the controller more workers (Options.Workers) or more replicas; see what its passes are busy with."},
		})
	case !h.Running.IsZero() && b.age(h.Running) > startGrace:
		b.cause(Cause{
			Kind: SourceSlow, Source: sourceDeleter, Since: h.Running,
			Summary: fmt.Sprintf("the pass that runs has been waiting for answers for %s", human(b.age(h.Running))),
			Remedy:  b.remedyFailure(SourceSlow, sourceDeleter),
		})
	case h.Total == 0 && len(ns.Status.Conditions) == 0 && h.Queued.IsZero() && h.Running.IsZero() && ns.Spec.Finalizers.Len() > 0:
		b.unattended(age)
	case h.Total > 0 && h.Next != nil && b.age(h.Next.At) > idleGrace && len(b.d.Causes) == 0:
		b.cause(Cause{
			Kind: Unattended, Since: h.Next.At,
			Summary: fmt.Sprintf("nobody works on it: the next pass was due %s ago", human(b.age(h.Next.At))),
			Remedy:  remedyUnattended,
		})
	}
}

func (b *builder) unattended(age time.Duration) {
	if age <= startGrace {
		b.cause(Cause{
			Kind: Starting, Since: b.d.Since, Summary: "its deletion has just begun; the first pass is due",
			Remedy: Remedy{Text: "Wait; it goes on by itself."},
		})
		return
	}
	if b.has(OwnerMissing) {
		return // which says why
	}
	b.cause(Cause{
		Kind: Unattended, Since: b.d.Since,
		Summary: fmt.Sprintf("nobody works on it: there was no pass in the %s since it was deleted", human(age)),
		Remedy:  remedyUnattended,
	})
}

// waived tells of failures that count for nothing.
func (b *builder) waived() {
	waivers, _ := namespace.Waivers(b.in.Namespace.Meta)
	for _, w := range waivers {
		if w.Expired(b.in.Now) {
			continue
		}
		failed := slices.ContainsFunc(b.in.History.Waived, func(s string) bool { return strings.Contains(s, w.Source) })
		c := Cause{
			Kind: Waived, Source: w.Source,
			Summary: fmt.Sprintf("a failure of %s counts for nothing until %s, by the word of %s: %s", w.Source, clock(w.Until, b.d.At), w.By, w.Reason),
			Remedy: Remedy{
				Text:    "Take the waiver " + w.Name + " off if the source may hold something after all.",
				Command: b.kubectl("annotate", "namespace", b.d.Name, namespace.WaiverPrefix+w.Name+"-"),
			},
		}
		if failed {
			c.Detail = "it failed in the last pass, and was waived"
		}
		b.cause(c)
	}
}

func (b *builder) unknown() Cause {
	return Cause{
		Kind: Unknown, Summary: "what keeps it is not known here",
		Remedy: Remedy{
			Text:    "Read its conditions and finalizers, and the log of the controller.",
			Command: b.kubectl("get", "namespace", b.d.Name, "-o", "yaml"),
		},
	}
}
