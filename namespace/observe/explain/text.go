package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Text returns the diagnosis for a terminal or a log. Control characters, terminal escapes,
// line breaks and marks that change the direction of text are shown as escapes ("\n",
// "\u202e"). It ends with a line break.
func (d Diagnosis) Text() string {
	w := &writer{now: d.At}
	w.b.WriteString(show.Clean(d.headline()) + "\n")
	for _, sub := range d.sublines() {
		w.line("  ", sub)
	}
	w.section("WHY")
	for i, c := range d.Causes {
		w.cause(i+1, c)
	}
	if d.Progress != nil {
		w.section("PROGRESS")
		w.line("  ", d.progress())
	}
	d.textHolders(w)
	d.textObjects(w)
	d.textFailures(w)
	if next := d.next(); next != "" {
		w.section("NEXT PASS")
		w.line("  ", next)
	}
	if len(d.Notes) > 0 {
		w.section("NOTES")
	}
	for _, note := range d.Notes {
		w.line("  ", note)
	}
	return w.b.String()
}

// headline is the name, the phase and its duration.
func (d Diagnosis) headline() string {
	state := d.state()
	switch {
	case d.Stage != "":
		state = fmt.Sprintf("%s (%s) for %s", d.Phase, d.Stage, show.Duration(d.At.Sub(d.Since)))
	case d.Phase != "":
		state = fmt.Sprintf("%s for %s", d.Phase, show.Duration(d.At.Sub(d.Since)))
	}
	return fmt.Sprintf("namespace %s: %s", d.Name, state)
}

func (d Diagnosis) sublines() []string {
	when := "now " + show.Date(d.At)
	if d.Phase == phase.Terminating {
		when = "deleted " + show.Date(d.Since) + ", " + when
	}
	if d.UID == "" {
		return []string{when}
	}
	return []string{when, "uid " + d.UID}
}

func (d Diagnosis) progress() string {
	p := d.Progress
	text := show.Number(p.Removed) + " removed"
	switch {
	case !p.Known:
		text += ", remaining unknown"
	case d.Phase != "" || p.Remaining > 0:
		text += fmt.Sprintf(", %s%s remaining", least(p.AtLeast), show.Number(p.Remaining))
	}
	if p.PerSecond > 0 && (p.Remaining > 0 || p.AtLeast) {
		text += ", " + show.Rate(p.PerSecond)
	}
	if !p.End.IsZero() {
		done := "done about "
		if p.AtLeast {
			done = "not done before "
		}
		text += fmt.Sprintf(", %s%s (in %s)", done, clock(p.End, d.At), show.Duration(p.End.Sub(d.At)))
	}
	if p.Passes > 0 {
		text += ", in " + passes(p.Passes)
	}
	return text
}

func (d Diagnosis) textHolders(w *writer) {
	if len(d.Holders) == 0 {
		return
	}
	w.section("HELD BY")
	for _, h := range d.Holders {
		w.line("  ", string(h.Finalizer)+": "+h.state(d.At))
	}
}

// state is the state of the owner.
func (h Holder) state(now time.Time) string {
	var parts []string
	if h.Object {
		parts = append(parts, "in metadata.finalizers")
	}
	switch {
	case h.Known && h.Alive:
		parts = append(parts, "owner alive")
	case h.Known:
		parts = append(parts, "owner missing since "+clock(h.LastSeen, now))
	case h.Asked:
		parts = append(parts, "owner never announced itself")
	case h.LastPass.IsZero():
		parts = append(parts, "owner unknown here")
	}
	if !h.LastPass.IsZero() {
		parts = append(parts, "last pass "+show.Duration(now.Sub(h.LastPass))+" ago")
	}
	if h.Contact != "" {
		parts = append(parts, "contact "+h.Contact)
	}
	return strings.Join(parts, ", ")
}

func (d Diagnosis) textObjects(w *writer) {
	if len(d.Objects) == 0 {
		return
	}
	w.section("OBJECTS")
	for _, o := range d.Objects {
		w.line("  ", o.state(d.At))
		for _, h := range o.HeldBy {
			since := ""
			if !h.Since.IsZero() {
				since = fmt.Sprintf(" since %s (%s)", clock(h.Since, d.At), show.Duration(d.At.Sub(h.Since)))
			}
			w.line("    ", fmt.Sprintf("%s holds %s%s%s", h.Finalizer, show.Number(h.Objects), names(h.Sample, h.Objects), since))
		}
	}
}

func (o Objects) state(now time.Time) string {
	if o.Waiting {
		return o.Resource + ": waits for earlier types"
	}
	text := fmt.Sprintf("%s: %s%s remaining", o.Resource, least(o.AtLeast), show.Number(o.Remaining))
	if o.Deleting > 0 {
		text += fmt.Sprintf(", %s being deleted", show.Number(o.Deleting))
	}
	text += names(o.Sample, o.Remaining) + o.asOf(now)
	if since := now.Sub(o.Since); !o.Since.IsZero() && since >= time.Second {
		text += ", no fewer for " + show.Duration(since)
	}
	return text
}

