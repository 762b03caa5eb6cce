package phase_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/phase"
)

type result struct {
	status          phase.ConditionStatus
	reason, message string
}

var healthy = [5]result{
	{phase.False, "ResourcesDiscovered", "All resources successfully discovered"},
	{phase.False, "ParsedGroupVersions", "All legacy kube types successfully parsed"},
	{phase.False, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"},
	{phase.False, "ContentRemoved", "All content successfully removed"},
	{phase.False, "ContentHasNoFinalizers", "All content-preserving finalizers finished"},
}

var types = [5]phase.ConditionType{
	"NamespaceDeletionDiscoveryFailure",
	"NamespaceDeletionGroupVersionParsingFailure",
	"NamespaceDeletionContentFailure",
	"NamespaceContentRemaining",
	"NamespaceFinalizersRemaining",
}

// Clients and operators search for the exact texts.
func TestR9_ConditionsReportTheObservation(t *testing.T) {
	t.Parallel()
	const gap = "not every resource type could be discovered, deleted and listed"
	unknown := map[int]result{
		3: {phase.Unknown, "ContentUnknown", "No remaining resources were seen, but " + gap},
		4: {phase.Unknown, "FinalizersUnknown", "No remaining finalizers were seen, but " + gap},
	}
	tests := []struct {
		name string
		seen phase.Observation
		want map[int]result // differences from healthy
	}{
		{"nothing is left", phase.Observation{}, nil},
		{"zero counts are nothing", phase.Observation{Remaining: []phase.Remaining{{"", "pods", 0}}, Finalizers: []phase.Holder{{Finalizer: "a/b"}}}, nil},
		{"resources remain, sorted", phase.Observation{Remaining: []phase.Remaining{{"example.com", "widgets", 1}, {"", "pods", 2}}},
			map[int]result{3: {phase.True, "SomeResourcesRemain",
				"Some resources are remaining: pods. has 2 resource instances, widgets.example.com has 1 resource instances"}}},
		{"finalizers remain, sorted and summed", phase.Observation{
			Remaining: []phase.Remaining{{"", "pods", 4}}, Finalizers: []phase.Holder{{Finalizer: "b/b", Objects: 1}, {Finalizer: "a/a", Objects: 1}, {Finalizer: "b/b", Objects: 2}}},
			map[int]result{
				3: {phase.True, "SomeResourcesRemain", "Some resources are remaining: pods. has 4 resource instances"},
				4: {phase.True, "SomeFinalizersRemain",
					"Some content in the namespace has finalizers remaining: a/a in 1 resource instances, b/b in 3 resource instances"}}},
		{"more than can be counted", phase.Observation{Remaining: []phase.Remaining{{"", "pods", math.MaxInt}, {"", "pods", math.MaxInt}}},
			map[int]result{3: {phase.True, "SomeResourcesRemain",
				fmt.Sprintf("Some resources are remaining: pods. has %d resource instances", math.MaxInt)}}},
		{"discovery failed, nothing seen", phase.Observation{Discovery: errs("b: down", "a: down")},
			map[int]result{
				0: {phase.True, "DiscoveryFailed", "Discovery failed for some groups, 2 failing: a: down, b: down"},
				3: unknown[3], 4: unknown[4]}},
		{"discovery failed for some groups, in one error", phase.Observation{Discovery: []error{counted{errors.New("a: down, b: down"), 2}}},
			map[int]result{
				0: {phase.True, "DiscoveryFailed", "Discovery failed for some groups, 2 failing: a: down, b: down"},
				3: unknown[3], 4: unknown[4]}},
		{"discovery failed as a whole", phase.Observation{Discovery: []error{counted{errors.New("connection refused"), 0}}},
			map[int]result{
				0: {phase.True, "DiscoveryFailed", "connection refused"},
				3: unknown[3], 4: unknown[4]}},
		{"parsing failed", phase.Observation{Parsing: errs("unexpected GroupVersion string: a/b/c")},
			map[int]result{
				1: {phase.True, "GroupVersionParsingFailed", "unexpected GroupVersion string: a/b/c"},
				3: unknown[3], 4: unknown[4]}},
		{"deletion failed", phase.Observation{Content: errs("pods: timeout", "apps: refused")},
			map[int]result{
				2: {phase.True, "ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: apps: refused, pods: timeout"},
				3: unknown[3], 4: unknown[4]}},
		{"some failed, some remains", phase.Observation{Content: errs("pods: timeout"), Remaining: []phase.Remaining{{"", "secrets", 1}}},
			map[int]result{
				2: {phase.True, "ContentDeletionFailed", "Failed to delete all resource types, 1 remaining: pods: timeout"},
				3: {phase.True, "SomeResourcesRemain", "Some resources are remaining: secrets. has 1 resource instances"},
				4: unknown[4]}},
		{"some were not asked", phase.Observation{Remaining: []phase.Remaining{{"", "pods", 1}}, Unasked: 3},
			map[int]result{
				3: {phase.True, "SomeResourcesRemain", "Some resources are remaining: pods. has 1 resource instances"},
				4: {phase.Unknown, "FinalizersUnknown",
					"No remaining finalizers were seen, but not every resource type gave a full answer: some wait for others to be empty, or were not fully listed"}}},
		{"negative counts", phase.Observation{Remaining: []phase.Remaining{{"", "pods", -1}, {"", "pods", 1}, {"", "pods", -9}}},
			map[int]result{
				3: {phase.True, "SomeResourcesRemain", "Some resources are remaining: pods. has 1 resource instances"},
				4: {phase.Unknown, "FinalizersUnknown", "No remaining finalizers were seen, but some counts were negative"}}},
		{"an error without text, and none", phase.Observation{Parsing: []error{errors.New(""), nil}},
			map[int]result{
				1: {phase.True, "GroupVersionParsingFailed", "unknown error, unknown error"},
				3: unknown[3], 4: unknown[4]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, qualifier := range []string{"", "openshift.com/origin"} {
				var want []phase.Condition
				for i, typ := range types {
					say, differs := tt.want[i]
					if !differs {
						say = healthy[i]
					}
					if qualifier != "" {
						typ = "openshift.com/origin." + typ
					}
					want = append(want, phase.Condition{Type: typ, Status: say.status,
						LastTransitionTime: phase.At(after), Reason: say.reason, Message: say.message})
				}
				require.Empty(t, cmp.Diff(want, phase.Conditions(nil, tt.seen, qualifier, after)))
			}
			require.Equal(t, tt.want == nil, tt.seen.Empty(), "all conditions are healthy exactly if a party may remove its finalizer")
		})
	}
}

// counted is an error that stands for n failures.
type counted struct {
	error
	n int
}

func errs(texts ...string) []error {
	var list []error
	for _, s := range texts {
		list = append(list, errors.New(s))
	}
	return list
}

// A condition that is healthy only because of a waiver mentions the waiver.
func TestR9_ConditionsMentionWaivers(t *testing.T) {
	const (
		discovery = "a.example.com: down"
		one, two  = "pods: list: down", "widgets.example.com: delete: down"
	)
	for _, tt := range []struct {
		name string
		seen phase.Observation
		want [5]string // the end of the healthy message
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
			require.True(t, tt.seen.Empty(), "waived failures do not block")
			for i, c := range phase.Conditions(nil, tt.seen, "", after) {
				want := phase.Condition{Type: types[i], Status: phase.False, Reason: healthy[i].reason, Message: healthy[i].message + tt.want[i], LastTransitionTime: phase.At(after)}
				require.Empty(t, cmp.Diff(want, c))
			}
		})
	}
}

