package force_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
)

// forced is a namespace that was dropped by force, with n objects left.
func (w *world) forced(name string, n int) (namespace.Namespace, force.SweepRequest) {
	w.t.Helper()
	ns := w.stuck(name, n)
	result, err := w.drop(request(ns))
	require.NoError(w.t, err)
	return ns, force.SweepRequest{Name: name, ID: result.ID, By: "bob", Reason: "it is not needed", Release: []finalizer.Name{dead}}
}

func TestSweep(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 50)
	reported := []force.SweepProgress{}
	req.Progress = func(p force.SweepProgress) { reported = append(reported, p) }
	result, err := w.sweep(req)
	require.NoError(t, err)
	require.Equal(t, force.SweepProgress{Objects: 50, Gone: 50}, result.SweepProgress)
	require.Empty(t, result.Left)
	require.Empty(t, w.names("x"))
	require.Len(t, reported, 50)
	for i, p := range reported {
		require.Equal(t, i+1, p.Gone)
	}
	require.Equal(t, []string{"forcing", "forced 0", "sweeping 0", "swept 0"}, w.actions("x"))
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Equal(t, "50 of 50 objects are gone", record.Detail)
	require.Equal(t, "bob", record.By)
	require.Nil(t, record.Inventory)

	again, err := w.sweep(req)
	require.NoError(t, err)
	require.Equal(t, result.SweepProgress, again.SweepProgress)
}

// Objects held by finalizers that Release does not list stay, and are recorded.
func TestSweepWithoutRelease(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 4)
	req.Release = nil
	result, err := w.sweep(req)
	require.NoError(t, err)
	require.Equal(t, force.SweepProgress{Objects: 4, Gone: 2, Held: 2}, result.SweepProgress)
	require.Equal(t, []string{"w000001", "w000003"}, w.names("x"))
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Equal(t, result.Left, record.Inventory.Objects)
	require.Equal(t, "2 of 4 objects are gone; 2 are held, 0 failed, 0 were not reached", record.Detail)
}

func TestDryRunOfSweep(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 4)
	req.DryRun = true
	result, err := w.sweep(req)
	require.NoError(t, err)
	require.Len(t, result.Left, 4)
	require.Len(t, w.names("x"), 4)
	require.Len(t, w.actions("x"), 2)
}

// Only a completed Drop can be swept.
func TestSweepNeedsACompleteDrop(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 1)
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	req.ID = records[1].ID
	_, err = w.sweep(req)
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.ErrorContains(t, err, `has the action "forced"`)

	ns := w.stuck("y", 1)
	log := &brokenLog{Log: w.log, left: 1, err: errors.New("disk full")}
	result, err := force.Drop(t.Context(), w.registry, w.content, log, request(ns))
	require.ErrorIs(t, err, force.ErrUnrecorded)
	req.Name, req.ID = "y", result.ID
	_, err = w.sweep(req)
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.ErrorContains(t, err, "is not complete: call it again first")
	_, err = w.drop(request(ns))
	require.NoError(t, err)
	_, err = w.sweep(req)
	require.NoError(t, err)
	require.Empty(t, w.names("y"))
}

// A namespace that was created again keeps the objects that it created, also under the same
// names. Objects that it took over keep their uid, so the sweep checks before.
func TestR8_SweepOfANamespaceCreatedAgain(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 3)
	// Objects that were left are in the way of their names; two go before.
	c, err := w.registry.Content(widgets)
	require.NoError(t, err)
	for _, name := range []string{"w000000", "w000002"} {
		_, err = c.Delete(t.Context(), "x", name, namespace.Preconditions{})
		require.NoError(t, err)
	}
	again := w.create("x", 0, dead)
	w.widget("x", 0)
	w.widget("x", 2)
	for _, dry := range []bool{true, false} {
		req.DryRun = dry
		_, err = w.sweep(req)
		require.ErrorIs(t, err, namespace.ErrConflict)
		require.ErrorContains(t, err, again.UID)
	}
	require.Len(t, w.names("x"), 3)
	require.Len(t, w.actions("x"), 2)

	req.Recreated = true
	result, err := w.sweep(req)
	require.NoError(t, err)
	require.Equal(t, 3, result.Gone)
	require.Equal(t, []string{"w000000", "w000002"}, w.names("x"))
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Contains(t, records[2].Detail, again.UID)
	require.Contains(t, records[2].Detail, "the operator accepted")

	broken := errors.New("connection refused")
	_, err = force.Sweep(t.Context(), unreadable{broken}, w.registry, w.log, req)
	require.ErrorIs(t, err, broken)
	require.Len(t, w.actions("x"), 4)
}

