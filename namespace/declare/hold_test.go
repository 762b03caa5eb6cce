package declare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
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
		"until is required":                                      {},
		"until must be between":                                  {Until: year12000},
		"by must be valid UTF-8":                                 {Until: now, By: "\xff"},
		"by must not be blank: omit it":                  {Until: now, By: " "},
		"reason must be one line of visible characters": {Until: now, Reason: "a\x1b[2J"},
		"reason has 1025 bytes":                                     {Until: now, Reason: strings.Repeat("a", 1025)},
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

// A deletion never fails for the name of who asked for it.
func TestPrepareDeleteNamesWhoAsked(t *testing.T) {
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
