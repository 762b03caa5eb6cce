package storetest

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/stretchr/testify/require"
)

// always injects fault into every call of method.
func always(method string, fault Fault) Plan {
	return func(a Attempt) Fault {
		if a.Method == method {
			return fault
		}
		return Fault{}
	}
}

// inject returns a faulty store over a memory store that has k=1.
func inject(t *testing.T, plan Plan) (*Faulty, *memory.Store, store.Revision) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	r, err := m.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put("k", []byte("1"))}})
	require.NoError(t, err)
	f, err := Inject(m, plan)
	require.NoError(t, err)
	return f, m, r
}

var put2 = []store.Operation{store.Put("k", []byte("2"))}

func TestFaultyCommit(t *testing.T) {
	broken := errors.New("the disk is full")
	for _, test := range []struct {
		name   string
		fault  Fault
		txn    store.Txn
		want   error
		made   bool // the error is made up
		value  string
		counts map[Kind]int
	}{
		{"none", Fault{}, store.Txn{Do: put2}, nil, false, "2", nil},
		{"fail", Fault{Kind: Fail, Err: broken}, store.Txn{Do: put2}, broken, true, "1", map[Kind]int{Fail: 1}},
		{"fail without an error", Fault{Kind: Fail}, store.Txn{Do: put2}, ErrInjected, true, "1", map[Kind]int{Fail: 1}},
		{"lost", Fault{Kind: Lost}, store.Txn{Do: put2}, store.ErrUnknownOutcome, true, "1", map[Kind]int{Lost: 1}},
		{"landed", Fault{Kind: Landed}, store.Txn{Do: put2}, store.ErrUnknownOutcome, true, "2", map[Kind]int{Landed: 1}},
		{"lost conflict", Fault{Kind: Lost}, store.Txn{If: []store.Condition{store.Absent("k")}, Do: put2}, store.ErrConflict, false, "1", nil},
		{"landed conflict", Fault{Kind: Landed}, store.Txn{If: []store.Condition{store.Absent("k")}, Do: put2}, store.ErrConflict, false, "1", nil},
		{"lost invalid", Fault{Kind: Lost}, store.Txn{Do: append(put2, put2...)}, store.ErrInvalid, false, "1", nil},
		{"conflict", Fault{Kind: Conflict}, store.Txn{If: []store.Condition{store.Exists("k"), store.At("k", 1)}, Do: put2}, store.ErrConflict, false, "1", map[Kind]int{Conflict: 1}},
		{"conflict without a revision", Fault{Kind: Conflict}, store.Txn{If: []store.Condition{store.Exists("k")}, Do: put2}, nil, false, "2", nil},
		{"kind that does not fit", Fault{Kind: Gone}, store.Txn{Do: put2}, nil, false, "2", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, m, first := inject(t, always("commit", test.fault))
			require.EqualValues(t, 1, first)
			_, err := f.Commit(t.Context(), test.txn)
			require.ErrorIs(t, err, test.want)
			require.Equal(t, test.made, errors.Is(err, ErrInjected), "whether the error is made up: %v", err)
			if err != nil {
				require.ErrorAs(t, err, new(*store.Error))
			}
			e, err := m.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, test.value, string(e.Value))
			require.Empty(t, cmp.Diff(test.counts, nilIfEmpty(f.Injected())))
		})
	}
}

func nilIfEmpty(m map[Kind]int) map[Kind]int {
	if len(m) == 0 {
		return nil
	}
	return m
}

func TestFaultyConflictTellsTheTruth(t *testing.T) {
	f, m, r := inject(t, always("commit", Fault{Kind: Conflict}))
	_, err := f.Commit(t.Context(), store.Txn{If: []store.Condition{store.At("k", r)}, Do: put2})
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	e, err := m.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&e, conflict.Current))
	require.Greater(t, e.Revision, r)
}

func TestFaultyReads(t *testing.T) {
	f, _, r := inject(t, always("get", Fault{Kind: Fail, Err: context.DeadlineExceeded}))
	_, err := f.Get(t.Context(), "k")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = f.List(t.Context(), store.Query{})
	require.NoError(t, err)

	f, _, _ = inject(t, always("list", Fault{Kind: Gone}))
	_, err = f.List(t.Context(), store.Query{At: store.Position{Revision: r}})
	require.ErrorIs(t, err, store.ErrGone)
	_, err = f.List(t.Context(), store.Query{})
	require.NoError(t, err, "a listing of now is never gone")
	require.Equal(t, map[Kind]int{Gone: 1}, f.Injected())

	f, _, _ = inject(t, always("list", Fault{Kind: Fail}))
	_, err = f.List(t.Context(), store.Query{})
	require.ErrorIs(t, err, ErrInjected)
}