type unreadable struct{ err error }

func (u unreadable) Get(context.Context, string) (namespace.Namespace, error) {
	return namespace.Namespace{}, u.err
}

// Sources that did not answer for the inventory are not swept, and the result lists them.
func TestSweepOfAnIncompleteInventory(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	content, err := deleter.New([]deleter.Source{{Resource: widgets, Content: failing{err: errors.New("down")}}}, nil)
	require.NoError(t, err)
	drop := request(ns)
	drop.Incomplete = true
	dropped, err := force.Drop(t.Context(), w.registry, content, w.log, drop)
	require.NoError(t, err)
	result, err := w.sweep(force.SweepRequest{Name: "x", ID: dropped.ID, By: "b", Reason: "r"})
	require.NoError(t, err)
	require.Equal(t, []audit.Failure{{Source: "widgets.example.com",
		Text: "did not answer for the inventory: " + dropped.Inventory.Failures[0].Text}}, result.Failures)
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Equal(t, "0 of 0 objects are gone; 1 source(s) did not answer for the inventory", record.Detail)
	require.Equal(t, result.Failures, record.Inventory.Failures)
	require.Equal(t, 1, record.Failures)
}

// fakeContent removes objects as a function says.
type fakeContent func(name string) (bool, error)

func (f fakeContent) RemoveObject(_ context.Context, _ namespace.ResourceType, _, name, _ string, _ []finalizer.Name) (bool, error) {
	return f(name)
}

// Failures do not delay other types, and are reported once for each type.
func TestR10_FailingObjectDelaysNoOther(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 5)
	broken := errors.New("connection refused")
	req.Parallel = 1
	result, err := force.Sweep(t.Context(), w.registry, fakeContent(func(name string) (bool, error) {
		if name < "w000003" {
			return false, broken
		}
		return true, nil
	}), w.log, req)
	require.ErrorIs(t, err, broken)
	require.Equal(t, force.SweepProgress{Objects: 5, Gone: 2, Failed: 3}, result.SweepProgress)
	require.Equal(t, []audit.Failure{{Source: "widgets.example.com", Text: `widgets.example.com "w000000" (and 2 others of its type): connection refused`}}, result.Failures)
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Equal(t, result.Failures, record.Inventory.Failures)
	require.Len(t, record.Inventory.Objects, 3)
}

// leaves puts on record that so many objects of each type were left, in that order.
func (w *world) leaves(n int, types ...string) force.SweepRequest {
	w.t.Helper()
	r := audit.Record{Action: audit.Forcing, Namespace: "x", UID: "u", Inventory: &audit.Inventory{}}
	for _, resource := range types {
		for i := range n {
			r.Inventory.Objects = append(r.Inventory.Objects, audit.Object{Resource: resource, Name: fmt.Sprint(resource, i), UID: "u"})
		}
	}
	r, err := w.log.Write(w.ctx(), r)
	require.NoError(w.t, err)
	_, err = w.log.Write(w.ctx(), audit.Record{Action: audit.Forced, Namespace: "x", UID: "u", Follows: r.ID})
	require.NoError(w.t, err)
	return force.SweepRequest{Name: "x", ID: r.ID, By: "b", Reason: "r"}
}

// A type whose calls hang takes its share of them only: all others are done before any
// call of it has run out of time.
func TestR10_HangingTypeDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newStore(t))
		req := w.leaves(20, "hanging", "quick", "slow")
		began, others := time.Now(), 0
		req.Progress = func(p force.SweepProgress) {
			if p.Gone == 40 && p.Failed == 0 {
				others = p.Gone
			}
		}
		result, err := force.Sweep(t.Context(), w.registry, removeFunc(func(ctx context.Context, name string) (bool, error) {
			switch name[:4] {
			case "hang":
				<-ctx.Done()
				return false, errors.New("gave up")
			case "slow":
				time.Sleep(time.Second)
			}
			return true, nil
		}), w.log, req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer within 1m0s: context deadline exceeded: gave up")
		require.Equal(t, 40, others)
		require.Equal(t, force.SweepProgress{Objects: 60, Gone: 40, Failed: 20}, result.SweepProgress)
		require.LessOrEqual(t, time.Since(began), 5*time.Minute)
	})
}

