package debug_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

func TestOverdue(t *testing.T) {
	now := time.Now()
	next := func(name string, at time.Time, reason string) explain.Diagnosis {
		d := going(name, now.Add(-99*time.Hour))
		d.Next = &explain.Next{At: at, Reason: reason}
		return d
	}
	p := newPlace(
		next("late", now.Add(-23*time.Hour), "failed"), next("soon", now.Add(61*time.Minute), "failed"),
		next("due", now.Add(-time.Second), "failed"), next("busy", now.Add(-23*time.Hour), "running"),
		next("waiting", now.Add(-23*time.Hour), "queued"),
	)
	p.at = now
	p.holds = []namespace.Event{
		{Type: namespace.EventPresent, Name: "forgotten", UID: "7", Until: now.Add(-72 * time.Hour)},
		{Type: namespace.EventPresent, Name: "over", UID: "8", Until: now.Add(-time.Second)},
	}
	h := newHandler(t, whole{p, 1}, p, nil)
	for name, want := range map[string]string{
		"late":    `<dd title="failed"><span class="age bad">23h ago, overdue</span></dd>`,
		"soon":    `<dd title="failed"><span class="age">in 1h 1m</span></dd>`,
		"due":     `<dd title="failed"><span class="age">now</span></dd>`,
		"busy":    `<dd title="running"><span class="age">now, for 23h</span></dd>`,
		"waiting": `<dd title="queued"><span class="age">now, for 23h</span></dd>`,
	} {
		require.Contains(t, get(h, "/?namespace="+name).Body.String(), want, name)
	}
	page := get(h, "/").Body.String()
	require.Contains(t, page, `<td data-label="Deleted"><span class="age bad">3d ago, overdue</span></td>`)
	require.Contains(t, page, `<td data-label="Deleted"><span class="age">now</span></td>`)
}

// Remaining objects show the time of their count if the last pass did not count them.
func TestOldCounts(t *testing.T) {
	now := time.Now()
	d := going("one", now.Add(-99*time.Hour))
	d.Passes = []explain.Pass{{Start: now.Add(-30 * time.Second), Took: time.Second, Outcome: "failed"}}
	d.Objects = []explain.Objects{
		{Resource: "aged", Remaining: 7, Counted: now.Add(-23 * time.Hour)},
		{Resource: "failed", Remaining: 6, Counted: now.Add(-65 * time.Second), Old: true},
		{Resource: "fresh", Remaining: 5, Counted: now.Add(-29 * time.Second), Returning: true},
		{Resource: "never", Remaining: 4},
	}
	p := newPlace(d)
	p.at = now
	h := newHandler(t, p, p, nil)
	page := get(h, "/?namespace=one").Body.String()
	require.Regexp(t, `class="number">7 <span class="more">as of <time [^>]*><span class="age">23h</span> ago</time></span></td>`, page)
	require.Regexp(t, `class="number">6 <span class="more">as of <time [^>]*><span class="age">1m 5s</span> ago</time></span></td>`, page)
	require.Contains(t, page, `class="number">5</td>`)
	require.Contains(t, page, `<bdi>fresh</bdi> <span class="tag bad">reappears</span></th>`)
	require.Contains(t, page, `class="number">4</td>`)
	require.Contains(t, page, `The latest pass</summary>`)

	const old = `, oldest count <time`
	require.Contains(t, page, old)
	require.Contains(t, get(h, "/").Body.String(), old)
	require.Contains(t, get(h, "/?format=json").Body.String(), `"counted": "`+now.Add(-23*time.Hour).UTC().Format(time.RFC3339Nano))
	require.Contains(t, get(h, "/?format=text").Body.String(), "  25% (23h ago)  ")
	d.Objects = d.Objects[2:]
	p.set(d)
	for _, target := range []string{"/", "/?namespace=one"} {
		require.NotContains(t, get(h, target).Body.String(), "oldest count")
	}
}

// Ages refer to the time of the diagnosis.
func TestAgesAreOfTheDiagnosis(t *testing.T) {
	then := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) // by the clock of the explainer
	p := newPlace(going("one", then.Add(-90*time.Minute)))
	p.at = then
	h := newHandler(t, p, p, nil)
	page := get(h, "/").Body.String()
	require.Regexp(t, `<td data-label="Age" class="nowrap"><time [^>]*><span class="age">1h 30m</span></time></td>`, page)
	require.Regexp(t, `<dt>Oldest</dt><dd><span class="age">1h 30m</span></dd>`, page)
	require.Regexp(t, `(?m)^one +1h 30m `, get(h, "/?format=text").Body.String())
	require.Contains(t, get(h, "/?format=json").Body.String(), `"at": "2031-05-06T07:08:09Z"`)
}

// A note is one line of the text.
func TestNotesAreLines(t *testing.T) {
	place, options := scene(time.Now())
	h := newHandler(t, place, place, options)
	place.failWith(errLines{})
	for _, target := range []string{"/?format=text", "/?namespace=analytics&format=text"} {
		text := get(h, target).Body.String()
		require.Contains(t, text, "Note: ")
		require.NotRegexp(t, `(?m)^NAMESPACE forged`, text, target)
		require.Contains(t, text, "the store fails NAMESPACE forged", target)
	}
}

type errLines struct{}

func (errLines) Error() string { return "the store fails\nNAMESPACE forged" }