func (d Diagnosis) textFailures(w *writer) {
	if len(d.Failures) == 0 {
		return
	}
	w.section("FAILURES")
	for _, f := range d.Failures {
		w.line("  ", fmt.Sprintf("%s: %s", f.Source, f.Text))
		w.line("    ", fmt.Sprintf("%s, first %s, last %s (%s ago)", plural(f.Count, "time", "times"), clock(f.First, d.At), clock(f.Last, d.At),
			show.Duration(d.At.Sub(f.Last))))
	}
}

// next is the time of the next pass; empty: not known.
func (d Diagnosis) next() string {
	if d.Next == nil {
		return ""
	}
	switch wait := d.Next.At.Sub(d.At); {
	case d.Next.Reason == nextRunning || d.Next.Reason == nextQueued:
		return fmt.Sprintf("now (%s for %s)", d.Next.Reason, show.Duration(-wait))
	case wait > 0:
		return fmt.Sprintf("in %s at the latest, %s (%s)", show.Duration(wait), clock(d.Next.At, d.At), d.Next.Reason)
	default:
		return fmt.Sprintf("was due %s ago, %s (%s)", show.Duration(-wait), clock(d.Next.At, d.At), d.Next.Reason)
	}
}

// writer writes the lines of a text.
type writer struct {
	b   strings.Builder
	now time.Time
}

func (w *writer) section(title string) { w.b.WriteString("\n" + title + "\n") }

// line writes text, broken at spaces to the width. All lines are indented, continuations
// more.
func (w *writer) line(indent, text string) { show.Wrap(&w.b, indent, indent+"  ", text) }

func (w *writer) cause(n int, c Cause) {
	show.Wrap(&w.b, fmt.Sprintf("%3d. ", n), "     ", c.Summary)
	if more := c.when(w.now); more != "" {
		show.Wrap(&w.b, "     ", "     ", more)
	}
	show.Wrap(&w.b, "     -> ", "        ", c.Remedy.Text)
	if c.Remedy.Command != "" {
		w.b.WriteString("        $ " + show.Clean(c.Remedy.Command) + "\n")
	}
	if c.Remedy.Template != "" {
		w.b.WriteString("        # " + show.Clean(c.Remedy.Template) + "\n")
	}
}

// when is the age of the cause, with its detail.
func (c Cause) when(now time.Time) string {
	since := ""
	if !c.Since.IsZero() {
		since = fmt.Sprintf("since %s (%s)", clock(c.Since, now), show.Duration(now.Sub(c.Since)))
	}
	return joined(since, c.Detail)
}

// clock returns t in UTC, without the date if that is the date of now.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if !t.IsZero() && t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05 UTC")
	}
	return show.Date(t)
}

func plural(n int, one, many string) string { return show.Number(n) + " " + verb(n, one, many) }

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func passes(n int) string { return plural(n, "pass", "passes") }

func were(objects int) string { return plural(objects, "object was", "objects were") }

func least(atLeast bool) string {
	if atLeast {
		return "at least "
	}
	return ""
}

// names returns " (a, b and 3 more)" for a sample of a number of objects.
func names(sample []string, of int) string {
	if len(sample) == 0 {
		return ""
	}
	text := strings.Join(sample, ", ")
	if of > len(sample) {
		text += fmt.Sprintf(" and %s more", show.Number(of-len(sample)))
	}
	return " (" + text + ")"
}

// listed returns the first entries of a list.
func listed(list []string) string {
	if len(list) <= maxSample {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(list[:maxSample], ", "), show.Number(len(list)-maxSample))
}

// joined joins the parts that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// amounts lists remaining content with samples: "2 of pods (a, b), 1 of jobs (c)".
func amounts(list []Objects, now time.Time) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, fmt.Sprintf("%s%s of %s%s%s", least(o.AtLeast), show.Number(o.Remaining), o.Resource, names(o.Sample, o.Remaining), o.asOf(now)))
	}
	return listed(parts)
}

// asOf returns the time of an old count.
func (o Objects) asOf(now time.Time) string {
	if !o.Old {
		return ""
	}
	return ", as of " + clock(o.Counted, now)
}

// shorten returns a copy of at most limit bytes, which does not keep a longer s in memory.
func shorten(s string, limit int) string { return strings.Clone(phase.Truncate(s, limit)) }

// plus adds b to a and stops at the largest number.
func plus(a, b int) int {
	if sum := a + b; sum >= a || b < 0 {
		return sum
	}
	return int(^uint(0) >> 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier returns the earlier of two times; zero times do not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// text returns the text of an error.
func text(err error) string {
	if err == nil {
		return "unknown error"
	}
	return cmp.Or(err.Error(), "unknown error")
}
