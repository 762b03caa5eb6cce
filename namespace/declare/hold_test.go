package declare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestHoldAnnotation(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]declare.Hold{
		holdIs: {Until: now},
		`{"until":"2026-05-06T07:08:09Z","by":"ada","reason":"moved to \"b\""}`: {Until: now, By: "ada", Reason: `moved to "b"`},
		`{"until":"2026-05-06T07:08:09.5Z","reason":"é"}`:                       {Until: now.Add(time.Second / 2), Reason: "é"},
	} {
		key, value, err := declare.Hold{Until: h.Until.In(time.FixedZone("", 3600)), By: h.By, Reason: h.Reason}.Annotation()
		require.NoError(t, err)
		require.Equal(t, declare.HoldAnnotation, key)
		require.Equal(t, want, value)
		got, held, err := declare.HoldOf(annotated(key, value))
		require.NoError(t, err)
		require.True(t, held)
		require.Empty(t, cmp.Diff(h, got))
	}
	for text, h := range map[string]declare.Hold{
		"until is required":                             {},
		"until must be between":                         {Until: year12000},
		"by must be valid UTF-8":                        {Until: now, By: "\xff"},
		"by must not be blank: omit it":                 {Until: now, By: " "},
		"reason must be one line of visible characters": {Until: now, Reason: "a\x1b[2J"},
		"reason has 1025 bytes":                         {Until: now, Reason: strings.Repeat("a", 1025)},
	} {
		key, value, err := h.Annotation()
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.ErrorContains(t, err, `the annotation "nslifecycle.io/delete-after" is invalid: `+text)
		require.Empty(t, key+value)
	}
}

func TestHoldOf(t *testing.T) {
	t.Parallel()
	_, held, err := declare.HoldOf(namespace.Meta{})
	require.NoError(t, err)
	require.False(t, held)
	for value, text := range map[string]string{
		"":                        "must be a JSON object with until, by (optional), reason (optional)",
		`"2026-05-06T07:08:09Z"`:  "must be a JSON object with until, by (optional), reason (optional)",
		`{}`:                      "until is required",
		`{"by":"ada"}`:            "until is required",
		`{"until":null}`:          "until must be a string",
		`{"until":"tomorrow"}`:    "until must be a time such as 2026-01-02T15:04:05Z",
		`{"Until":"2026"}`:        `unknown field "Until", known are until, by (optional), reason (optional)`,
		holdIs + "x":              "has text after the JSON object",
		`{"until":"","until":""}`: "until appears twice",
	} {
		h, held, err := declare.HoldOf(annotated(declare.HoldAnnotation, value))
		require.True(t, held)
		require.Zero(t, h)
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.True(t, strings.HasSuffix(err.Error(), ": "+text), err.Error())
		require.Contains(t, err.Error(), `Namespace "x" is invalid: metadata.annotations[nslifecycle.io/delete-after]: Invalid value: `)
	}
}

// A deletion does not fail because of the user's name.
func TestPrepareDeleteRecordsTheUser(t *testing.T) {
	t.Parallel()
	n := protectedNamespace(declare.GraceAnnotation, "1h")
	for by, want := range map[string]string{
		"":                                   "",
		"system:serviceaccount:ops:cleaner":  "system:serviceaccount:ops:cleaner",
		"a\nb\xff\u202e ":                    "ab",
		strings.Repeat("\x00", 10):           "",
		"x" + strings.Repeat("\u00e9", 1000): "x" + strings.Repeat("\u00e9", 255),
	} {
		next, err := declare.PrepareDelete(n, by, now)
		require.NoError(t, err)
		h, held, err := declare.HoldOf(next.Meta)
		require.NoError(t, err)
		require.True(t, held)
		require.Equal(t, want, h.By)
	}
}

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

// PrepareDelete for every combination of grace, hold and phase. It does not change its argument, and a
// second DELETE changes nothing (R3).
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
			require.Empty(t, cmp.Diff(before, n), "the argument")
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

// A grace is rounded up to a whole second.
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

// The result shares nothing with the argument.
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
