package force_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/store"
)

// wrote puts a record of a request on record, as a caller that did not get further.
func (w *world) wrote(req force.Request, action audit.Action, follows string) audit.Record {
	w.t.Helper()
	r := audit.Record{Action: action, Namespace: req.Name, UID: req.UID, By: req.By, Reason: req.Reason, Finalizers: req.Finalizers, Follows: follows}
	if action == audit.Forcing {
		r.Inventory = &audit.Inventory{Objects: []audit.Object{{Resource: widgets.String(), Name: "w", UID: "u"}}}
	}
	r, err := w.log.Write(w.ctx(), r)
	require.NoError(w.t, err)
	return r
}

// An open call is completed although the owner of one finalizer removed it since.
func TestDropResumesWithFewerFinalizers(t *testing.T) {
	w := newWorld(t, newStore(t))
	w.create("x", 1, dead, alive)
	ns := w.terminate("x")
	req := request(ns)
	w.wrote(req, audit.Forcing, "")
	w.finalize(ns, dead, finalizer.Kubernetes)
	result, err := w.drop(req)
	require.NoError(t, err)
	require.Equal(t, []finalizer.Name{dead, finalizer.Kubernetes}, result.Dropped)
	require.Equal(t, []string{"forcing", "forcing 0", "forced 1"}, w.actions("x"))
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, result.Dropped, records[2].Finalizers)
}

// The records of another incarnation are no records of this one.
func TestR8_RecordsOfAnotherIncarnation(t *testing.T) {
	w := newWorld(t, newStore(t))
	_, err := w.drop(request(w.stuck("x", 0)))
	require.NoError(t, err)
	ns := w.stuck("x", 0)
	w.finalize(ns) // it ended by itself
	result, err := w.drop(request(ns))
	require.ErrorIs(t, err, namespace.ErrNotFound)
	require.Empty(t, result)
	require.Equal(t, []string{"forcing", "forced 0"}, w.actions("x"))
}

// Of several calls that are on record the last one is gone on with.
func TestDropCompletesTheLastCall(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 0)
	w.wrote(request(ns), audit.Forcing, "")
	last := w.wrote(request(ns), audit.Forcing, "")
	w.finalize(ns)
	result, err := w.drop(request(ns))
	require.NoError(t, err)
	require.Equal(t, last.ID, result.ID)
	require.Equal(t, []string{"forcing", "forcing", "forced 1"}, w.actions("x"))
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Contains(t, records[2].Detail, "or other clients removed them, such as their owners")
}

// A call that one process records as refused and another one completes counts as forced, in
// any order of the two records.
func TestForcedOutweighsRefused(t *testing.T) {
	for _, ends := range [][]audit.Action{{audit.Refused, audit.Forced}, {audit.Forced, audit.Refused}} {
		w := newWorld(t, newStore(t))
		ns := w.stuck("x", 0)
		first := w.wrote(request(ns), audit.Forcing, "")
		for _, end := range ends {
			w.wrote(request(ns), end, first.ID)
		}
		w.finalize(ns)
		result, err := w.drop(request(ns))
		require.NoError(t, err)
		require.Equal(t, first.ID, result.ID)
		require.Equal(t, ns.Spec.Finalizers.Names(), result.Dropped)
		require.Len(t, w.actions("x"), 3, "nothing is left to be recorded")
	}
}

func TestDryRunHasNoRecord(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	req := request(ns)
	for _, write := range []func(){func() { w.wrote(req, audit.Forcing, "") }, func() {}} {
		write()
		w.finalizeIfThere(ns)
		req.DryRun = true
		result, err := w.drop(req)
		require.NoError(t, err)
		require.Empty(t, result.ID)
		require.Len(t, result.Inventory.Objects, 1)
		require.True(t, result.Removed)
		req.DryRun = false
		_, err = w.drop(req)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"forcing", "forced 0"}, w.actions("x"))
}

func (w *world) finalizeIfThere(ns namespace.Namespace) {
	if !w.gone(ns.Name, ns.UID) {
		w.finalize(ns)
	}
}

// If the answer of a write was lost and a second read shows its effect, Drop counts it as its own.
func TestDropWhoseAnswerWasLost(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	result, err := force.Drop(t.Context(), landed{w.registry}, w.content, w.log, request(ns))
	require.NoError(t, err)
	require.Equal(t, ns.Spec.Finalizers.Names(), result.Dropped)
	require.True(t, result.Removed)
	require.Equal(t, []string{"forcing", "forced 0"}, w.actions("x"))
}

// landed is namespaces whose Finalize loses its answer.
type landed struct{ force.Namespaces }

func (l landed) Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	_, err := l.Namespaces.Finalize(ctx, n)
	return namespace.Namespace{}, errors.Join(namespace.ErrUnknownOutcome, err)
}

