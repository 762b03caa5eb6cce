package audit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func TestListIsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, newStore(t, nil))
		var want []string
		for i := range 1200 { // more than one page
			r, err := l.Write(t.Context(), audit.Record{Action: audit.Swept, Namespace: "a", UID: "u", Detail: fmt.Sprint(i)})
			require.NoError(t, err)
			want = append(want, r.ID)
			time.Sleep(time.Duration(1 + rand.N(int64(time.Hour))))
		}
		for _, other := range []string{"a-b", "b"} {
			_, err := l.Write(t.Context(), audit.Record{Action: audit.Declared, Namespace: other, UID: "u"})
			require.NoError(t, err)
		}
		records, err := l.List(t.Context(), "a")
		require.NoError(t, err)
		var got []string
		for i, r := range records {
			require.Equal(t, fmt.Sprint(i), r.Detail)
			got = append(got, r.ID)
		}
		require.Equal(t, want, got)
		none, err := l.List(t.Context(), "none")
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

// Clocks differ, so List orders records by their commits.
func TestListIsInTheOrderOfTheCommits(t *testing.T) {
	l := newLog(t, newStore(t, nil))
	now := time.Now()
	for i, ahead := range []time.Duration{0, -time.Second, time.Hour, time.Minute, -time.Hour} {
		_, err := l.Write(t.Context(), audit.Record{Action: audit.Forced, Namespace: "a", UID: "u-1", Time: now.Add(ahead), Detail: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	records, err := l.List(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, records, 5)
	for i, r := range records {
		require.Equal(t, fmt.Sprint(i), r.Detail)
	}
	require.Equal(t, now.Add(time.Hour).UTC().Round(0), records[2].Time, "the time is by the clock of the writer")
}

// A client that may update a namespace can add any number of declarations. A listing stays
// bounded, and keeps all other records.
func TestListIsBounded(t *testing.T) {
	l := newLog(t, newStore(t, nil))
	write := func(action audit.Action, i int) {
		_, err := l.Write(t.Context(), audit.Record{Action: action, Namespace: "a", UID: "u", Detail: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	write(audit.Forcing, 0)
	const all = 3*audit.MaxDeclared + 7
	for i := range all {
		write(audit.Declared, i)
		if i == all/2 {
			write(audit.Forced, 0)
		}
	}
	records, err := l.List(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, records, audit.MaxDeclared+2)
	require.Equal(t, []audit.Action{audit.Forcing, audit.Forced}, []audit.Action{records[0].Action, records[1].Action})
	for i, r := range records[2:] {
		require.Equal(t, fmt.Sprint(all-audit.MaxDeclared+i), r.Detail)
	}
}

func TestDamagedRecords(t *testing.T) {
	s := newStore(t, &memory.Options{Limits: store.Limits{Value: 600}})
	l := newLog(t, s)
	r := forcing("a")
	r.Inventory = inventory(20)
	wrote, err := l.Write(t.Context(), r)
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Delete("/registry/.inventory/a/" + wrote.ID + "/00000001")}})
	require.NoError(t, err)
	_, err = l.Get(t.Context(), "a", wrote.ID)
	require.ErrorContains(t, err, "cannot be read: the inventory has")
	next, err := l.Write(t.Context(), forcing("a"))
	require.NoError(t, err)
	for _, value := range []string{"{", "null", "{}", `"x"`, `{"id":"` + wrote.ID + `","namespace":"b"}`} {
		_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{
			store.Put("/registry/.audit/a/"+wrote.ID, []byte(value)),
			store.Put("/registry/.audit/a/notes", []byte("of another program")),
			store.Put("/registry/.audit/a/"+next.ID+"/x", []byte("{}")),
		}})
		require.NoError(t, err)
		records, err := l.List(t.Context(), "a")
		require.NoError(t, err, "a damaged record does not hide the others")
		require.Len(t, records, 2, "other keys are skipped")
		require.Equal(t, next.ID, records[0].ID)
		damaged := records[1]
		require.Contains(t, damaged.Detail, "the record \""+wrote.ID+"\" cannot be read: ")
		damaged.Detail = ""
		require.Equal(t, audit.Record{ID: wrote.ID, Time: wrote.Time, Action: audit.Unreadable, Namespace: "a"}, damaged)
		_, err = l.Get(t.Context(), "a", wrote.ID)
		require.ErrorContains(t, err, wrote.ID)
	}
	_, err = l.Write(t.Context(), audit.Record{Action: audit.Unreadable, Namespace: "a", UID: "u"})
	require.ErrorIs(t, err, namespace.ErrInvalid, "it stands for a damaged record")
}

// Names yields each name that has records once, and ignores other keys.
func TestNames(t *testing.T) {
	s := newStore(t, nil)
	l := newLog(t, s)
	names := func() (names []string) {
		for name, err := range l.Names(t.Context()) {
			require.NoError(t, err)
			require.Less(t, len(names), 10, "Names does not end")
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

func FuzzGet(f *testing.F) {
	l := newLog(f, newStore(f, nil))
	r, err := l.Write(f.Context(), forcing("a"))
	require.NoError(f, err)
	f.Add("a", r.ID)
	f.Add("a", "../a/"+r.ID)
	f.Fuzz(func(t *testing.T, name, id string) {
		got, err := l.Get(t.Context(), name, id)
		if name == "a" && id == r.ID {
			require.NoError(t, err)
			return
		}
		require.Error(t, err)
		require.Empty(t, got)
	})
}
