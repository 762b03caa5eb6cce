package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// failures explains what failed in the last pass, by source, and returns it; what the
// conditions know better is left to them.
func (b *builder) failures() []Failure {
	h := b.in.History
	var now []Failure
	for _, source := range h.Failing {
		current, at := b.failingNow(source)
		if !current && at.IsZero() {
			continue
		}
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
		for _, s := range h.Streaks {
			if s.Source == source {
				sum.Count, sum.First = s.Passes, s.Since
			}
		}
		now = append(now, sum)
		c := b.failure(sum)
		if !current {
			c.Detail = sentence(c.Detail, "as of "+clock(at, b.d.At))
		}
		b.cause(c)
	}
	b.failing = now
	return now
}

// failure explains one source that fails.
func (b *builder) failure(f Failure) Cause {
	c := Cause{Kind: f.Kind, Source: f.Source, Since: f.First}
	what, say := "", ": "+f.Text
	switch f.Kind {
	case DiscoveryFailed:
		what = "the resource types of " + f.Source + " cannot be discovered"
		if strings.HasPrefix(f.Source, sourceDiscovery) {
			what = "resource types cannot be discovered"
		}
	case ParsingFailed:
		what = "a resource type cannot be read"
	case SourceSlow:
		what = f.Source + " does not answer in time"
	case Returning:
		what = f.Source + " is there again after it was deleted"
	case Conflicts:
		what = "others write the namespace faster than a pass can"
	case StorageFailed:
		what = "the place where namespaces are kept fails"
	case Undeclared:
		what = "the controller does not declare " + f.Source + ", which another version of the service stored" + b.left(f.Source)
		say = ""
		if f.Unwaived > 0 {
			say = "; its waiver does not count, since " + plural(f.Unwaived, "object was", "objects were") + " seen"
		}
	default:
		c.Kind = SourceFailed
		what = f.Source + " fails"
		if strings.HasPrefix(f.Source, sourceDeleter) {
			what = "content cannot be deleted"
		}
	}
	c.Summary = what + say
	details := []string{}
	if f.Count > 1 {
		details = append(details, fmt.Sprintf("in %s passes", number(f.Count)))
	}
	if c.Kind == Conflicts {
		details = append(details, b.lastWriter())
	}
	c.Detail = sentence(append(details, b.expired(f.Source))...)
	c.Remedy = b.remedyFailure(c.Kind, f)
	return c
}

// left returns the known number of remaining objects of a type.
func (b *builder) left(source string) string {
	for _, o := range b.d.Objects {
		if o.Resource == source && o.Remaining > 0 {
			return fmt.Sprintf(": %s%s left%s", least(o.AtLeast), plural(o.Remaining, "object is", "objects are"), names(o.Sample, o.Remaining))
		}
	}
	return ""
}

// sentence joins what is not empty.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// lastWriter tells who wrote the namespace last.
func (b *builder) lastWriter() string {
	var last namespace.ManagedFieldsEntry
	for _, m := range b.in.Namespace.ManagedFields {
		if m.Manager != "" && m.Time.After(last.Time.Time) {
			last = m
		}
	}
	if last.Manager == "" {
		return ""
	}
	return "last written by " + brief(last.Manager, maxName)
}

// expired tells of a waiver of that source that counts no more.
func (b *builder) expired(source string) string {
	waivers, _ := declare.Waivers(b.in.Namespace.Meta)
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
		Summary: fmt.Sprintf("%s comes back as fast as it is deleted: %s left%s%s", o.Resource, number(o.Remaining), names(o.Sample, o.Remaining), o.asOf(b.d.At)),
		Remedy:  b.remedyReturning(o.Resource),
	}
}

func (b *builder) stopping(list []Objects) Cause {
	return Cause{
		Kind: Stopping, Source: list[0].Resource, Since: oldest(list),
		Summary: "objects are being deleted gracefully: " + amounts(list, b.d.At),
		Remedy: Remedy{
			Text:    "Wait; the next pass starts when they have gone. If they never go, see what runs them.",
			Command: b.get(list[0].Resource),
		},
	}
}

func (b *builder) stalled(list []Objects) Cause {
	return Cause{
		Kind: Stalled, Source: list[0].Resource, Since: oldest(list),
		Summary: "objects do not go, and no finalizer says why: " + amounts(list, b.d.At),
		Remedy: Remedy{
			Text:    "See what runs them and stop that, or what refuses to delete them; waiting will not help.",
			Command: b.get(list[0].Resource),
		},
	}
}

