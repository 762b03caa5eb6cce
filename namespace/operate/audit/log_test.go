package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func newStore(t testing.TB, o *memory.Options) store.Store {
	t.Helper()
	s, err := memory.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newLog(t testing.TB, s store.Store) *audit.Log {
	t.Helper()
	l, err := audit.New(s, nil)
	require.NoError(t, err)
	return l
}

func forcing(name string) audit.Record {
	return audit.Record{Action: audit.Forcing, Namespace: name, UID: "u-1", By: "ada", Reason: "the owner is gone",
		Finalizers: []finalizer.Name{"example.com/disks"}}
}

// inventory is one of n objects, with names that JSON has to escape.
func inventory(n int) *audit.Inventory {
	i := &audit.Inventory{Failures: []audit.Failure{{Source: "disks.example.com", Text: "connection refused"}}}
	for k := range n {
		i.Objects = append(i.Objects, audit.Object{Resource: "widgets.example.com", Name: fmt.Sprintf("w-%06d-<é>", k), UID: fmt.Sprint(k), Finalizers: []string{"example.com/a"}})
	}
	return i
}

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	s := newStore(t, nil)
	l := newLog(t, s)
	r := forcing("team-a")
	r.Inventory = inventory(3)
	wrote, err := l.Write(t.Context(), r)
	require.NoError(t, err)
	require.NotEmpty(t, wrote.ID)
	require.False(t, wrote.Time.IsZero())

	got, err := newLog(t, s).Get(t.Context(), "team-a", wrote.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(wrote, got))
	r.ID, r.Time, r.Objects, r.Failures = wrote.ID, wrote.Time, 3, 1
	require.Empty(t, cmp.Diff(r, got))

	listed, err := l.List(t.Context(), "team-a")
	require.NoError(t, err)
	r.Inventory = nil
	require.Empty(t, cmp.Diff([]audit.Record{r}, listed), "a listing leaves inventories out, and counts them")
}

func TestRecordsAreListedByName(t *testing.T) {
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
		none, err := l.List(t.Context(), "nobody")
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

// Clocks differ: the order is that of the commits.
func TestRecordsAreListedAsTheyWereCommitted(t *testing.T) {
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
	require.Equal(t, now.Add(time.Hour).UTC().Round(0), records[2].Time, "the time is the time of the clock")
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
		r.Action, r.Inventory = audit.Swept, inventory(20) // an unneeded one
		write := func() audit.Record {
			wrote, err := l.Write(t.Context(), r)
			require.NoError(t, err)
			return wrote
		}
		old := write()
		left = 3
		_, err = newLog(t, failing).Write(t.Context(), r) // leaves a part of an inventory
		require.Error(t, err)
		time.Sleep(2 * time.Hour)
		between := time.Now()
		kept := write()
		other := forcing("a-b")
		_, err = l.Write(t.Context(), other)
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)

		_, err = l.Forget(t.Context(), "a", time.Now())
		require.ErrorIs(t, err, namespace.ErrInvalid, "it may be in flight")
		_, err = l.Forget(t.Context(), "a/b", between)
		require.ErrorIs(t, err, namespace.ErrInvalid)
		left = 3
		_, err = newLog(t, failing).Forget(t.Context(), "a", between)
		require.Error(t, err, "cut short")
		n, err := l.Forget(t.Context(), "a", between)
		require.NoError(t, err)
		require.Zero(t, n, "the record went first")

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

func TestInventoriesAreCutToTheStoresLimits(t *testing.T) {
	for _, limits := range []store.Limits{
		{Key: 512, Value: 600, Operations: 4, Bytes: 100_000},
		{Key: 512, Value: 100_000, Operations: 4, Bytes: 1000},
		{},
	} {
		t.Run(fmt.Sprintf("%+v", limits), func(t *testing.T) {
			l := newLog(t, newStore(t, &memory.Options{Limits: limits}))
			r := forcing("team-a")
			r.Inventory = inventory(500)
			wrote, err := l.Write(t.Context(), r)
			require.NoError(t, err)
			got, err := l.Get(t.Context(), "team-a", wrote.ID)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(r.Inventory, got.Inventory))
		})
	}
}