// A failure without an unknown outcome is retried within a bound, and then recorded as refused.
func TestDropThatFails(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	broken := errors.New("failed calling webhook")
	calls := 0
	_, err := force.Drop(t.Context(), faulty{w.registry, func(int) error { calls++; return broken }}, w.content, w.log, request(ns))
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
	require.Equal(t, 16, calls)
	require.Equal(t, []string{"forcing", "refused 0"}, w.actions("x"))

	calls = 0
	_, err = force.Drop(t.Context(), faulty{w.registry, func(int) error {
		if calls++; calls < 3 {
			return broken
		}
		return nil
	}}, w.content, w.log, request(ns))
	require.NoError(t, err, "one that passes")
	require.True(t, w.gone("x", ns.UID))
}

// A refused Drop does not return ErrUnrecorded, which means that the operation was carried out.
func TestRefusalThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 0)
	no, full := &namespace.Error{Kind: namespace.ErrForbidden, Message: "no"}, errors.New("disk full")
	_, err := force.Drop(t.Context(), faulty{w.registry, func(int) error { return no }}, w.content, &brokenLog{Log: w.log, left: 1, err: full}, request(ns))
	require.ErrorIs(t, err, no)
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, force.ErrUnrecorded)
}

// An incomplete listing makes the inventory incomplete.
func TestPartlyListedTypeIsIncomplete(t *testing.T) {
	for name, r := range map[string]deleter.Result{"more": {Resource: widgets, More: true}, "waiting": {Resource: widgets, Waiting: true}} {
		w := newWorld(t, newStore(t))
		_, err := force.Drop(t.Context(), w.registry, inventoryFunc(func(context.Context, deleter.Target) (deleter.Inventory, error) {
			return deleter.Inventory{Report: deleter.Report{Results: []deleter.Result{r}}}, nil
		}), w.log, request(w.stuck("x", 0)))
		require.ErrorIs(t, err, force.ErrIncomplete, name)
		require.Empty(t, w.actions("x"), name)
	}
}

// A record has the authenticated user, and accepts no other name.
func TestAuthenticatedOperator(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	ctx := audit.WithActor(t.Context(), "mallory")
	req := request(ns)
	_, err := force.Drop(ctx, w.registry, w.content, w.log, req)
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.ErrorContains(t, err, `By is "ada", but the authenticated user is "mallory"`)
	require.Empty(t, w.actions("x"))
	req.By = ""
	result, err := force.Drop(ctx, w.registry, w.content, w.log, req)
	require.NoError(t, err)
	sweep := force.SweepRequest{Name: "x", ID: result.ID, By: "ada", Reason: "r"}
	_, err = force.Sweep(ctx, w.registry, w.registry, w.log, sweep)
	require.ErrorIs(t, err, namespace.ErrForbidden)
	sweep.By = "mallory"
	_, err = force.Sweep(ctx, w.registry, w.registry, w.log, sweep)
	require.NoError(t, err)
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Len(t, records, 4)
	for _, r := range records {
		require.Equal(t, "mallory", r.By)
	}
}

// Another call drops them between this one's record and its write, and ends before it can
// record that: this one completes it, so that the remaining objects can be swept.
func TestOvertakenDropCompletesTheOther(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 0)
	var other audit.Record
	result, err := force.Drop(t.Context(), w.registry, w.content, afterForcing{w.log, func() {
		other = w.wrote(request(ns), audit.Forcing, "")
		w.finalize(ns)
	}}, request(ns))
	require.NoError(t, err)
	require.Equal(t, other.ID, result.ID)
	require.Equal(t, ns.Spec.Finalizers.Names(), result.Dropped)
	require.True(t, result.Removed)
	require.Equal(t, []string{"forcing", "forcing", "refused 0", "forced 1"}, w.actions("x"))
	_, err = w.sweep(force.SweepRequest{Name: "x", ID: result.ID, By: "b", Reason: "r"})
	require.NoError(t, err)
}

// An answer is one also if the context ends with it.
func TestFinalizeAnswersAsTheContextEnds(t *testing.T) {
	for _, kind := range []error{namespace.ErrConflict, namespace.ErrForbidden} {
		w := newWorld(t, newStore(t))
		ns := w.stuck("x", 1)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := force.Drop(ctx, faulty{w.registry, func(int) error {
			cancel()
			return &namespace.Error{Kind: kind, Message: "no"}
		}}, w.content, w.log, request(ns))
		require.Error(t, err)
		require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
		require.Equal(t, []string{"forcing", "refused 0"}, w.actions("x"))
	}
}

// Damaged records and foreign keys below a name do not block a Drop, and do not hide readable
// records.
func TestUnreadableRecords(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	_, err := w.store.Commit(t.Context(), store.Txn{Do: []store.Operation{
		store.Put("/registry/.audit/x/20060102T150405.000000000Z-0123456789abcdef", []byte("{")),
		store.Put("/registry/.audit/x/notes", []byte("of another program")),
	}})
	require.NoError(t, err)
	result, err := w.drop(request(ns))
	require.NoError(t, err)
	_, err = w.sweep(force.SweepRequest{Name: "x", ID: result.ID, By: "b", Reason: "r", Release: []finalizer.Name{dead}})
	require.NoError(t, err)
	require.Empty(t, w.names("x"))
	require.Equal(t, []string{"unreadable", "forcing", "forced 1", "sweeping 1", "swept 1"}, w.actions("x"))
}
