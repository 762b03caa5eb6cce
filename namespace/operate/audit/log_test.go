package audit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func TestGetReturnsTheWrittenRecord(t *testing.T) {
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
	require.Empty(t, cmp.Diff([]audit.Record{r}, listed), "a listing has counts instead of inventories")
}

func TestInventoryFitsTheLimitsOfTheStore(t *testing.T) {
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

// A failure of any commit leaves either the whole record with its inventory, or no listed
// record.
func TestWriteIsAtomic(t *testing.T) {
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
			require.Greater(t, at, 3, "the record takes several commits")
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

func TestWriteResolvesUnknownOutcomes(t *testing.T) {
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

func TestWriteReportsUnknownOutcomes(t *testing.T) {
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
