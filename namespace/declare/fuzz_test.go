package declare_test

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// FuzzDeclarations checks that a readable declaration is written and read again unchanged and has only
// visible characters, and that create, update and delete agree on which declarations are readable.
func FuzzDeclarations(f *testing.F) {
	for _, value := range []string{
		legalIs, waiverIs, backupIs, `{}`, `{"owner":1}`, `{"owner":"a","owner":"b","reason":"c"}`, `null`, legalIs + legalIs, `{"owner":"\u202e","reason":"\ud800"}`,
		`{"source":"pods","by":"a","reason":"b","until":"0000-01-01T00:00:00+01:00"}`, `{"source":"pods","by":"a","reason":"b","until":"2026-01-02T3:04:05Z"}`,
	} {
		f.Add("legal", value)
	}
	for _, value := range []string{holdIs, `{"until":"2026-05-06T07:08:09.5+01:00","by":"ada","reason":"b"}`, "24h", "-1s", "1e9h"} {
		f.Add("a", value)
	}
	f.Add("", legalIs)
	f.Add("a/b", legalIs)
	f.Add("\xff", "\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		key := declare.ProtectionPrefix + name
		m := annotated(key, value, declare.WaiverPrefix+name, value)
		fuzzProtection(t, m)
		fuzzWaiver(t, m)
		fuzzHold(t, annotated(declare.HoldAnnotation, value, declare.GraceAnnotation, value))
		fuzzRequests(t, key, value)
	})
}

func fuzzProtection(t *testing.T, m namespace.Meta) {
	protections, err := declare.Protections(m)
	if err != nil {
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.Empty(t, protections)
		return
	}
	require.Len(t, protections, 1)
	require.True(t, plain(protections[0].Owner) && plain(protections[0].Reason), "%q", protections[0])
	key, value, err := protections[0].Annotation()
	require.NoError(t, err)
	again, err := declare.Protections(annotated(key, value))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(protections, again))
}

func fuzzWaiver(t *testing.T, m namespace.Meta) {
	waivers, err := declare.Waivers(m)
	if err != nil {
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.Empty(t, waivers)
		return
	}
	require.Len(t, waivers, 1)
	w := waivers[0]
	require.True(t, plain(w.Source) && plain(w.By) && plain(w.Reason), "%q", w)
	require.False(t, w.Until.IsZero())
	key, value, err := w.Annotation()
	require.NoError(t, err)
	again, err := declare.Waivers(annotated(key, value))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(waivers, again))
}

func fuzzHold(t *testing.T, m namespace.Meta) {
	if grace, err := declare.GraceOf(m); err != nil {
		require.ErrorIs(t, err, namespace.ErrInvalid)
	} else {
		require.GreaterOrEqual(t, grace, time.Duration(0))
	}
	h, held, err := declare.HoldOf(m)
	require.True(t, held)
	if err != nil {
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.Zero(t, h)
		return
	}
	require.False(t, h.Until.IsZero())
	require.True(t, (h.By == "" || plain(h.By)) && (h.Reason == "" || plain(h.Reason)), "%q", h)
	key, value, err := h.Annotation()
	require.NoError(t, err)
	again, _, err := declare.HoldOf(annotated(key, value))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(h, again))
}

// plain reports whether s is not blank and has no control characters.
func plain(s string) bool {
	return strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

func fuzzRequests(t *testing.T, key, value string) {
	n := protectedNamespace(key, value)
	_, unread := declare.Protections(n.Meta)
	created := declare.ValidateCreate(n)
	require.Equal(t, unread == nil, created == nil, "%v, %v", unread, created)
	if created == nil {
		require.NoError(t, declare.ValidateUpdate(n, n, now))
	}
	err := declare.ValidateDelete(n, namespace.Preconditions{})
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.NotContains(t, err.Error(), "\x1b")
	require.NoError(t, declare.ValidateDelete(namespace.MarkDeleted(n, now), namespace.Preconditions{}))
}
