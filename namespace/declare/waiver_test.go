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

const (
	waiverKey = "waiver.nslifecycle.io/metrics"
	waiverIs  = `{"source":"metrics.example.com","by":"ada","reason":"uninstalled","until":"2026-05-06T07:08:09Z"}`
)

func aWaiver() declare.Waiver {
	return declare.Waiver{Name: "metrics", Source: "metrics.example.com", By: "ada", Reason: "uninstalled", Until: now}
}

func TestWaivers(t *testing.T) {
	t.Parallel()
	type list = []declare.Waiver
	other := aWaiver()
	other.Name, other.Source = "a", "pods"
	key, value, err := other.Annotation()
	require.NoError(t, err)
	got, err := declare.Waivers(annotated(waiverKey, waiverIs, key, value, legal, legalIs, "waiver.nslifecycle.io/bad", "yes"))
	require.Empty(t, cmp.Diff(list{other, aWaiver()}, got))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.EqualError(t, err, `Namespace "x" is invalid: metadata.annotations[waiver.nslifecycle.io/bad]: Invalid value: "yes":`+
		` must be a JSON object with source, by, reason, until`)
	got, err = declare.Waivers(annotated(legal, legalIs))
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestWaiverIsStrict(t *testing.T) {
	t.Parallel()
	with := func(member, value string) string {
		members := map[string]string{"source": `"pods"`, "by": `"ada"`, "reason": `"gone"`, "until": `"2026-01-02T03:04:05Z"`}
		members[member] = value
		var all []string
		for _, name := range []string{"source", "by", "reason", "until"} {
			if members[name] != "" {
				all = append(all, `"`+name+`":`+members[name])
			}
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	const noTime = "until must be a time such as 2026-01-02T15:04:05Z"
	for _, tt := range []struct{ member, value, err string }{
		{"source", ``, "source is required"},
		{"by", ``, "by is required"},
		{"reason", `""`, "reason is required"},
		{"until", ``, "until is required"},
		{"until", `null`, "until must be a string"},
		{"until", `"tomorrow"`, noTime},
		{"until", `"2026-01-02"`, noTime},
		{"until", `"2026-01-02T03:04:05"`, noTime},
		{"until", `"2026-02-30T00:00:00Z"`, noTime},
		{"until", `"12026-01-01T00:00:00Z"`, noTime},
		{"until", `"0001-01-01T00:00:00Z"`, "until is out of range"},
		{"until", `"0000-01-01T00:00:00+01:00"`, "until is out of range"},
		{"until", `"9999-12-31T23:59:59-01:00"`, "until is out of range"},
		{"until", `"` + strings.Repeat("2", 65) + `"`, "until has 65 bytes"},
		{"source", `"apps/v1"`, "source must be a resource type such as"},
		{"source", `"no type"`, "source must be a resource type such as"},
		{"source", `"` + strings.Repeat("a", 513) + `"`, "source has 513 bytes"},
		{"by", `"` + strings.Repeat("a", 513) + `"`, "by has 513 bytes"},
	} {
		got, err := declare.Waivers(annotated(waiverKey, with(tt.member, tt.value)))
		require.Empty(t, got, tt)
		require.ErrorIs(t, err, namespace.ErrInvalid, tt)
		require.ErrorContains(t, err, ": "+tt.err, tt)
	}
	got, err := declare.Waivers(annotated(waiverKey, with("until", `"2026-01-02T03:04:05.5+02:00"`)))
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 1, 2, 1, 4, 5, 5e8, time.UTC), got[0].Until)
}

func TestWaiverAnnotation(t *testing.T) {
	t.Parallel()
	key, value, err := aWaiver().Annotation()
	require.NoError(t, err)
	require.Equal(t, waiverKey, key)
	require.Equal(t, waiverIs, value)

	abroad := aWaiver()
	abroad.Until = now.Add(time.Nanosecond).In(time.FixedZone("", -3600))
	key, value, err = abroad.Annotation()
	require.NoError(t, err)
	got, err := declare.Waivers(annotated(key, value))
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Nanosecond), got[0].Until)

	for _, tt := range []struct {
		change func(*declare.Waiver)
		err    string
	}{
		{func(w *declare.Waiver) { w.Name = "" }, "name part must be non-empty"},
		{func(w *declare.Waiver) { w.Source = "" }, `the annotation "waiver.nslifecycle.io/metrics" is invalid: source is required`},
		{func(w *declare.Waiver) { w.Source = "a/b" }, "source must be a resource type"},
		{func(w *declare.Waiver) { w.By = " " }, "by is required"},
		{func(w *declare.Waiver) { w.Reason = "" }, "reason is required"},
		{func(w *declare.Waiver) { w.Until = time.Time{} }, "until is required"},
		{func(w *declare.Waiver) { w.Until = year12000 }, "until must be between the years 0 and 9999, got the year 12000"},
	} {
		w := aWaiver()
		tt.change(&w)
		key, value, err := w.Annotation()
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.ErrorContains(t, err, tt.err)
		require.Empty(t, key+value)
	}
}

func TestWaiverExpires(t *testing.T) {
	t.Parallel()
	w := aWaiver()
	require.False(t, w.Expired(now.Add(-1)))
	require.True(t, w.Expired(now), "it applies before its end only")
	require.True(t, w.Expired(now.Add(time.Hour)))
	require.True(t, declare.Waiver{}.Expired(now))
}
