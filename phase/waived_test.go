package phase_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/phase"
)

// The conditions claim nothing that a waiver alone makes true without saying so.
func TestR9_ConditionsTellOfWaivers(t *testing.T) {
	const (
		discovery = "a.example.com: down"
		one, two  = "pods: list: down", "widgets.example.com: delete: down"
	)
	for _, tt := range []struct {
		name string
		seen phase.Observation
		want [5]string // what follows the healthy message; the whole where it is not healthy
	}{
		{"nothing", phase.Observation{}, [5]string{}},
		{"content", phase.Observation{Waived: errs(two, one)},
			[5]string{2: "; waived: " + one + ", " + two, 3: "; waived: " + one + ", " + two, 4: "; waived: " + one + ", " + two}},
		{"discovery", phase.Observation{WaivedDiscovery: errs(discovery)},
			[5]string{0: "; waived: " + discovery, 3: "; waived: " + discovery, 4: "; waived: " + discovery}},
		{"both", phase.Observation{WaivedDiscovery: errs(discovery), Waived: errs(one)},
			[5]string{0: "; waived: " + discovery, 2: "; waived: " + one,
				3: "; waived: " + discovery + ", " + one, 4: "; waived: " + discovery + ", " + one}},
		{"an error without a text", phase.Observation{Waived: []error{nil}},
			[5]string{2: "; waived: unknown error", 3: "; waived: unknown error", 4: "; waived: unknown error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.True(t, tt.seen.Empty(), "what is waived holds nothing up")
			for i, c := range phase.Conditions(nil, tt.seen, "", after) {
				want := phase.Condition{Type: types[i], Status: phase.False, Reason: healthy[i].reason, Message: healthy[i].message + tt.want[i], LastTransitionTime: phase.At(after)}
				require.Empty(t, cmp.Diff(want, c))
			}
		})
	}
}

// What failed beside is told as ever: its conditions do not claim that all is well.
func TestR9_WaiversDoNotHideFailures(t *testing.T) {
	seen := phase.Observation{Content: errs("pods: list: down"), Waived: errs("widgets.example.com: list: down")}
	require.False(t, seen.Empty())
	conditions := phase.Conditions(nil, seen, "", after)
	require.Equal(t, phase.True, conditions[2].Status)
	require.Equal(t, "Failed to delete all resource types, 1 remaining: pods: list: down", conditions[2].Message)
	for _, i := range []int{3, 4} {
		require.Equal(t, phase.Unknown, conditions[i].Status)
		require.NotContains(t, conditions[i].Message, "waived")
	}
	seen = phase.Observation{Remaining: []phase.Remaining{{Resource: "pods", Count: 1}}, Waived: errs("widgets.example.com: list: down")}
	conditions = phase.Conditions(nil, seen, "", after)
	require.Equal(t, phase.True, conditions[3].Status)
	require.Equal(t, "Some resources are remaining: pods. has 1 resource instances", conditions[3].Message)
}

// However many are waived, and whatever they say, the conditions can be stored.
func TestWaiversAreBounded(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, string(rune('a'+i%26))+strings.Repeat("ä", 1000))
	}
	seen := phase.Observation{Waived: errs(many...)}
	for _, c := range phase.Conditions(nil, seen, "", after)[2:] {
		require.Less(t, len(c.Message), 10<<10)
		require.True(t, utf8.ValidString(c.Message))
		require.True(t, strings.HasSuffix(c.Message, "... and 984 more"), c.Message[len(c.Message)-40:])
		require.Contains(t, c.Message, "; waived: aä")
	}
	again := phase.Conditions(nil, phase.Observation{Waived: append(seen.Waived[1:], seen.Waived[0])}, "", after)
	require.Empty(t, cmp.Diff(phase.Conditions(nil, seen, "", after), again), "the order of failures does not show")
	require.Len(t, seen.Waived, 1000)
}
