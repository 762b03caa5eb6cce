package debug

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// functions format values in templates.
var functions = template.FuncMap{
	"show": func(v any) string { return visible(fmt.Sprint(v)) }, "moment": show.Date, "stamp": stamp, "asOf": asOf,
	"age": ageHTML, "in": inHTML, "due": due, "next": next, "outdated": outdated, "short": short, "grouped": show.Number, "rate": show.Rate, "stage": stageText,
	"kind": kindText, "holder": holderClass, "less": func(n int) int { return n - 1 },
}

// visible returns s with escapes for characters that are invisible or change how the text
// reads. Line breaks stay.
func visible(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = show.Clean(line)
	}
	return strings.Join(lines, "\n")
}

// quoted returns a name in quotes.
func quoted(name string) string { return strconv.Quote(visible(name)) }

// stamp returns t for the datetime attribute.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// age returns the time between since and at.
func age(since, at time.Time) string {
	if since.IsZero() {
		return "unknown"
	}
	return long(at.Sub(since))
}

// aging begins an element whose text changes with time alone; see [withoutAges].
const aging = `<span class="age`

// agedHTML returns an element whose text changes with time alone. The text needs no escapes.
func agedHTML(class, text string) template.HTML {
	return template.HTML(aging + class + `">` + text + "</span>")
}

func asOf(t time.Time) template.HTML            { return agedHTML("", show.Date(t)) }
func ageHTML(since, at time.Time) template.HTML { return agedHTML("", age(since, at)) }
func inHTML(t, at time.Time) template.HTML      { return agedHTML("", in(t, at)) }

// withoutAges returns a fragment without the texts that change with time alone.
func withoutAges(fragment []byte) []byte {
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

// overdueAfter is the tolerated delay of a pass or a hold; no backoff is longer.
const overdueAfter = 2 * time.Minute

// due returns the time until t, or that it is overdue.
func due(t, at time.Time) template.HTML {
	if late := at.Sub(t); late > overdueAfter {
		return agedHTML(" bad", long(late)+" ago, overdue")
	}
	return inHTML(t, at)
}

// next returns the time until the next pass.
func next(n explain.Next, at time.Time) template.HTML {
	if n.Reason != "running" && n.Reason != "queued" {
		return due(n.At, at)
	}
	if since := at.Sub(n.At); since >= time.Second {
		return agedHTML("", "now, for "+long(since))
	}
	return agedHTML("", "now")
}

// oldCount is an outdated count of objects, at the time At.
type oldCount struct{ Counted, At time.Time }

// oldestCount returns the oldest outdated count; nil: all counts are recent.
func oldestCount(d *explain.Diagnosis) *oldCount {
	var found *oldCount
	for _, o := range d.Objects {
		if outdated(o, d.At) && (found == nil || o.Counted.Before(found.Counted)) {
			found = &oldCount{o.Counted.UTC(), d.At}
		}
	}
	return found
}

// outdated reports whether the last pass did not count the objects, or did long ago.
func outdated(o explain.Objects, at time.Time) bool {
	return !o.Counted.IsZero() && (o.Old || at.Sub(o.Counted) > overdueAfter)
}

// in returns the time from at until t.
func in(t, at time.Time) string {
	if !t.After(at) {
		return "now"
	}
	return "in " + long(t.Sub(at))
}

// long returns a duration in its two largest units, in whole seconds.
func long(d time.Duration) string { return show.Duration(d.Truncate(time.Second)) }

// short returns a duration with up to three digits.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second || d >= time.Minute:
		return show.Duration(d)
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
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

func kindText(k explain.Kind) string { return visible(strings.ReplaceAll(string(k), "-", " ")) }

// holderClass is the color of a finalizer.
func holderClass(h explain.Holder) string {
	switch {
	case h.Alive:
		return "good"
	case h.Known:
		return "bad"
	}
	return "none"
}
