package storetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/watch"
	"github.com/stretchr/testify/require"
)

// handle is another handle on a store. Closing it leaves the store open.
type handle struct{ *memory.Store }

func (handle) Close() error { return nil }

// openMemory returns a memory backend with stand-ins for missing capabilities, so that every case
// runs: a second handle and a crash are the same store, and a restored backup is a copy.
func openMemory(t testing.TB) Backend {
	const history = 1024
	m, err := memory.New(&memory.Options{Retain: history, Watch: watch.Options{Queue: 64, Bookmarks: 200 * time.Millisecond}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() }) // the cases close it too
	again := func(context.Context) (store.Store, error) { return handle{m}, nil }
	return Backend{
		Store:    m,
		Limits:   m.Limits(),
		Compacts: true,
		Counts:   true,
		History:  history,
		Second:   again,
		Reopen:   again,
		NewEpoch: func(ctx context.Context) (store.Store, error) { return copyOf(ctx, m) },
		Deep:     func(context.Context) (store.Store, error) { return memory.New(nil) },
	}
}

// copyOf returns a new store with the entries of s.
func copyOf(ctx context.Context, s store.Store) (store.Store, error) {
	p, err := s.List(ctx, store.Query{})
	if err != nil {
		return nil, err
	}
	restored, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	for _, e := range p.Entries {
		if _, err := restored.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(e.Key, e.Value)}}); err != nil {
			return nil, err
		}
	}
	for now := store.Revision(0); now <= p.Position.Revision; { // past every revision of s
		for _, op := range []store.Operation{store.Put("passing", nil), store.Delete("passing")} {
			if now, err = restored.Commit(ctx, store.Txn{Do: []store.Operation{op}}); err != nil {
				return nil, err
			}
		}
		if err := restored.Compact(ctx, now); err != nil {
			return nil, err
		}
	}
	return restored, nil
}

func TestMemory(t *testing.T) { Run(t, openMemory) }

func TestMemoryAtTheSizesOfASlowStore(t *testing.T) {
	Run(t, func(t testing.TB) Backend {
		b := openMemory(t)
		b.Slow = true
		return b
	})
}

// TestBareStore runs the suite over a store without optional interfaces. The other cases are
// skipped by name.
func TestBareStore(t *testing.T) {
	Run(t, func(t testing.TB) Backend {
		m, err := memory.New(&memory.Options{Watch: watch.Options{Bookmarks: 200 * time.Millisecond}})
		require.NoError(t, err)
		return Backend{Store: bare{m}}
	})
}

func TestMissingCapabilityIsNamed(t *testing.T) {
	full := openMemory(t)
	for _, c := range cases() {
		require.Empty(t, full.missing(c.needs), "the needs of %q on a full backend", c.name)
		if len(c.needs) > 0 {
			require.Equal(t, c.needs[0].name, Backend{}.missing(c.needs), "the first need of %q", c.name)
		}
	}
}

// TestReport shows the parts of a failure: the promise, the reason, and the failed check.
func TestReport(t *testing.T) {
	c := testcase{want: "the promise", why: "the reason", run: func(t *trial) {
		t.cleanup(func() { t.Errorf("cleanups run") })
		t.put("k", "1")
		t.absent("k")
		t.Errorf("never reached")
	}}
	report := c.report(c.try(openMemory(t), time.Minute))
	for _, part := range []string{"expected: the promise", "because:  the reason", `Get("k")`, "cleanups run"} {
		require.Contains(t, report, part)
	}
	require.NotContains(t, report, "never reached")
}

func TestDeadlineReportsTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcase{run: func(t *trial) {
			t.doing("waiting for %s", "a change that never comes")
			<-t.ctx.Done()
		}}
		failures := c.try(openMemory(t), time.Second)
		require.Len(t, failures, 1)
		require.Contains(t, failures[0], "the deadline of the case has passed while waiting for a change that never comes")
	})
}
