package audit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func TestBadInput(t *testing.T) {
	s := newStore(t, nil)
	for _, prefix := range []string{"/", "a//b", ".a", "a\x00", "\xff", "a%b", strings.Repeat("a", 254)} {
		_, err := audit.New(s, &audit.Options{Prefix: prefix})
		require.ErrorContains(t, err, "Options.Prefix", "%q", prefix)
	}

	l := newLog(t, s)
	for name, change := range map[string]func(*audit.Record){
		"no name":          func(r *audit.Record) { r.Namespace = "" },
		"path":             func(r *audit.Record) { r.Namespace = "a/b" },
		"long name":        func(r *audit.Record) { r.Namespace = strings.Repeat("a", 64) },
		"no action":        func(r *audit.Record) { r.Action = "" },
		"unknown action":   func(r *audit.Record) { r.Action = "eaten" },
		"no uid":           func(r *audit.Record) { r.UID = "" },
		"an ID":            func(r *audit.Record) { r.ID = "1" },
		"follows nothing":  func(r *audit.Record) { r.Follows = "../x" },
		"by not UTF-8":     func(r *audit.Record) { r.By = "\xff" },
		"by of two lines":  func(r *audit.Record) { r.By = "root\nforced by ada" },
		"hidden reason":    func(r *audit.Record) { r.Reason = "a\u202eb" },
		"long by":          func(r *audit.Record) { r.By = strings.Repeat("a", audit.MaxBy+1) },
		"long reason":      func(r *audit.Record) { r.Reason = strings.Repeat("a", audit.MaxReason+1) },
		"long detail":      func(r *audit.Record) { r.Detail = strings.Repeat("a", audit.MaxDetail+1) },
		"detail not UTF-8": func(r *audit.Record) { r.Detail = "a\xff" },
		"before time":      func(r *audit.Record) { r.Time = time.Unix(-1, 0) },
		"after time":       func(r *audit.Record) { r.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		r := forcing("a")
		change(&r)
		_, err := l.Write(t.Context(), r)
		require.ErrorIs(t, err, namespace.ErrInvalid, name)
		_, _, err = l.Operation(r, 0)
		require.ErrorIs(t, err, namespace.ErrInvalid, name)
	}
	r := forcing("a")
	r.Inventory = inventory(1)
	_, _, err := l.Operation(r, 0)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	for _, name := range []string{"", "../a", "a/b", "\xff"} {
		_, err := l.List(t.Context(), name)
		require.ErrorIs(t, err, namespace.ErrInvalid)
		_, err = l.Get(t.Context(), name, "x")
		require.ErrorIs(t, err, namespace.ErrInvalid)
	}
	for _, id := range []string{"", "x", "../../namespaces/a", "20060102T150405.000000000Z-0123456789abcde/"} {
		_, err := l.Get(t.Context(), "a", id)
		require.ErrorIs(t, err, namespace.ErrNotFound, id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Write(ctx, forcing("a"))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Empty(t, page.Entries, "invalid requests write nothing")
}

// A record has the namespace Types if and only if its action is Retired.
func TestRetired(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	l, err := audit.New(s, nil)
	require.NoError(t, err)
	retired := audit.Record{Action: audit.Retired, Namespace: audit.Types, Resource: "widgets.example.com", By: "alice", Reason: "dropped"}
	require.NoError(t, audit.Check(retired))
	for name, wrong := range map[string]audit.Record{
		"of a namespace":              {Action: audit.Retired, Namespace: "a", Resource: "widgets.example.com"},
		"without a type":              {Action: audit.Retired, Namespace: audit.Types},
		"of an incarnation":           {Action: audit.Retired, Namespace: audit.Types, Resource: "widgets.example.com", UID: "u"},
		"another action, of Types":    {Action: audit.Declared, Namespace: audit.Types, UID: "u"},
		"another action, with a type": {Action: audit.Declared, Namespace: "a", UID: "u", Resource: "widgets.example.com"},
	} {
		require.ErrorIs(t, audit.Check(wrong), namespace.ErrInvalid, name)
	}
	written, err := l.Write(t.Context(), retired)
	require.NoError(t, err)
	records, err := l.List(t.Context(), audit.Types)
	require.NoError(t, err)
	require.Equal(t, []audit.Record{written}, records)
}

// Actor returns a valid By, also for a name that is not.
func TestActor(t *testing.T) {
	require.Empty(t, audit.Actor(t.Context()))
	l := newLog(t, newStore(t, nil))
	for name, want := range map[string]string{
		"ada": "ada", "a\nb\x00\u202e": "ab", "é\xff": "é", strings.Repeat("é", audit.MaxBy): strings.Repeat("é", audit.MaxBy/2),
		"a" + strings.Repeat("é", audit.MaxBy): "a" + strings.Repeat("é", audit.MaxBy/2-1),
	} {
		actor := audit.Actor(audit.WithActor(t.Context(), name))
		require.Equal(t, want, actor)
		_, _, err := l.Operation(audit.Record{Action: audit.Declared, Namespace: "a", UID: "u", By: actor}, 0)
		require.NoError(t, err)
	}
}
