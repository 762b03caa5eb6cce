package controller

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func TestSnapshotKeepsWhatTheNextPassNeeds(t *testing.T) {
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
		got := c.restore("u", c.snapshot(report))
		want := report
		want.Results = slices.Clone(report.Results)
		for i := range want.Results {
			if want.Results[i].Err != nil {
				want.Results[i].Err = errBefore
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, len(report.Clean), c.snapshot(report).cleaned())
	}
	require.Equal(t, deleter.Report{UID: "v"}, c.restore("v", c.snapshot(deleter.Report{})))
	require.Equal(t, deleter.Report{}, c.restore("v", snapshot{}), "there was no pass")
}
