package phase_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/phase"
)

var deleted = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestR2_PhaseFollowsFromTheDeletionTimestamp(t *testing.T) {
	t.Parallel()
	require.Equal(t, phase.Active, phase.Of(time.Time{}))
	require.Equal(t, phase.Active, phase.Of(time.Time{}.In(time.FixedZone("", 3600))))
	require.Equal(t, phase.Terminating, phase.Of(deleted))
	require.Equal(t, phase.Terminating, phase.Of(time.Unix(0, 0)))
	require.Equal(t, phase.Terminating, phase.Of(time.Time{}.Add(1)))
}

func TestStageOf(t *testing.T) {
	t.Parallel()
	remaining := func(qualifier string, s phase.ConditionStatus) phase.Condition {
		return phase.Condition{Type: phase.ContentRemaining.Qualified(qualifier), Status: s}
	}
	type conditions = []phase.Condition
	tests := []struct {
		name       string
		deletion   time.Time
		finalizers int
		conditions conditions
		want       phase.Stage
	}{
		{"active", time.Time{}, 0, nil, ""},
		{"active, whatever the conditions say", time.Time{}, 1, conditions{remaining("", phase.True)}, ""},
		{"no pass yet", deleted, 1, nil, phase.DeletingContent},
		{"only other conditions", deleted, 1, conditions{{Type: "X", Status: phase.False}}, phase.DeletingContent},
		{"a type that ends alike", deleted, 1, conditions{{Type: "My" + phase.ContentRemaining, Status: phase.False}}, phase.DeletingContent},
		{"content remains", deleted, 1, conditions{remaining("", phase.True)}, phase.DeletingContent},
		{"not known", deleted, 1, conditions{remaining("", phase.Unknown)}, phase.DeletingContent},
		{"one party is done", deleted, 2, conditions{remaining("", phase.False)}, phase.WaitingForFinalizers},
		{"another is not", deleted, 2, conditions{remaining("", phase.False), remaining("a/b", phase.True)}, phase.DeletingContent},
		{"both are done", deleted, 1, conditions{remaining("", phase.False), remaining("a/b", phase.False)}, phase.WaitingForFinalizers},
		{"no finalizers", deleted, 0, conditions{remaining("", phase.True)}, phase.ReadyToRemove},
		{"a negative count", deleted, -1, nil, phase.ReadyToRemove},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, phase.StageOf(tt.deletion, tt.finalizers, tt.conditions))
		})
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("", 2*3600)
	tests := []struct {
		name string
		time time.Time
		want string
	}{
		{"unset", time.Time{}, `null`},
		{"UTC", deleted, `"2026-01-02T03:04:05Z"`},
		{"another zone", deleted.In(east), `"2026-01-02T03:04:05Z"`},
		{"fractions are cut", deleted.Add(999 * time.Millisecond), `"2026-01-02T03:04:05Z"`},
		{"fractions before the epoch are cut", time.Unix(-1, 5e8), `"1969-12-31T23:59:59Z"`},
		{"first year", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), `"0000-01-01T00:00:00Z"`},
		{"last year", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), `"9999-12-31T23:59:59Z"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := phase.At(tt.time)
			for _, v := range []phase.Time{at, {Time: tt.time}} {
				out, err := json.Marshal(v)
				require.NoError(t, err)
				require.Equal(t, tt.want, string(out))
			}
			again := phase.At(deleted.Add(time.Hour))
			require.NoError(t, json.Unmarshal([]byte(tt.want), &again))
			require.Equal(t, at, again, "At equals decoding")
			require.True(t, at.Equal(again))
		})
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		`1`, `true`, `{}`, `[]`, `""`, `"now"`, `"2026-01-02"`, `"2026-13-02T03:04:05Z"`, `"2026-01-02T03:04:05"`,
		`"0000-01-01T00:00:00+23:59"`, `"9999-12-31T23:59:59-23:59"`, `"`, `x`, "\"\xff\"",
	} {
		at := phase.At(deleted)
		require.Error(t, json.Unmarshal([]byte(doc), &at), "%s", doc)
		require.Equal(t, phase.At(deleted), at, "%s changed the time", doc)
		require.Error(t, at.UnmarshalJSON([]byte(doc)), "%s", doc)
	}
	require.Error(t, new(phase.Time).UnmarshalJSON(nil))
	for _, year := range []int{-1, 10000} {
		_, err := json.Marshal(phase.Time{Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)})
		require.ErrorContains(t, err, fmt.Sprint(year))
	}
}

// FuzzTime checks that decoding, encoding and decoding again gives the same time.
func FuzzTime(f *testing.F) {
	for _, s := range []string{`null`, `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.6+02:00"`, `"0001-01-01T00:00:00Z"`, `""`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var at, again phase.Time
		if at.UnmarshalJSON(data) != nil {
			return
		}
		out, err := at.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalJSON(out))
		require.Equal(t, at, again)
	})
}

func ExampleStageOf() {
	deletion := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	gone := phase.Conditions(nil, phase.Observation{}, "", deletion)
	fmt.Println(phase.StageOf(deletion, 2, nil))
	fmt.Println(phase.StageOf(deletion, 1, gone))
	fmt.Println(phase.StageOf(deletion, 0, gone))
	// Output:
	// DeletingContent
	// WaitingForFinalizers
	// ReadyToRemove
}