func (b *builder) moving(list []Objects) Cause {
	c := Cause{Kind: Moving, Source: list[0].Resource, Remedy: remedyWait}
	left, atLeast := 0, false
	for _, o := range list {
		left, atLeast = plus(left, o.Remaining), atLeast || o.AtLeast
	}
	c.Summary = fmt.Sprintf("content is being deleted: %s removed, %s%s left", number(b.d.Progress.Removed), least(atLeast), number(left))
	if len(list) > 1 {
		c.Detail = amounts(list, b.d.At)
	}
	return c
}

// foretell adds to what moves when it ends, if that can be told.
func (b *builder) foretell() {
	p := b.d.Progress
	for i := range b.d.Causes {
		c := &b.d.Causes[i]
		switch {
		case c.Kind != Moving || p == nil || p.End.IsZero():
		case p.AtLeast:
			c.Summary += ", for at least another " + human(p.End.Sub(b.d.At))
		default:
			c.Summary += ", done in about " + human(p.End.Sub(b.d.At))
		}
	}
}

func (b *builder) remaining(list []Objects) Cause {
	return Cause{
		Kind: Remaining, Source: list[0].Resource, Since: oldest(list),
		Summary: "content is left: " + amounts(list, b.d.At),
		Remedy: Remedy{
			Text:    "See what is left, and whether it goes.",
			Command: b.get(list[0].Resource),
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

// settle explains that nothing is left, and something may still come.
func (b *builder) settle(failing bool) {
	h := b.in.History
	c := Cause{Kind: Settling, Remedy: remedyWait}
	switch {
	case failing || b.d.Progress.Remaining > 0:
		return
	case h.Settles > 0 && b.anyCurrent():
		c.Summary = fmt.Sprintf("nothing is left, but content may still come for %s, so it is looked at again", human(h.Settles))
	case !b.anyCurrent() && b.unsure("some may still come"):
		c.Summary = "nothing is left, but content may still come, so it is looked at again"
	default:
		return
	}
	b.cause(c)
}

// unsure reports whether the content is unknown by the conditions, for that reason.
func (b *builder) unsure(reason string) bool {
	return slices.ContainsFunc(b.in.Namespace.Status.Conditions, func(c phase.Condition) bool {
		_, t := split(c.Type)
		return t == phase.ContentRemaining && c.Status == phase.Unknown && strings.Contains(c.Message, reason)
	})
}

// waived tells of waivers: those that count, and those that do not.
func (b *builder) waived() {
	waivers, _ := declare.Waivers(b.in.Namespace.Meta)
	for _, w := range waivers {
		if w.Expired(b.in.Now) {
			continue
		}
		text, counted := b.waivedFailure(w.Source)
		at := slices.IndexFunc(b.failing, func(f Failure) bool { return f.Source == w.Source })
		if !counted && at >= 0 {
			b.cause(b.unwaived(w, b.failing[at]))
			continue
		}
		c := Cause{
			Kind: Waived, Source: w.Source,
			Summary: fmt.Sprintf("a failure of %s counts for nothing until %s, by the word of %s: %s", w.Source, clock(w.Until, b.d.At), w.By, w.Reason),
			Remedy: Remedy{
				Text:    "Take the waiver " + w.Name + " off if the source may hold something after all.",
				Command: b.kubectl("annotate", "namespace", b.d.Name, declare.WaiverPrefix+w.Name+"-"),
			},
		}
		if counted {
			c.Detail = "it failed in the last pass: " + text
		}
		b.cause(c)
	}
}

// unwaived tells of a waiver of a source that failed all the same.
func (b *builder) unwaived(w declare.Waiver, f Failure) Cause {
	c := Cause{Kind: Waived, Source: w.Source}
	what := fmt.Sprintf("the waiver %s of %s by %s (%s)", w.Name, w.Source, w.By, w.Reason)
	if f.Unwaived > 0 {
		c.Summary = fmt.Sprintf("%s does not count: %s left of it when it last told", what, plural(f.Unwaived, "object was", "objects were"))
		c.Remedy = Remedy{Text: "Bring the source back, so that it tells what is left.", Command: b.get(w.Source)}
		return c
	}
	c.Summary = what + " has not counted: the last pass was cut short, had begun before it, or knew nothing of waivers"
	c.Remedy = Remedy{Text: "Wait for the next pass; if that fails in the same way, see whether the deleter of the host knows waivers, and waits for its sources to fail."}
	return c
}

// waivedFailure returns the failure of that source that was waived in the last pass.
func (b *builder) waivedFailure(source string) (string, bool) {
	for _, text := range b.in.History.Waived {
		if rest, ok := strings.CutPrefix(text, source+": "); ok {
			return rest, true
		}
	}
	return "", false
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
