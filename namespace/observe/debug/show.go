package debug

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// functions are what templates show values with.
var functions = template.FuncMap{
	"show": func(v any) string { return visible(fmt.Sprint(v)) }, "moment": moment, "stamp": stamp, "asOf": asOf,
	"age": ageHTML, "in": inHTML, "due": due, "next": next, "outdated": outdated, "short": short, "grouped": grouped, "rate": rate, "stage": stageText,
	"severity": severity, "kind": kindText, "holder": holderClass, "less": func(n int) int { return n - 1 },
}

// visible returns s with everything written out that would not be seen, or would change
// how the text around it is read: control and format characters, such as those that
// turn the direction of writing, and what is not UTF-8.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r))
}

// quoted returns a name for a sentence.
func quoted(name string) string { return strconv.Quote(visible(name)) }

// moment returns t for people.
func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// stamp returns t for the datetime attribute.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// age returns for how long something has been so at the time at.
func age(since, at time.Time) string {
	if since.IsZero() {
		return "unknown"
	}
	return long(at.Sub(since))
}

// aging begins an element whose text changes by time alone; see [still].
const aging = `<span class="age`

// agedHTML returns an element whose text, which nothing needs to be escaped in, changes by
// time alone.
func agedHTML(class, text string) template.HTML {
	return template.HTML(aging + class + `">` + text + "</span>")
}

func asOf(t time.Time) template.HTML            { return agedHTML("", moment(t)) }
func ageHTML(since, at time.Time) template.HTML { return agedHTML("", age(since, at)) }
func inHTML(t, at time.Time) template.HTML      { return agedHTML("", in(t, at)) }

// still returns a fragment without the texts that time alone changes: two fragments
// that differ in nothing else tell the same.
func still(fragment []byte) []byte {
	var out []byte
	for {
		before, rest, found := bytes.Cut(fragment, []byte(aging))
		out = append(out, before...)
		if !found {
			return out
		}
		end := max(bytes.IndexByte(rest, '>'), 0)
		out = append(out, rest[:end]...)
		fragment = rest[end+max(bytes.IndexByte(rest[end:], '<'), 0):]
	}
}

// overdueAfter is how late something may be until that is told: nothing that works
// backs off for longer.
const overdueAfter = 2 * time.Minute

// due returns when something happens that should happen at t.
func due(t, at time.Time) template.HTML {
	if late := at.Sub(t); late > overdueAfter {
		return agedHTML(" bad", long(late)+" ago, overdue")
	}
	return inHTML(t, at)
}

// next returns when a namespace is looked at next.
func next(n explain.Next, at time.Time) template.HTML {
	if n.Reason == "running" || n.Reason == "queued" { // it is, or will be at once
		if since := at.Sub(n.At); since >= time.Second {
			return agedHTML("", "now, for "+long(since))
		}
		return agedHTML("", "now")
	}
	return due(n.At, at)
}

// oldCount is when objects were counted that were not counted lately, at the time At.
type oldCount struct{ Counted, At time.Time }

// oldestCount returns the oldest count that is outdated of what is left; nil: there is none.
func oldestCount(d *explain.Diagnosis) *oldCount {
	var found *oldCount
	for _, o := range d.Objects {
		if outdated(o, d.Passes, d.At) && (found == nil || o.Counted.Before(found.Counted)) {
			found = &oldCount{o.Counted.UTC(), d.At}
		}
	}
	return found
}

// outdated reports whether objects were not counted in the last pass, or a while ago.
func outdated(o explain.Objects, passes []explain.Pass, at time.Time) bool {
	if o.Counted.IsZero() {
		return false
	}
	n := len(passes)
	return at.Sub(o.Counted) > overdueAfter || n > 0 && o.Counted.Before(passes[n-1].Start)
}

// in returns how long it is from at until t.
func in(t, at time.Time) string {
	if !t.After(at) {
		return "now"
	}
	return "in " + long(t.Sub(at))
}

// long returns a duration in its two greatest units, as diagnoses have it: "3h 12m".
func long(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return two(d/time.Second, "s", 0, "")
	case d < time.Hour:
		return two(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < day:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return two(d/day, "d", d%day/time.Hour, "h")
}

func two(n time.Duration, unit string, rest time.Duration, of string) string {
	if rest == 0 {
		return strconv.Itoa(int(n)) + unit
	}
	return fmt.Sprintf("%d%s %d%s", n, unit, rest, of)
}

// short returns a duration with three figures.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return long(d)
}

// grouped returns n with its thousands apart.
func grouped(n int) string {
	s := strconv.Itoa(n)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return grouped(int(math.Round(perSecond))) + "/s"
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.1f/min", perSecond*60)
}

func stageText(s phase.Stage) string {
	switch s {
	case phase.DeletingContent:
		return "deleting content"
	case phase.WaitingForFinalizers:
		return "waiting for finalizers"
	case phase.ReadyToRemove:
		return "ready to remove"
	}
	return visible(string(s))
}

// severity says how a cause is coloured: calm, if it goes on by itself or is as it was
// asked for; else somebody has to do something about it.
func severity(k explain.Kind) string {
	switch k {
	case explain.OwnerAtWork, explain.Stopping, explain.Moving, explain.Confirming, explain.Ordered, explain.Starting,
		explain.NotTerminating, explain.Gone, explain.NotFound:
		return "calm"
	case explain.Protected, explain.OnHold, explain.Waived, explain.Forced, explain.Remaining, explain.Queued,
		explain.OwnerUnknown, explain.Held, explain.SourceSlow:
		return "warn"
	}
	return "bad"
}

func kindText(k explain.Kind) string { return visible(strings.ReplaceAll(string(k), "-", " ")) }

// holderClass says how a finalizer is coloured by what is known of its owner.
func holderClass(h explain.Holder) string {
	switch {
	case h.Alive:
		return "good"
	case h.Known:
		return "bad"
	}
	return "none"
}
