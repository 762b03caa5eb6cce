package debug

import (
	"bytes"
	"html/template"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", time.Minute: "1m", 61 * time.Second: "1m 1s",
		time.Hour: "1h", 90 * time.Minute: "1h 30m", 25 * time.Hour: "1d 1h", 1000 * 24 * time.Hour: "1,000d",
	} {
		require.Equal(t, want, long(d))
	}
	for d, want := range map[time.Duration]string{
		-1: "0s", 1500: "1µs", 12 * time.Millisecond: "12ms", 1234 * time.Millisecond: "1.2s", 2 * time.Minute: "2m",
	} {
		require.Equal(t, want, short(d))
	}
	now := time.Now()
	require.Equal(t, "unknown", age(time.Time{}, now))
	require.Equal(t, "now", in(now, now))
	require.Equal(t, "in 5s", in(now.Add(5*time.Second), now))
}

func TestVisibleKeepsLines(t *testing.T) {
	require.Equal(t, "a\n"+`b\t\u202e`, visible("a\nb\t\u202e"))
}

// withoutAges removes exactly the texts that change with time alone.
func TestStill(t *testing.T) {
	one, two := time.Unix(0, 0), time.Unix(3600*24*9, 0)
	for _, c := range []struct {
		a, b template.HTML
		same bool
	}{
		{asOf(one), asOf(two), true},
		{ageHTML(one, one), ageHTML(one, two), true},
		{due(two, two), due(two, two.Add(-time.Hour)), true},
		{due(one, one), due(one, two), false},
		{"a" + asOf(one), "b" + asOf(one), false},
		{asOf(one) + "a", asOf(two) + "b", false},
		{asOf(one) + "a" + asOf(one), asOf(two) + "a" + asOf(two), true},
		{aging, aging + "x", false},
		{aging + `">`, aging + `">x`, false},
		{template.HTML(template.HTMLEscapeString(string(asOf(one)))), template.HTML(template.HTMLEscapeString(string(asOf(two)))), false},
	} {
		require.Equal(t, c.same, bytes.Equal(withoutAges([]byte(c.a)), withoutAges([]byte(c.b))), "%s and %s", c.a, c.b)
	}
	require.Empty(t, withoutAges(nil))
}

func TestTimeline(t *testing.T) {
	require.Empty(t, newTimeline(nil).Columns)
	var passes []explain.Pass
	for i := range 100 {
		passes = append(passes, explain.Pass{Start: time.Unix(int64(i), 0), Remaining: 100 - i})
	}
	passes[99].Remaining, passes[98].Error = 0, "failed"
	line := newTimeline(passes)
	require.Len(t, line.Columns, maxColumns, "the latest are drawn")
	require.Equal(t, 64, line.Most)
	last := len(line.Columns) - 1
	require.Equal(t, []string{"busy", "bad", "good"}, []string{line.Columns[0].Class, line.Columns[last-1].Class, line.Columns[last].Class})
	for i, c := range line.Columns {
		require.LessOrEqual(t, c.X+c.Width, line.Width)
		require.GreaterOrEqual(t, c.Y, 0)
		require.Equal(t, line.Height, c.Y+c.Height, "columns stand on one line")
		require.GreaterOrEqual(t, c.Height, minHeight)
		if i > 0 {
			require.LessOrEqual(t, c.Height, line.Columns[i-1].Height, "less remained")
		}
	}
	odd := newTimeline([]explain.Pass{{Remaining: math.MaxInt}, {Remaining: -4, Took: -1}})
	require.Equal(t, timelineHeight, odd.Columns[0].Height)
	require.Equal(t, minHeight, odd.Columns[1].Height)
}

func TestKindText(t *testing.T) {
	require.Equal(t, "owner missing", kindText(explain.OwnerMissing))
}