func TestFaultyWatch(t *testing.T) {
	broken := errors.New("the stream broke")
	for _, test := range []struct {
		name   string
		fault  Fault
		want   error
		events int
	}{
		{"breaks at once", Fault{Kind: Fail, Err: broken}, broken, 0},
		{"breaks after two", Fault{Kind: Fail, Err: broken, Changes: 2}, broken, 2},
		{"gone after one", Fault{Kind: Gone, Changes: 1}, store.ErrGone, 1},
		{"closed before it breaks", Fault{Kind: Gone, Changes: 9}, store.ErrClosed, 3},
		{"a kind that does not fit", Fault{Kind: Lost}, store.ErrClosed, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, m, r := inject(t, always("watch", test.fault))
			for range 3 {
				_, err := m.Commit(t.Context(), store.Txn{Do: put2})
				require.NoError(t, err)
			}
			var last error
			events := 0
			for c, err := range f.Watch(t.Context(), "", store.Position{Revision: r}) {
				last = err
				events += len(c.Events)
				if events == 3 {
					require.NoError(t, m.Close())
				}
			}
			require.ErrorIs(t, last, test.want)
			require.Equal(t, test.events, events)
		})
	}
	t.Run("break of the caller", func(t *testing.T) {
		f, _, _ := inject(t, always("watch", Fault{Kind: Fail, Changes: 1}))
		for c, err := range f.Watch(t.Context(), "", store.Position{}) {
			require.NoError(t, err)
			require.True(t, c.Bookmark())
			break
		}
		require.Empty(t, f.Injected())
	})
}

func TestFaultyDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := inject(t, always("commit", Fault{Delay: time.Minute}))
		start := time.Now()
		_, err := f.Commit(t.Context(), store.Txn{Do: put2})
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = f.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("late", nil)}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(start))
		_, err = f.Get(t.Context(), "late")
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestSeededIsDeterministic(t *testing.T) {
	rates := Rates{Conflict: 0.1, Lost: 0.1, Landed: 0.1, Fail: 0.1, Gone: 0.2, Delay: 0.3, Changes: 3}
	draw := func(seed uint64) map[string][]Fault {
		plan, err := Seeded(seed, rates)
		require.NoError(t, err)
		faults := map[string][]Fault{}
		for _, method := range []string{"get", "list", "commit", "watch"} {
			for n := range 1000 {
				faults[method] = append(faults[method], plan(Attempt{Method: method, N: n}))
			}
		}
		return faults
	}
	first := draw(1)
	require.Empty(t, cmp.Diff(first, draw(1)))
	require.NotEmpty(t, cmp.Diff(first, draw(2)))
	for method, kinds := range map[string][]Kind{
		"get": {None, Fail}, "list": {None, Fail, Gone}, "watch": {None, Fail, Gone}, "commit": {None, Fail, Conflict, Lost, Landed},
	} {
		seen := map[Kind]int{}
		for _, fault := range first[method] {
			seen[fault.Kind]++
			require.LessOrEqual(t, fault.Delay, time.Millisecond)
			require.LessOrEqual(t, fault.Changes, 3)
		}
		require.Len(t, seen, len(kinds), "%s: %v", method, seen)
		for _, kind := range kinds {
			require.Greater(t, seen[kind], 50, "%s: %s", method, kind)
		}
	}
}

// TestFaultyIsLinearizable shows that faults keep the contract: the calls that several clients
// make through them are linearizable.
func TestFaultyIsLinearizable(t *testing.T) {
	total := map[Kind]int{}
	for seed := range uint64(8) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		plan, err := Seeded(seed, Rates{Lost: 0.04, Landed: 0.04, Fail: 0.1})
		require.NoError(t, err)
		f, err := Inject(m, plan)
		require.NoError(t, err)
		var recorder Recorder
		var running sync.WaitGroup
		for i := range 4 {
			c := newClient(recorder.Store(i, f), int(seed), i)
			running.Go(func() {
				for range 20 {
					if err := c.act(t.Context()); err != nil && !errors.Is(err, ErrInjected) {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
		require.NoError(t, recorder.Check(time.Minute), "seed %d", seed)
		for kind, n := range f.Injected() {
			total[kind] += n
		}
		require.NoError(t, f.Close())
	}
	for _, kind := range []Kind{Lost, Landed, Fail} {
		require.Positive(t, total[kind], "faults of the kind %s", kind)
	}
}

func TestBadInput(t *testing.T) {
	_, err := Inject(nil, nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	f, _, _ := inject(t, nil)
	_, err = f.Commit(t.Context(), store.Txn{Do: put2})
	require.NoError(t, err, "a nil plan injects nothing")
	for _, rates := range []Rates{
		{Fail: -0.1}, {Fail: 1.1}, {Gone: math.NaN()}, {Delay: math.Inf(1)}, {Conflict: 0.5, Lost: 0.6}, {Gone: 0.6, Fail: 0.6},
		{MaxDelay: -1}, {Changes: -1},
	} {
		_, err := Seeded(1, rates)
		require.ErrorIs(t, err, store.ErrInvalid, "%+v", rates)
	}
	for _, b := range []Backend{
		{},
		{Store: f.inner, History: -1},
		{Store: f.inner, History: 10},
		{Store: f.inner},
		{Store: bare{f.inner}, Compacts: true},
		{Store: bare{f.inner}, Counts: true},
		{Store: bare{f.inner}, Limits: store.Limits{Key: 1}},
	} {
		require.Error(t, b.check(), "%+v", b)
	}
	require.NoError(t, Backend{Store: bare{f.inner}}.check())
}

// bare hides the optional interfaces of a store.
type bare struct{ store.Store }
