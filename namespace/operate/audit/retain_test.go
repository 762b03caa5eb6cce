package audit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, &memory.Options{Limits: store.Limits{Value: 600}})
		left := 0
		failing, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
			if left--; a.Method == "commit" && left < 0 {
				return storetest.Fault{Kind: storetest.Fail}
			}
			return storetest.Fault{}
		})
		require.NoError(t, err)
		l := newLog(t, s)
		r := forcing("a")
		r.Action, r.Inventory = audit.Swept, inventory(20) // of a record that no sweep needs
		write := func() audit.Record {
			wrote, err := l.Write(t.Context(), r)
			require.NoError(t, err)
			return wrote
		}
		old := write()
		left = 3
		_, err = newLog(t, failing).Write(t.Context(), r) // leaves a part of its inventory
		require.Error(t, err)
		time.Sleep(2 * time.Hour)
		between := time.Now()
		kept := write()
		other := forcing("a-b")
		_, err = l.Write(t.Context(), other)
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)

		_, err = l.Forget(t.Context(), "a", time.Now())
		require.ErrorIs(t, err, namespace.ErrInvalid, "the record may be in flight")
		_, err = l.Forget(t.Context(), "a/b", between)
		require.ErrorIs(t, err, namespace.ErrInvalid)
		left = 3
		_, err = newLog(t, failing).Forget(t.Context(), "a", between)
		require.Error(t, err, "a commit fails")
		n, err := l.Forget(t.Context(), "a", between)
		require.NoError(t, err)
		require.Zero(t, n, "the record was removed first")

		_, err = l.Get(t.Context(), "a", old.ID)
		require.ErrorIs(t, err, namespace.ErrNotFound)
		got, err := l.Get(t.Context(), "a", kept.ID)
		require.NoError(t, err)
		require.Equal(t, r.Inventory, got.Inventory)
		page, err := s.List(t.Context(), store.Query{Prefix: "/registry/.inventory/a/"})
		require.NoError(t, err)
		for _, e := range page.Entries {
			require.Contains(t, e.Key, kept.ID, "no pages of forgotten records are left")
		}
		records, err := l.List(t.Context(), "a-b")
		require.NoError(t, err)
		require.Len(t, records, 1)
		n, err = l.Forget(t.Context(), "a", between.Add(time.Minute))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// The only list of the remaining objects stays until a sweep has removed them all.
func TestForgetKeepsInventoriesForSweeps(t *testing.T) {
	some, nothing := inventory(2), &audit.Inventory{}
	some.Failures = nil
	failures := &audit.Inventory{Failures: inventory(0).Failures}
	type step struct {
		action  audit.Action
		follows int // the step, from 1
		left    *audit.Inventory
	}
	const later = audit.Action("later") // not a record: the records after it are younger
	for name, c := range map[string]struct {
		steps []step
		want  string // the steps that stay
	}{
		"unfinished":             {[]step{{audit.Forcing, 0, some}}, "1"},
		"refused":                {[]step{{audit.Forcing, 0, some}, {audit.Refused, 1, nil}}, ""},
		"forced":                 {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}}, "1 2"},
		"forced and refused":     {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Refused, 1, nil}}, "1 2"},
		"empty inventory":        {[]step{{audit.Forcing, 0, nothing}, {audit.Forced, 1, nil}}, ""},
		"sources did not answer": {[]step{{audit.Forcing, 0, failures}, {audit.Forced, 1, nil}, {audit.Swept, 1, failures}}, "1 2 3"},
		"being swept":            {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Sweeping, 1, nil}}, "1 2"},
		"swept in part":          {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Swept, 1, some}, {audit.Swept, 1, some}}, "1 2 4"},
		"swept":                  {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Swept, 1, some}, {audit.Swept, 1, nil}}, ""},
		"another Drop is swept":  {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {audit.Forcing, 0, some}, {audit.Forced, 3, nil}, {audit.Swept, 3, nil}}, "1 2"},
		"resumed":                {[]step{{audit.Forcing, 0, some}, {audit.Forcing, 1, some}}, "2"},
		"resumed, refused":       {[]step{{audit.Forcing, 0, some}, {audit.Forcing, 1, some}, {audit.Refused, 2, nil}}, "1"},
		"resumed to the end":     {[]step{{audit.Forcing, 0, some}, {audit.Forcing, 1, some}, {audit.Forced, 2, nil}, {audit.Swept, 2, nil}}, ""},
		"swept just now":         {[]step{{audit.Forcing, 0, some}, {audit.Forced, 1, nil}, {later, 0, nil}, {audit.Swept, 1, nil}}, "1 2 4"},
		"other records":          {[]step{{audit.Declared, 0, nil}, {audit.Forcing, 0, some}, {audit.Declared, 0, nil}}, "2"},
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
						require.NoError(t, err, "the inventory exists")
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
