package audit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The only list of the remaining objects stays until a sweep has removed them all.
func TestForgetKeepsWhatASweepNeeds(t *testing.T) {
	some, nothing := inventory(2), &audit.Inventory{}
	some.Failures = nil
	failures := &audit.Inventory{Failures: inventory(0).Failures}
	type step struct {
		action  audit.Action
		follows int // the step, from 1
		left    *audit.Inventory
	}
	const later = audit.Action("later") // not a record: later ones are not old enough
	for name, c := range map[string]struct {
		steps []step
		want  string // the steps that stay
	}{
		"open":                     {[]step{{audit.Forcing, 0, some}}, "1"},
		"refused":                  {[]step{{audit.Forcing, 0, some}, {audit.Refused, 1, nil}}, ""},
		"forced":                   {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}}, "1 2"},
		"forced, said refused too": {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Refused, 1, nil}}, "1 2"},
		"nothing was left":         {[]step{{audit.Forcing, 0, nothing}, {audit.Forced, 1, nil}}, ""},
		"sources did not answer":   {[]step{{audit.Forcing, 0, failures}, {audit.Forced, 1, nil}, {audit.Swept, 1, failures}}, "1 2 3"},
		"being swept":              {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Sweeping, 1, nil}}, "1 2"},
		"swept in part":            {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Swept, 1, some}, {audit.Swept, 1, some}}, "1 2 4"},
		"swept":                    {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Swept, 1, some}, {audit.Swept, 1, nil}}, ""},
		"swept of another":         {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Forcing, 0, some}, {audit.Forced, 3, nil}, {audit.Swept, 3, nil}}, "1 2"},
		"gone on with":             {[]step{{audit.Forcing, 0, some}, {audit.Forcing, 1, some}}, "2"},
		"gone on with, refused":    {[]step{{audit.Forcing, 0, some}, {audit.Forcing, 1, some}, {audit.Refused, 2, nil}}, "1"},
		"gone on with to the end":  {[]step{{audit.Forcing, 0, some}, {audit.Forcing, 1, some}, {audit.Forced, 2, nil}, {audit.Swept, 2, nil}}, ""},
		"swept just now":           {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {later, 0, nil}, {audit.Swept, 1, nil}}, "1 2 4"},
		"other records":            {[]step{{audit.Declared, 0, nil}, {audit.Forcing, 0, some}, {audit.Declared, 0, nil}}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(t, newStore(t, &memory.Options{}))
				ids := make([]string, len(c.steps)+1)
				var before time.Time
				for i, s := range c.steps {
					time.Sleep(time.Second)
					if s.action == later {
						before = time.Now()
						continue
					}
					r := forcing("a")
					r.Action, r.Follows, r.Inventory = s.action, ids[s.follows], s.left
					r, err := l.Write(t.Context(), r)
					require.NoError(t, err)
					ids[i+1] = r.ID
				}
				time.Sleep(2 * time.Hour)
				if before.IsZero() {
					before = time.Now().Add(-audit.MinAge - time.Minute)
				}
				for range 2 {
					_, err := l.Forget(t.Context(), "a", before)
					require.NoError(t, err)
					records, err := l.List(t.Context(), "a")
					require.NoError(t, err)
					var stay []string
					for _, r := range records {
						for i, id := range ids {
							if id == r.ID {
								stay = append(stay, string(rune('0'+i)))
							}
						}
						full, err := l.Get(t.Context(), "a", r.ID)
						require.NoError(t, err, "with its inventory")
						require.Equal(t, r.Objects+r.Failures > 0, full.Inventory != nil)
					}
					require.Equal(t, c.want, strings.Join(stay, " "))
				}
				for i, id := range ids[1:] {
					if !strings.ContainsRune(c.want, rune('1'+i)) {
						_, err := l.Get(t.Context(), "a", id)
						require.ErrorIs(t, err, namespace.ErrNotFound)
					}
				}
			})
		})
	}
}

// Names yields each name that has records once, and ignores other keys.
func TestNames(t *testing.T) {
	s := newStore(t, nil)
	l := newLog(t, s)
	names := func() (names []string) {
		for name, err := range l.Names(t.Context()) {
			require.NoError(t, err)
			require.Less(t, len(names), 10, "it does not end")
			names = append(names, name)
		}
		return names
	}
	require.Empty(t, names())
	for _, name := range []string{"b", "a", "a-b", "b", "a"} {
		_, err := l.Write(t.Context(), audit.Record{Action: audit.Declared, Namespace: name, UID: "u"})
		require.NoError(t, err)
	}
	_, err := l.Write(t.Context(), audit.Record{Action: audit.Retired, Namespace: audit.Types, Resource: "widgets.example.com", Reason: "gone"})
	require.NoError(t, err)
	require.Equal(t, []string{audit.Types, "a-b", "a", "b"}, names())
	for _, key := range []string{"a", "a/\xff", "a/é/b", "A", "c"} { // not written by a log
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("/registry/.audit/"+key, nil)}})
		require.NoError(t, err)
	}
	require.Equal(t, []string{audit.Types, "a-b", "a", "b"}, names())
	for name, err := range l.Names(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, audit.Types, name)
		break
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range l.Names(ended) {
		require.ErrorIs(t, err, context.Canceled)
	}
}