// Unwaived failures are reported as before.
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

// Any number of waived failures fits into the conditions.
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
	require.Empty(t, cmp.Diff(phase.Conditions(nil, seen, "", after), again), "the order of failures does not matter")
	require.Len(t, seen.Waived, 1000)
}

// A status can always be written.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", 1<<19), strings.Repeat("x\xff", 1<<16), "\xff"} {
		got := phase.Conditions(nil, phase.Observation{Content: errs(text)}, "", after)[2].Message
		require.LessOrEqual(t, len(got), 32<<10)
		require.True(t, utf8.ValidString(got))
		require.Equal(t, len(text) > 100, strings.HasSuffix(got, "..."))
	}
}

// ContentLastSeen follows the five conditions, is read back as it was written, and is absent without
// types to remember. Parties do not share it.
func TestR7_ContentLastSeen(t *testing.T) {
	t.Parallel()
	seen := []phase.Remaining{{Resource: "odd \"=,", Count: 1}, {Resource: "pods", Count: 2}, {Group: "a.example.com", Resource: "widgets", Count: math.MaxInt}}
	now := time.Unix(1_000_000_000, 0)
	other := phase.Condition{Type: "Other", Status: phase.True}
	for _, qualifier := range []string{"", "example.com/agent"} {
		written := phase.Conditions([]phase.Condition{other}, phase.Observation{LastSeen: append(seen, phase.Remaining{Resource: "none"})}, qualifier, now)
		require.Len(t, written, 7)
		require.Equal(t, other, written[0])
		require.Equal(t, phase.ContentLastSeen.Qualified(qualifier), written[6].Type)
		require.Equal(t, seen, phase.LastSeen(written, qualifier))
		require.Empty(t, phase.LastSeen(written, "example.com/other"))

		again := phase.Conditions(written, phase.Observation{LastSeen: seen}, qualifier, now.Add(time.Hour))
		for _, c := range again[6:] {
			require.Equal(t, written[6], c)
		}
		require.Len(t, phase.Conditions(written, phase.Observation{}, qualifier, now), 6)
		for _, message := range []string{"", "{", "null", "{}", "[]"} {
			written[6].Message = message
			require.Equal(t, []phase.Remaining{{Count: 1}}, phase.LastSeen(written, qualifier))
		}
	}
	var many []phase.Remaining
	for i := range 10_000 {
		many = append(many, phase.Remaining{Resource: fmt.Sprintf("<things%05d>", i), Count: math.MaxInt})
	}
	got := phase.LastSeen(phase.Conditions(nil, phase.Observation{LastSeen: many}, "", now), "")
	require.Greater(t, len(got), 500)
	require.Equal(t, phase.Remaining{Count: math.MaxInt}, got[0], "the rest")
}

