package declare_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestGraceOf(t *testing.T) {
	t.Parallel()
	grace, err := declare.GraceOf(namespace.Meta{})
	require.NoError(t, err)
	require.Zero(t, grace)
	for value, want := range map[string]time.Duration{"24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "0s": 0, "0": 0, "8760h": declare.MaxGrace} {
		grace, err := declare.GraceOf(annotated(declare.GraceAnnotation, value))
		require.NoError(t, err, value)
		require.Equal(t, want, grace)
	}
	for _, value := range []string{"", "24", "-1s", "a day", "1d", "\xff", "9999999999h", "8760h0m1s"} {
		grace, err := declare.GraceOf(annotated(declare.GraceAnnotation, value))
		require.ErrorIs(t, err, namespace.ErrInvalid, value)
		require.Zero(t, grace)
		var refusal *namespace.Error
		require.ErrorAs(t, err, &refusal)
		require.Len(t, refusal.Causes, 1)
		require.Equal(t, "metadata.annotations[nslifecycle.io/deletion-grace]", refusal.Causes[0].Field)
	}
}

// What [declare.PrepareDelete] makes of every combination of grace, hold and phase. It
// never changes what it is given, and its answer is what the next DELETE finds (R3).
func TestPrepareDelete(t *testing.T) {
	t.Parallel()
	const terminating, held, same, refused = "terminating", "held", "same", "refused"
	for _, tc := range []struct {
		grace, hold string // empty: none
		want        string
	}{
		{"", "", terminating},
		{"", "1h", terminating},
		{"", "-1h", terminating},
		{"", "unreadable", terminating},
		{"2h", "", held},
		{"2h", "unreadable", held},
		{"2h", "1ns", same},
		{"2h", "1h", same},
		{"2h", "0s", terminating},
		{"2h", "-1h", terminating},
		{"0s", "", terminating},
		{"0s", "1h", terminating},
		{"0s", "unreadable", terminating},
		{"unreadable", "", refused},
		{"unreadable", "unreadable", refused},
		{"unreadable", "1h", refused},
		{"unreadable", "-1h", terminating},
	} {
		t.Run(tc.grace+","+tc.hold, func(t *testing.T) {
			n := protectedNamespace()
			n.Annotations = map[string]string{}
			if tc.grace != "" {
				n.Annotations[declare.GraceAnnotation] = tc.grace
			}
			if d, err := time.ParseDuration(tc.hold); err == nil {
				key, value, err := declare.Hold{Until: now.Add(d)}.Annotation()
				require.NoError(t, err)
				n.Annotations[key] = value
			} else if tc.hold != "" {
				n.Annotations[declare.HoldAnnotation] = tc.hold
			}
			before := n.DeepCopy()
			got, err := declare.PrepareDelete(n, "ada", now)
			require.Empty(t, cmp.Diff(before, n), "what it was given")
			if tc.want == refused {
				require.ErrorIs(t, err, namespace.ErrForbidden)
				require.ErrorIs(t, err, namespace.ErrInvalid, "the cause is in the chain")
				require.ErrorContains(t, err, "correct or remove the annotation nslifecycle.io/deletion-grace first")
				return
			}
			require.NoError(t, err)
			want := n
			switch tc.want {
			case terminating:
				want = namespace.MarkDeleted(n, now)
			case held:
				want, err = declare.WithHold(n, declare.Hold{
					Until: now.Add(2 * time.Hour), By: "ada", Reason: "requested by DELETE; the namespace has a grace of 2h0m0s",
				})
				require.NoError(t, err)
			}
			require.Empty(t, cmp.Diff(want, got))
			again, err := declare.PrepareDelete(got, "bob", now)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(got, again), "a second DELETE changes nothing")
			if got.Phase() == phase.Terminating {
				later, err := declare.PrepareDelete(got, "", now.Add(1000*time.Hour))
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(got, later))
			}
		})
	}
}

// A grace is never shorter than it says, and ends with a whole second.
func TestGraceIsRoundedUp(t *testing.T) {
	t.Parallel()
	n := protectedNamespace(declare.GraceAnnotation, "90m")
	for _, offset := range []time.Duration{0, 1, time.Second / 2, time.Second - 1} {
		at := now.Add(offset).In(time.FixedZone("", -3600))
		got, err := declare.PrepareDelete(n, "", at)
		require.NoError(t, err)
		h, _, err := declare.HoldOf(got.Meta)
		require.NoError(t, err)
		want := now.Add(90 * time.Minute)
		if offset > 0 {
			want = want.Add(time.Second)
		}
		require.Equal(t, want, h.Until)
		require.False(t, h.Due(h.Until.Add(-1)))
		require.True(t, h.Due(h.Until))
	}
}

// What shares nothing with its origin can be changed.
func TestWithHoldShares(t *testing.T) {
	t.Parallel()
	n := protectedNamespace("a", "b")
	before := n.DeepCopy()
	got, err := declare.WithHold(n, declare.Hold{Until: now})
	require.NoError(t, err)
	got.Annotations["a"] = "c"
	require.Empty(t, cmp.Diff(before, n))
	_, err = declare.WithHold(n, declare.Hold{})
	require.ErrorIs(t, err, namespace.ErrInvalid)
	n.Annotations = nil
	got, err = declare.WithHold(n, declare.Hold{Until: now})
	require.NoError(t, err)
	require.Len(t, got.Annotations, 1)
}