// With one call at a time, types alternate, and one that fails comes last.
func TestSweepSharesTheCalls(t *testing.T) {
	w := newWorld(t, newStore(t))
	req := w.leaves(5, "a", "b")
	req.Parallel = 1
	var order []string
	_, err := force.Sweep(t.Context(), w.registry, removeFunc(func(_ context.Context, name string) (bool, error) {
		order = append(order, name)
		if name[0] == 'a' {
			panic("nil map")
		}
		return true, nil
	}), w.log, req)
	require.ErrorContains(t, err, "panic: nil map")
	require.Equal(t, []string{"a0", "b0", "a1", "b1", "a2", "b2", "b3", "b4", "a3", "a4"}, order)
}

func TestProgressPanics(t *testing.T) {
	w := newWorld(t, newStore(t))
	req := w.leaves(5, "a")
	reported := 0
	req.Progress = func(force.SweepProgress) { reported++; panic("closed") }
	result, err := force.Sweep(t.Context(), w.registry, fakeContent(func(string) (bool, error) { return true, nil }), w.log, req)
	require.ErrorContains(t, err, "call Progress: panic: closed")
	require.Equal(t, 5, result.Gone)
	require.Equal(t, 1, reported)
	require.NotEmpty(t, result.ID)
}

type removeFunc func(ctx context.Context, name string) (bool, error)

func (f removeFunc) RemoveObject(ctx context.Context, _ namespace.ResourceType, _, name, _ string, _ []finalizer.Name) (bool, error) {
	return f(ctx, name)
}

// A sweep that is cut short says how far it came, and goes on when it is called again.
func TestSweepIsResumed(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, req := w.forced("x", 20)
	ctx, cancel := context.WithCancel(t.Context())
	req.Parallel = 1
	req.Progress = func(p force.SweepProgress) {
		if p.Gone == 7 {
			cancel()
		}
	}
	result, err := force.Sweep(ctx, w.registry, watched{w, w.registry}, w.log, req)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 7, result.Gone)
	require.Len(t, w.names("x"), 13)
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Contains(t, record.Detail, "7 of 20 objects are gone; 0 are held, 0 failed, 13 were not reached")

	result, err = w.sweep(req)
	require.NoError(t, err)
	require.Equal(t, 20, result.Gone)
	require.Empty(t, w.names("x"))
}

// An object without a uid may be another one, so it stays.
func TestSweepLeavesObjectsWithoutUID(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 0)
	drop, err := force.Drop(t.Context(), w.registry, inventoryFunc(func(context.Context, deleter.Target) (deleter.Inventory, error) {
		return deleter.Inventory{Objects: []deleter.Object{{Resource: widgets, Item: deleter.Item{Name: "w"}}}}, nil
	}), w.log, request(ns))
	require.NoError(t, err)
	result, err := w.sweep(force.SweepRequest{Name: "x", ID: drop.ID, By: "b", Reason: "r"})
	require.ErrorContains(t, err, "it has no uid")
	require.Equal(t, 1, result.Failed)
}

// Any number of callers at once drop and remove nothing more than one does, and every
// effect is on record before.
func TestR11_ConcurrentSweeps(t *testing.T) {
	w := newWorld(t, newStore(t))
	w.create("x", 10, dead, alive)
	ns := w.terminate("x")
	w.create("y", 5)
	req := request(ns)
	req.Finalizers = []finalizer.Name{dead, finalizer.Kubernetes}
	var group sync.WaitGroup
	ids, errs := make([]string, 8), make([]error, 8)
	for i := range ids {
		group.Go(func() {
			result, err := force.Drop(w.ctx(), w.registry, w.content, w.log, req)
			if errs[i] = err; err != nil {
				return
			}
			if ids[i] = result.ID; len(result.Dropped) == 0 {
				return
			}
			_, errs[i] = force.Sweep(w.ctx(), w.registry, w.registry, w.log,
				force.SweepRequest{Name: "x", ID: result.ID, By: fmt.Sprint(i), Reason: "r", Release: []finalizer.Name{dead}})
		})
	}
	group.Wait()
	for i, err := range errs {
		require.NoError(t, err, i)
	}
	n, err := w.registry.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []finalizer.Name{alive}, n.Spec.Finalizers.Names(), "the party that was not named still holds it")
	require.Empty(t, w.names("x"))
	require.Len(t, w.names("y"), 5)
	forced := 0
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	for _, r := range records {
		if r.Action == audit.Forced {
			forced++
		}
	}
	require.GreaterOrEqual(t, forced, 1)
}