// Random messages are read back as they were written.
func TestMessagesRoundTrip(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	name := func(prefix string) string { return fmt.Sprintf("%s%d", prefix, r.IntN(1000)) }
	group := func() string { return []string{"", "apps", "a.example.com"}[r.IntN(3)] }
	for range 1000 {
		var seen phase.Observation
		remaining := map[phase.Remaining]int{}
		for range r.IntN(4) {
			one := phase.Remaining{Group: group(), Resource: name("pods"), Count: 1 + r.IntN(1000)}
			seen.Remaining = append(seen.Remaining, one)
			remaining[phase.Remaining{Group: one.Group, Resource: one.Resource}] += one.Count
		}
		holders := map[string]int{}
		for range r.IntN(4) {
			one := phase.Holder{Finalizer: "example.com/" + name("f"), Objects: 1 + r.IntN(1000)}
			seen.Finalizers = append(seen.Finalizers, one)
			holders[one.Finalizer] += one.Objects
		}
		texts := func() (failures []error, joined string) {
			var list []string
			for i := range r.IntN(3) {
				list = append(list, fmt.Sprintf("%d: %s: down", i, name("pods")))
			}
			return errs(list...), strings.Join(list, ", ")
		}
		var failures [3]string
		seen.Discovery, failures[0] = texts()
		seen.Parsing, failures[1] = texts()
		seen.Content, failures[2] = texts()
		seen.Provisional = r.IntN(2) == 0

		got := phase.Conditions(nil, seen, []string{"", "example.com/agent"}[r.IntN(2)], after)
		for i, want := range failures {
			if want != "" {
				require.Equal(t, want, got[i].Failures())
			}
		}
		for _, one := range got[3].Remaining() {
			key := phase.Remaining{Group: one.Group, Resource: one.Resource}
			require.Equal(t, remaining[key], one.Count)
			delete(remaining, key)
		}
		require.Empty(t, remaining)
		for _, one := range got[4].Holders() {
			require.Equal(t, holders[one.Finalizer], one.Objects)
			delete(holders, one.Finalizer)
		}
		require.Empty(t, holders)
		require.Equal(t, seen.Provisional && seen.Answered() && len(seen.Remaining) == 0, got[3].MayGrow())
		for i, c := range got {
			plain, qualifier := c.Type.Split()
			require.Equal(t, types[i], plain)
			require.Equal(t, c.Type, plain.Qualified(qualifier))
		}
	}
}