// A crash, or a failure that stays, at any commit leaves either the whole record or
// none that is listed.
func TestNoRecordIsWithoutItsInventory(t *testing.T) {
	broken := errors.New("broken")
	for at := 0; ; at++ {
		inner := newStore(t, &memory.Options{Limits: store.Limits{Value: 600}})
		s, err := storetest.Inject(inner, func(a storetest.Attempt) storetest.Fault {
			if a.Method == "commit" && a.N >= at {
				return storetest.Fault{Kind: storetest.Fail, Err: broken}
			}
			return storetest.Fault{}
		})
		require.NoError(t, err)
		r := forcing("team-a")
		r.Inventory = inventory(20)
		wrote, err := newLog(t, s).Write(t.Context(), r)
		l := newLog(t, inner)
		listed, listErr := l.List(t.Context(), "team-a")
		require.NoError(t, listErr)
		if err == nil {
			require.Greater(t, at, 3, "of several commits")
			require.Len(t, listed, 1)
			got, err := l.Get(t.Context(), "team-a", wrote.ID)
			require.NoError(t, err)
			require.Equal(t, r.Inventory, got.Inventory)
			return
		}
		require.ErrorIs(t, err, broken)
		require.Empty(t, listed)
	}
}

func TestUnknownOutcomesAreReadBack(t *testing.T) {
	for _, kind := range []storetest.Kind{storetest.Lost, storetest.Landed} {
		t.Run(string(kind), func(t *testing.T) {
			inner := newStore(t, nil)
			s, err := storetest.Inject(inner, func(a storetest.Attempt) storetest.Fault {
				if a.Method == "commit" && a.N%2 == 0 {
					return storetest.Fault{Kind: kind}
				}
				return storetest.Fault{}
			})
			require.NoError(t, err)
			r := forcing("team-a")
			r.Inventory = inventory(3)
			wrote, err := newLog(t, s).Write(t.Context(), r)
			require.NoError(t, err)
			listed, err := newLog(t, inner).List(t.Context(), "team-a")
			require.NoError(t, err)
			require.Len(t, listed, 1)
			require.Equal(t, wrote.ID, listed[0].ID)
		})
	}
}

func TestWhatStaysUnknownIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := storetest.Inject(newStore(t, nil), func(a storetest.Attempt) storetest.Fault {
			return storetest.Fault{Kind: storetest.Lost}
		})
		require.NoError(t, err)
		_, err = newLog(t, s).Write(t.Context(), forcing("team-a"))
		require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
		require.ErrorIs(t, err, store.ErrUnknownOutcome)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = newLog(t, s).Write(ctx, forcing("team-a"))
		require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestOperationFitsTheRoom(t *testing.T) {
	l := newLog(t, newStore(t, nil))
	long := strings.Repeat("é", 5000)
	r := audit.Record{Action: audit.Declared, Namespace: "a", UID: "u", Objects: 7, Changes: []audit.Change{{Key: "k", Old: long, New: "short"}}}
	whole, op, err := l.Operation(r, 0)
	require.NoError(t, err)
	require.Zero(t, whole.Objects, "only the log counts")
	require.Equal(t, strings.Repeat("é", 2048)+"... (10000 bytes)", whole.Changes[0].Old, "a few kilobytes will do in any case")
	require.Equal(t, "/registry/.audit/a/"+whole.ID, op.Key)
	for _, room := range []int{5000, 2000, 1000, 400} {
		short, op, err := l.Operation(r, room)
		require.NoError(t, err)
		require.LessOrEqual(t, len(op.Key)+len(op.Value), room)
		require.Equal(t, "short", short.Changes[0].New)
		require.Contains(t, short.Changes[0].Old, "... (10000 bytes)")
	}
	_, _, err = l.Operation(r, 100)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorIs(t, err, store.ErrTooLarge)
	require.Equal(t, long, r.Changes[0].Old, "the argument is not changed")
}

// However much is declared, its record is small, and the change is not refused for it.
func TestRecordsOfChangesAreBounded(t *testing.T) {
	l := newLog(t, newStore(t, nil))
	r := audit.Record{Action: audit.Declared, Namespace: "a", UID: "u"}
	for i := range 4000 {
		r.Changes = append(r.Changes, audit.Change{Key: fmt.Sprintf("waiver.nslifecycle.io/w%d", i), Old: strings.Repeat("o", 64), New: strings.Repeat("n", 64)})
	}
	short, op, err := l.Operation(r, 10<<20)
	require.NoError(t, err)
	require.LessOrEqual(t, len(op.Key)+len(op.Value), audit.MaxChanges)
	require.Less(t, len(short.Changes), 4000)
	require.Greater(t, len(short.Changes), 100)
	require.Equal(t, fmt.Sprintf("%d more changes are omitted, because the store limits the size of this record", 4000-len(short.Changes)), short.Detail)
	require.Len(t, r.Changes, 4000)
}

