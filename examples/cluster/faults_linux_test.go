package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// The pace of the processes under test.
const (
	testBeat     = 500 * time.Millisecond
	testPatience = 3 * testBeat
	testBound    = testPatience + testBeat
)

// trial is processes over a real store, under load.
type trial struct {
	*story
	store   store.Store
	created atomic.Int64 // tenants so far
	ended   atomic.Bool  // the load is to end
}

func newTrial(t *testing.T, args []string, replicas ...string) *trial {
	t.Helper()
	c, err := parse(args, io.Discard)
	require.NoError(t, err)
	server, err := c.server(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.stop()) })
	opened, err := server.open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	r, err := registry.New(opened, &registry.Options{Types: types})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	tr := &trial{store: opened, story: &story{
		backend: server.backend, say: newTimeline(t.Output()), registry: r, record: newRecord(), crew: map[string]*process{}, patience: testPatience,
	}}
	for _, name := range replicas {
		p, err := launch(tr.backend, name, []string{"--beat", testBeat.String(), "--call", "2ms"}, tr.hear)
		require.NoError(t, err)
		tr.crew[name] = p
		go func() {
			<-p.ended
			<-p.heard
			tr.record.lost(name)
		}()
	}
	t.Cleanup(func() {
		for _, p := range tr.crew {
			p.kill()
		}
	})
	require.NoError(t, tr.record.group(t.Context(), len(replicas)))
	return tr
}

// name is that of the i-th tenant. One in eight is held.
func name(i int64) string { return fmt.Sprintf("tenant-%05d", i) }

func isHeld(i int64) bool { return i%8 == 0 }

// load creates and deletes tenants until it is told to end; the next ones come when
// those before are gone, or held.
func (tr *trial) load(ctx context.Context) error {
	const batch = 16
	for !tr.ended.Load() {
		first := tr.created.Load()
		var group errgroup.Group
		group.SetLimit(8)
		for i := first; i < first+batch; i++ {
			group.Go(func() error {
				if err := fillTenant(ctx, tr.registry, name(i), isHeld(i)); err != nil {
					return err
				}
				_, err := tr.registry.Delete(ctx, name(i), namespace.Preconditions{})
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		tr.created.Add(batch)
		for i := first; i < first+batch; i++ {
			if isHeld(i) {
				continue
			}
			if err := tr.gone(ctx, name(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// heldTenants returns the tenants that the auditor holds.
func (tr *trial) heldTenants() (names []string) {
	for i := range tr.created.Load() {
		if isHeld(i) {
			names = append(names, name(i))
		}
	}
	return names
}

// Four processes under load: one is killed, one is stopped for longer than Patience
// and goes on. Every tenant goes within the bound, nothing is left behind, and two
// work on one tenant only when it has just changed hands.
func TestR12_FourProcesses(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, args []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		tr := newTrial(t, args, "a", "b", "c", "d")
		var group errgroup.Group
		group.Go(func() error { return tr.load(ctx) })
		busy := func(n int) {
			t.Helper()
			already := total(tr.record.counts())
			require.NoError(t, tr.record.await(ctx, "more tenants are gone", func() bool { return total(tr.record.emptied) >= already+n }))
		}
		busy(15)
		tr.dismiss("a").kill()
		killed := time.Now()
		tr.say.line("a is killed")
		require.NoError(t, tr.record.group(ctx, 3))
		tr.say.line("taken over after %.1f s, the bound is %v", time.Since(killed).Seconds(), testBound)

		busy(15)
		require.NoError(t, tr.crew["b"].cmd.Process.Signal(syscall.SIGSTOP))
		tr.say.line("b is stopped")
		require.NoError(t, tr.record.await(ctx, "c and d know of b's silence", func() bool {
			return tr.record.members["c"] == 2 && tr.record.members["d"] == 2
		}))
		busy(15)
		require.NoError(t, tr.crew["b"].cmd.Process.Signal(syscall.SIGCONT))
		tr.say.line("b goes on")
		require.NoError(t, tr.record.group(ctx, 3))
		busy(15)
		tr.ended.Store(true)
		require.NoError(t, group.Wait())
		tr.release(t, ctx)
		for _, name := range []string{"b", "c", "d"} {
			require.NoError(t, tr.dismiss(name).stop(ctx))
		}
		tr.requireNothingLeft(t, ctx)
		tr.report(t)
	})
}

// counts returns how many tenants each has emptied.
func (r *record) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	copied := map[string]int{}
	for name, n := range r.emptied {
		copied[name] = n
	}
	return copied
}

// release lets the auditor finish, and waits until all tenants are gone.
func (tr *trial) release(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, name := range tr.heldTenants() {
		require.NoError(t, tr.audit(ctx, name))
	}
	for _, name := range tr.heldTenants() {
		require.NoError(t, tr.gone(ctx, name))
	}
}

// requireNothingLeft requires that no key is left but type records: no namespace, no
// content, no entry of a replica.
func (tr *trial) requireNothingLeft(t *testing.T, ctx context.Context) {
	t.Helper()
	page, err := tr.store.List(ctx, store.Query{})
	require.NoError(t, err)
	for _, e := range page.Entries {
		if !strings.HasPrefix(e.Key, "/registry/.types/") {
			t.Errorf("left behind: %s", e.Key)
		}
	}
}

// report tells what it took, and requires that double work has a reason: one of both
// was told of other members, or was stopped, not long before or after.
func (tr *trial) report(t *testing.T) {
	t.Helper()
	passes, double := tr.record.figures()
	calls, plain := total(tr.record.calls), 0
	free := 0 // tenants that nobody held: one pass with a deletion and a listing of each type
	for i := range tr.created.Load() {
		if isHeld(i) {
			continue
		}
		free++
		for _, typ := range types {
			plain += tr.record.each[[2]string{name(i), typ.Name().String()}]
		}
	}
	least := free * len(types) * 2
	t.Logf("%s: %d tenants; %d passes, %d of them beside another; emptied: %s", tr.kind, tr.created.Load(), passes, len(double), shares(tr.record.emptied))
	t.Logf("%s: %d calls to sources (%s); those for tenants that nobody held: %d, %.2f of what one controller alone needs",
		tr.kind, calls, shares(tr.record.calls), plain, float64(plain)/float64(least))
	require.Less(t, plain, 2*least, "the work is done over and over")
	for _, o := range double {
		require.True(t, slices.ContainsFunc(tr.record.moves, func(m move) bool {
			return (m.replica == o.first.replica || m.replica == o.second.replica) &&
				m.at.After(o.first.began.Add(-testPatience)) && m.at.Before(o.first.end.Add(testPatience))
		}), "%s and %s both worked on %s, which did not change hands", o.first.replica, o.second.replica, o.tenant)
	}
}

// A replica refuses what makes no sense, and says so to its parent.
func TestReplicaBadInput(t *testing.T) {
	for _, args := range [][]string{
		{"--store", "mysql"},
		{"--store", kindEtcd, "--address", ""},
		{"--store", kindPostgres, "--address", "host=127.0.0.1 port=1 user=x sslmode=disable", "--beat", "1s"},
		{"--colour"},
	} {
		err := runReplica(t.Context(), io.Discard, append([]string{asReplica}, args...))
		require.Error(t, err, "%v", args)
		require.False(t, errors.Is(err, flag.ErrHelp))
	}
}