// takenAfter is namespaces where a name is taken again once so many objects went.
type takenAfter struct {
	n    int64
	gone *atomic.Int64
	err  error // of the reads from then on; nil: none
}

func (n takenAfter) Get(_ context.Context, name string) (namespace.Namespace, error) {
	switch {
	case n.gone.Load() < n.n:
		return namespace.Namespace{}, &namespace.Error{Kind: namespace.ErrNotFound}
	case n.err != nil:
		return namespace.Namespace{}, n.err
	}
	return namespace.Namespace{Meta: namespace.Meta{Name: name, UID: "again"}}, nil
}

// A name that is taken again in the middle is noticed after some objects, or some time.
func TestR8_SweepStopsWhenTheNamespaceIsCreatedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		each time.Duration // that an object takes
		most int           // that go after the name was taken
	}{"quick": {0, 64}, "slow": {400 * time.Millisecond, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newStore(t))
				req := w.leaves(300, "a")
				req.Parallel = 1
				var gone atomic.Int64
				result, err := force.Sweep(t.Context(), takenAfter{n: 100, gone: &gone}, fakeContent(func(string) (bool, error) {
					time.Sleep(c.each)
					gone.Add(1)
					return true, nil
				}), w.log, req)
				require.ErrorIs(t, err, namespace.ErrConflict)
				require.ErrorContains(t, err, `with the uid "again"`)
				require.GreaterOrEqual(t, result.Gone, 100)
				require.LessOrEqual(t, result.Gone, 100+c.most)
				require.Zero(t, result.Failed, "objects that were not reached have not failed")
				require.Len(t, result.Left, 300-result.Gone)
				record, err := w.log.Get(t.Context(), "x", result.ID)
				require.NoError(t, err)
				require.Contains(t, record.Detail, fmt.Sprintf("%d were not reached: ", 300-result.Gone))
				require.Contains(t, record.Detail, `it was created again with the uid "again"`)

				gone.Store(0)
				req.Recreated = true
				result, err = force.Sweep(t.Context(), takenAfter{n: 100, gone: &gone}, fakeContent(func(string) (bool, error) {
					gone.Add(1)
					return true, nil
				}), w.log, req)
				require.NoError(t, err)
				require.Equal(t, 300, result.Gone)
				record, err = w.log.Get(t.Context(), "x", result.ID)
				require.NoError(t, err)
				require.Contains(t, record.Detail, `was created again, with the uid "again"`)
			})
		})
	}
}

// If the check of the name fails, the sweep stops.
func TestR8_SweepThatCannotReadTheNamespace(t *testing.T) {
	w := newWorld(t, newStore(t))
	req := w.leaves(200, "a")
	var gone atomic.Int64
	broken := errors.New("connection refused")
	result, err := force.Sweep(t.Context(), takenAfter{1, &gone, broken}, fakeContent(func(string) (bool, error) {
		gone.Add(1)
		return true, nil
	}), w.log, req)
	require.ErrorIs(t, err, broken)
	require.Less(t, result.Gone, 200)
}

// Objects whose removal was under way when the context ended count as not reached.
func TestSweepWhoseContextEnds(t *testing.T) {
	w := newWorld(t, newStore(t))
	req := w.leaves(3, "a")
	req.Parallel = 1
	ctx, cancel := context.WithCancel(t.Context())
	result, err := force.Sweep(ctx, w.registry, removeFunc(func(ctx context.Context, name string) (bool, error) {
		if name == "a1" {
			cancel()
		}
		return true, ctx.Err()
	}), w.log, req)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, force.SweepProgress{Objects: 3, Gone: 1}, result.SweepProgress)
	require.Empty(t, result.Failures)
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Contains(t, record.Detail, "1 of 3 objects are gone; 0 are held, 0 failed, 2 were not reached: ")
}