func TestDamageIsSaid(t *testing.T) {
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
			store.Put("/registry/.audit/a/notes", []byte("of somebody else")),
			store.Put("/registry/.audit/a/"+next.ID+"/x", []byte("{}")),
		}})
		require.NoError(t, err)
		records, err := l.List(t.Context(), "a")
		require.NoError(t, err, "one that is damaged does not hide the others")
		require.Len(t, records, 2, "keys of no record are skipped")
		require.Equal(t, next.ID, records[0].ID)
		damaged := records[1]
		require.Contains(t, damaged.Detail, "the record \""+wrote.ID+"\" cannot be read: ")
		damaged.Detail = ""
		require.Equal(t, audit.Record{ID: wrote.ID, Time: wrote.Time, Action: audit.Unreadable, Namespace: "a"}, damaged)
		_, err = l.Get(t.Context(), "a", wrote.ID)
		require.ErrorContains(t, err, wrote.ID)
	}
	_, err = l.Write(t.Context(), audit.Record{Action: audit.Unreadable, Namespace: "a", UID: "u"})
	require.ErrorIs(t, err, namespace.ErrInvalid, "it is never written")
}

func TestBadInput(t *testing.T) {
	s := newStore(t, nil)
	for _, prefix := range []string{"/", "a//b", ".a", "a\x00", "\xff", "a%b", strings.Repeat("a", 254)} {
		_, err := audit.New(s, &audit.Options{Prefix: prefix})
		require.ErrorIs(t, err, namespace.ErrInvalid, "%q", prefix)
	}
	_, err := audit.New(nil, nil)
	require.ErrorIs(t, err, namespace.ErrInvalid)

	l := newLog(t, s)
	for name, change := range map[string]func(*audit.Record){
		"no name":          func(r *audit.Record) { r.Namespace = "" },
		"path":             func(r *audit.Record) { r.Namespace = "a/b" },
		"long name":        func(r *audit.Record) { r.Namespace = strings.Repeat("a", 64) },
		"no action":        func(r *audit.Record) { r.Action = "" },
		"unknown action":   func(r *audit.Record) { r.Action = "eaten" },
		"no uid":           func(r *audit.Record) { r.UID = "" },
		"own id":           func(r *audit.Record) { r.ID = "1" },
		"follows nothing":  func(r *audit.Record) { r.Follows = "../x" },
		"by not UTF-8":     func(r *audit.Record) { r.By = "\xff" },
		"by of two lines":  func(r *audit.Record) { r.By = "root\nforced by nobody" },
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
	_, _, err = l.Operation(r, 0)
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
	require.Empty(t, page.Entries, "nothing was written by any of it")
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"ada": "ada", "a\nb\x00\u202e": "ab", "é\xff": "é", strings.Repeat("é", audit.MaxBy): strings.Repeat("é", audit.MaxBy/2),
		"a" + strings.Repeat("é", audit.MaxBy): "a" + strings.Repeat("é", audit.MaxBy/2-1),
	} {
		require.Equal(t, want, audit.Printable(name))
		_, _, err := newLog(t, newStore(t, nil)).Operation(audit.Record{Action: audit.Declared, Namespace: "a", UID: "u", By: audit.Printable(name)}, 0)
		require.NoError(t, err)
	}
}

func TestActor(t *testing.T) {
	require.Empty(t, audit.Actor(t.Context()))
	require.Equal(t, "ada", audit.Actor(audit.WithActor(t.Context(), "ada")))
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

func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("%d objects", n), func(b *testing.B) {
			l := newLog(b, newStore(b, nil))
			r := forcing("a")
			if n > 0 {
				r.Inventory = inventory(n)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Write(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Only records of retired types, and all of them, are about Types.
func TestRetired(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	l, err := audit.New(s, nil)
	require.NoError(t, err)
	retired := audit.Record{Action: audit.Retired, Namespace: audit.Types, Resource: "widgets.example.com", By: "alice", Reason: "dropped"}
	require.NoError(t, audit.Check(retired))
	for name, wrong := range map[string]audit.Record{
		"about a namespace":      {Action: audit.Retired, Namespace: "a", Resource: "widgets.example.com"},
		"about no type":          {Action: audit.Retired, Namespace: audit.Types},
		"about an incarnation":   {Action: audit.Retired, Namespace: audit.Types, Resource: "widgets.example.com", UID: "u"},
		"another about types":    {Action: audit.Declared, Namespace: audit.Types, UID: "u"},
		"another about one type": {Action: audit.Declared, Namespace: "a", UID: "u", Resource: "widgets.example.com"},
	} {
		require.ErrorIs(t, audit.Check(wrong), namespace.ErrInvalid, name)
	}
	written, err := l.Write(t.Context(), retired)
	require.NoError(t, err)
	records, err := l.List(t.Context(), audit.Types)
	require.NoError(t, err)
	require.Equal(t, []audit.Record{written}, records)
}
