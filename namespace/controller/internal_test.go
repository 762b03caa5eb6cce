package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func TestRemembered(t *testing.T) {
	var c catalog
	var types []namespace.ResourceType
	for _, name := range []string{"pods", "builds", "secrets"} {
		for _, group := range []string{"", "example.com"} {
			types = append(types, namespace.ResourceType{Name: name, Group: group})
		}
	}
	slices.SortFunc(types, namespace.ResourceType.Compare)
	for range 100 { // whatever came before, in any order
		report := deleter.Report{UID: "u"}
		for _, r := range types {
			switch rand.IntN(4) {
			case 0:
				report.Clean = append(report.Clean, r)
			case 1:
				report.Results = append(report.Results, deleter.Result{Resource: r, Remaining: 1 + rand.IntN(9), Deleting: 1, Seen: "7", More: true})
			case 2:
				report.Results = append(report.Results, deleter.Result{Resource: r, Err: errors.New("broken")})
			}
			if rand.IntN(4) == 0 {
				report.LastSeen = append(report.LastSeen, deleter.ResourceCount{Resource: r, Objects: 1 + rand.IntN(9)})
			}
		}
		report.Provisional = time.Duration(rand.IntN(3)) * time.Second
		got := c.recall("u", c.remember(report))
		want := report
		want.Results = slices.Clone(report.Results)
		for i := range want.Results {
			if want.Results[i].Err != nil {
				want.Results[i].Err = errBefore
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, len(report.Clean), c.remember(report).cleaned())
	}
	require.Equal(t, deleter.Report{UID: "v"}, c.recall("v", c.remember(deleter.Report{})))
	require.Equal(t, deleter.Report{}, c.recall("v", remembered{}), "there was no pass")
}

func TestTimers(t *testing.T) {
	var q timers
	entries := make([]*entry, 50)
	for i := range entries {
		entries[i] = &entry{slot: -1}
	}
	want := map[*entry]time.Duration{}
	for range 5000 {
		e := entries[rand.IntN(len(entries))]
		switch rand.IntN(3) {
		case 0:
			q.remove(e)
			delete(want, e)
		default:
			due := time.Duration(rand.IntN(1000))
			q.set(e, due)
			want[e] = due
		}
		now := time.Duration(rand.IntN(200))
		for e := q.pop(now); e != nil; e = q.pop(now) {
			require.LessOrEqual(t, want[e], now)
			require.EqualValues(t, -1, e.slot)
			delete(want, e)
		}
		least, any := time.Duration(math.MaxInt64), false
		for _, due := range want {
			least, any = min(least, due), true
			require.Greater(t, due, now, "it was due")
		}
		next, ok := q.next()
		require.Equal(t, any, ok)
		if ok {
			require.Equal(t, least, next)
		}
	}
}

func TestDelays(t *testing.T) {
	d := delays{5 * time.Millisecond, time.Minute}
	for tries := range 256 {
		for range 10 {
			full := min(time.Minute, 5*time.Millisecond<<min(tries, 20))
			got := d.after(uint8(tries))
			require.LessOrEqual(t, got, full)
			require.GreaterOrEqual(t, got, full*3/4)
		}
	}
	require.EqualValues(t, math.MaxInt64, doubled(time.Minute, 200, math.MaxInt64))
	require.Equal(t, 4*time.Minute, doubled(time.Minute, 2, math.MaxInt64))
	require.EqualValues(t, 255, more(255))
	require.Positive(t, delays{1, 1}.after(0))
}
