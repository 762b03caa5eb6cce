package force_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func TestR12_DropEndsANamespaceWhoseOwnerIsGone(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 3)
	result, err := w.drop(request(ns))
	require.NoError(t, err)
	require.True(t, result.Removed)
	require.Equal(t, ns.Spec.Finalizers.Names(), result.Dropped)
	require.True(t, w.gone("x", ns.UID))
	require.Equal(t, []string{"forcing", "forced 0"}, w.actions("x"))

	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Equal(t, result.Inventory, *record.Inventory)
	require.Equal(t, "ada", record.By)
	require.Equal(t, "its owner was uninstalled", record.Reason)
	require.Equal(t, ns.UID, record.UID)
	require.Len(t, record.Inventory.Objects, 3)
	require.Equal(t, audit.Object{Resource: "widgets.example.com", Name: "w000001", UID: record.Inventory.Objects[1].UID,
		Finalizers: []string{string(dead)}}, record.Inventory.Objects[1])
	require.Empty(t, record.Inventory.Failures)

	again, err := w.drop(request(ns)) // whose answer was lost
	require.NoError(t, err)
	result.Namespace = namespace.Namespace{}
	require.Equal(t, result, again)
	require.Len(t, w.actions("x"), 2)
}

func TestDryRunOfDrop(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 3)
	req := request(ns)
	req.DryRun = true
	result, err := w.drop(req)
	require.NoError(t, err)
	require.True(t, result.Removed)
	require.Len(t, result.Inventory.Objects, 3)
	require.Equal(t, ns.Spec.Finalizers.Names(), result.Dropped)
	require.Empty(t, w.actions("x"))
	after, err := w.registry.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, ns, after)
}

// Finalizers of the object itself still hold it, and stay.
func TestR1_MetadataFinalizersStillHold(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := namespace.Namespace{Meta: namespace.Meta{Name: "x", Finalizers: finalizer.NewSet("example.com/own")}}
	_, err := w.registry.Create(t.Context(), ns)
	require.NoError(t, err)
	ns = w.terminate("x")
	result, err := w.drop(request(ns))
	require.NoError(t, err)
	require.False(t, result.Removed)
	require.False(t, w.gone("x", ns.UID))
	require.Equal(t, []finalizer.Name{"example.com/own"}, result.Namespace.Finalizers.Names())
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, "the namespace stays until these finalizers are removed: example.com/own", records[1].Detail)
}

// An Active namespace is refused: it must be deleted first, so that protections apply.
func TestR3_ActiveNamespaceIsNotForced(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.create("x", 1, dead)
	_, err := w.drop(request(ns))
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.ErrorContains(t, err, "DELETE it first")
	require.Empty(t, w.actions("x"))
}

// Finalizers are taken off by finalize, and nothing else is written to the namespace.
func TestR4_OnlyFinalizeIsCalled(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 0)
	req := request(ns)
	req.Finalizers = []finalizer.Name{dead}
	result, err := w.drop(req)
	require.NoError(t, err)
	want := ns.DeepCopy()
	want.Spec.Finalizers = ns.Spec.Finalizers.Without(dead)
	want.ResourceVersion = result.Namespace.ResourceVersion
	require.Equal(t, want, result.Namespace)
}

// Other finalizers stay, and their parties must see their content empty.
func TestR7_OtherPartiesAreNotForced(t *testing.T) {
	w := newWorld(t, newStore(t))
	w.create("x", 2, dead, alive)
	ns := w.terminate("x")
	req := request(ns)
	req.Finalizers = []finalizer.Name{dead}
	result, err := w.drop(req)
	require.NoError(t, err)
	require.False(t, result.Removed)
	require.Equal(t, []finalizer.Name{alive, finalizer.Kubernetes}, result.Namespace.Spec.Finalizers.Names())
	require.Len(t, w.names("x"), 2)
}

// If a source does not answer, Drop refuses, unless the request accepts that on record.
func TestR7_SourcesThatDoNotAnswerRefuse(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 2)
	cause := errors.New("connection refused")
	disks := deleter.Source{Resource: namespace.ResourceType{Group: "example.com", Name: "disks"}, Content: failing{err: cause}}
	var err error
	w.content, err = w.registry.Deleter(&registry.DeleterOptions{Sources: func(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
		return append(sources, disks), nil
	}})
	require.NoError(t, err)

	result, err := w.drop(request(ns))
	require.ErrorIs(t, err, force.ErrIncomplete)
	require.ErrorIs(t, err, cause)
	require.Len(t, result.Inventory.Failures, 1)
	require.Empty(t, w.actions("x"))
	require.False(t, w.gone("x", ns.UID))

	req := request(ns)
	req.Incomplete = true
	result, err = w.drop(req)
	require.NoError(t, err)
	require.True(t, result.Removed)
	record, err := w.log.Get(t.Context(), "x", result.ID)
	require.NoError(t, err)
	require.Equal(t, "disks.example.com", record.Inventory.Failures[0].Source)
	require.Contains(t, record.Inventory.Failures[0].Text, "connection refused")
	require.Contains(t, record.Detail, "accepted an incomplete inventory")
	require.Len(t, record.Inventory.Objects, 2)
}

type failing struct {
	deleter.Content
	err error
}

func (f failing) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, f.err
}

// A request is for one incarnation, also if another one takes the name meanwhile. An inventory
// that may have objects of that one is not recorded, so no sweep can use it.
func TestR8_AnotherIncarnationIsNotForced(t *testing.T) {
	w := newWorld(t, newStore(t))
	old := w.stuck("x", 0)
	req := request(old)
	_, err := force.Drop(t.Context(), watched{w, w.registry}, inventoryFunc(func(ctx context.Context, target deleter.Target) (deleter.Inventory, error) {
		w.finalize(old)
		now := w.stuck("x", 1)
		return w.content.Inventory(ctx, deleter.Target{Namespace: "x", UID: now.UID}) // content that does not see the difference
	}), w.log, req)
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.ErrorContains(t, err, "now has the uid")
	now, err := w.registry.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []finalizer.Name{dead, finalizer.Kubernetes}, now.Spec.Finalizers.Names())
	require.Empty(t, w.actions("x"))

	_, err = w.drop(req)
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.ErrorContains(t, err, "now has the uid")
}

// The name may also be taken between the record and the write. The final record says so.
func TestR8_AnotherIncarnationAfterTheRecord(t *testing.T) {
	w := newWorld(t, newStore(t))
	old := w.stuck("x", 1)
	result, err := force.Drop(t.Context(), w.registry, w.content, afterForcing{w.log, func() {
		w.finalize(old)
		w.stuck("x", 0)
	}}, request(old))
	require.NoError(t, err)
	require.Empty(t, result.Dropped)
	require.Empty(t, result.ID, "of nothing that could be swept")
	require.Equal(t, []string{"forcing", "refused 0"}, w.actions("x"))
	now, err := w.registry.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []finalizer.Name{dead, finalizer.Kubernetes}, now.Spec.Finalizers.Names())
}

// afterForcing does something when the first record was written.
type afterForcing struct {
	*audit.Log
	do func()
}

func (l afterForcing) Write(ctx context.Context, r audit.Record) (audit.Record, error) {
	r, err := l.Log.Write(ctx, r)
	if r.Action == audit.Forcing {
		l.do()
	}
	return r, err
}

type inventoryFunc func(ctx context.Context, target deleter.Target) (deleter.Inventory, error)

func (f inventoryFunc) Inventory(ctx context.Context, target deleter.Target) (deleter.Inventory, error) {
	return f(ctx, target)
}

// Other clients may remove some of the finalizers meanwhile. After the record, Drop drops and
// records the others. Before it, that is a conflict.
func TestDropWhileAnOwnerComesBack(t *testing.T) {
	w := newWorld(t, newStore(t))
	for _, dry := range []bool{true, false} {
		name := fmt.Sprintf("early-%v", dry)
		early := w.stuck(name, 0)
		req := request(early)
		req.DryRun = dry
		_, err := force.Drop(t.Context(), w.registry, inventoryFunc(func(ctx context.Context, target deleter.Target) (deleter.Inventory, error) {
			w.finalize(early, finalizer.Kubernetes)
			return w.content.Inventory(ctx, target)
		}), w.log, req)
		require.ErrorIs(t, err, namespace.ErrConflict)
		require.ErrorContains(t, err, `does not have the finalizer "example.com/dead"`)
		require.Empty(t, w.actions(name))
	}

	ns := w.stuck("x", 0)
	_, err := force.Drop(t.Context(), watched{w, w.registry}, w.content, afterForcing{w.log, func() {
		w.finalize(ns, finalizer.Kubernetes)
	}}, request(ns))
	require.NoError(t, err)
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []finalizer.Name{dead, finalizer.Kubernetes}, records[0].Finalizers)
	require.Equal(t, []finalizer.Name{finalizer.Kubernetes}, records[1].Finalizers)
}

func TestFinalizeRefuses(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	no := &namespace.Error{Kind: namespace.ErrForbidden, Message: "no"}
	_, err := force.Drop(t.Context(), faulty{w.registry, func(int) error { return no }}, w.content, w.log, request(ns))
	require.ErrorIs(t, err, no)
	require.Equal(t, []string{"forcing", "refused 0"}, w.actions("x"))
	require.False(t, w.gone("x", ns.UID))

	_, err = w.drop(request(ns))
	require.NoError(t, err)
	require.Equal(t, []string{"forcing", "refused 0", "forcing", "forced 2"}, w.actions("x"))
}

// faulty is namespaces whose Finalize fails as a function says; nil: it does not.
type faulty struct {
	force.Namespaces
	fail func(n int) error
}

func (f faulty) Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	if err := f.fail(0); err != nil {
		return namespace.Namespace{}, err
	}
	return f.Namespaces.Finalize(ctx, n)
}

// Conflicts are retried within a bound.
func TestR10_ConflictsAreBounded(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	calls := 0
	_, err := force.Drop(t.Context(), faulty{w.registry, func(int) error {
		calls++
		return &namespace.Error{Kind: namespace.ErrConflict, Message: "modified"}
	}}, w.content, w.log, request(ns))
	require.ErrorContains(t, err, "concurrent writes interfered")
	require.Equal(t, 16, calls)
	require.Equal(t, []string{"forcing", "refused 0"}, w.actions("x"))
}

// An unknown outcome leaves the record open, and the next call resolves it.
func TestDropWhoseOutcomeIsUnknown(t *testing.T) {
	for name, landed := range map[string]bool{"lost": false, "landed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStore(t))
			ns := w.stuck("x", 1)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := force.Drop(ctx, faulty{w.registry, func(int) error {
				if landed {
					next := ns.DeepCopy()
					next.Spec.Finalizers = finalizer.Set{}
					_, err := w.registry.Finalize(w.ctx(), next)
					require.NoError(t, err)
				}
				cancel()
				return context.Canceled
			}}, w.content, w.log, request(ns))
			require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
			require.Equal(t, []string{"forcing"}, w.actions("x"))

			result, err := w.drop(request(ns))
			require.NoError(t, err)
			require.True(t, result.Removed)
			require.Len(t, result.Inventory.Objects, 1)
			if landed {
				require.Equal(t, []string{"forcing", "forced 0"}, w.actions("x"))
			} else {
				require.Equal(t, []string{"forcing", "forcing 0", "forced 1"}, w.actions("x"))
			}
		})
	}
}

// Without the first record nothing is dropped. Without the last one Drop returns ErrUnrecorded.
func TestDropRecordsFirst(t *testing.T) {
	broken := errors.New("disk full")
	for n, want := range []struct {
		actions []string
		gone    bool
	}{{nil, false}, {[]string{"forcing"}, true}} {
		w := newWorld(t, newStore(t))
		ns := w.stuck("x", 1)
		log := &brokenLog{Log: w.log, left: n, err: broken}
		result, err := force.Drop(t.Context(), w.registry, w.content, log, request(ns))
		require.ErrorIs(t, err, broken)
		require.Equal(t, want.gone, errors.Is(err, force.ErrUnrecorded))
		require.Equal(t, want.gone, result.Removed)
		require.Equal(t, want.gone, w.gone("x", ns.UID))
		require.Equal(t, want.actions, w.actions("x"))
	}
}

type brokenLog struct {
	*audit.Log
	left int // writes that succeed
	err  error
}

func (l *brokenLog) Write(ctx context.Context, r audit.Record) (audit.Record, error) {
	if l.left--; l.left < 0 {
		return audit.Record{}, l.err
	}
	return l.Log.Write(ctx, r)
}

func TestBadInput(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	for name, tc := range map[string]struct {
		change func(*force.Request)
		want   error
	}{
		"no name":              {func(r *force.Request) { r.Name = "" }, namespace.ErrInvalid},
		"path":                 {func(r *force.Request) { r.Name = "../x" }, namespace.ErrInvalid},
		"no uid":               {func(r *force.Request) { r.UID = "" }, namespace.ErrInvalid},
		"no finalizers":        {func(r *force.Request) { r.Finalizers = nil }, namespace.ErrInvalid},
		"not a finalizer":      {func(r *force.Request) { r.Finalizers = []finalizer.Name{"\xff"} }, namespace.ErrInvalid},
		"twice":                {func(r *force.Request) { r.Finalizers = []finalizer.Name{dead, dead} }, namespace.ErrInvalid},
		"no by":                {func(r *force.Request) { r.By = " " }, namespace.ErrInvalid},
		"no reason":            {func(r *force.Request) { r.Reason = "\n" }, namespace.ErrInvalid},
		"not UTF-8":            {func(r *force.Request) { r.Reason = "\xff" }, namespace.ErrInvalid},
		"two lines":            {func(r *force.Request) { r.By = "root\nforced by ada" }, namespace.ErrInvalid},
		"long":                 {func(r *force.Request) { r.By = string(make([]byte, audit.MaxBy+1)) }, namespace.ErrInvalid},
		"another":              {func(r *force.Request) { r.UID = "u" }, namespace.ErrConflict},
		"not found":            {func(r *force.Request) { r.Name = "y" }, namespace.ErrNotFound},
		"not held":             {func(r *force.Request) { r.Finalizers = []finalizer.Name{alive} }, namespace.ErrConflict},
		"one of them not held": {func(r *force.Request) { r.Finalizers = []finalizer.Name{dead, alive} }, namespace.ErrConflict},
	} {
		req := request(ns)
		tc.change(&req)
		_, err := w.drop(req)
		require.ErrorIs(t, err, tc.want, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	_, err := force.Drop(ctx, w.registry, w.content, w.log, request(ns))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	sweep := force.SweepRequest{Name: "x", ID: "20060102T150405.000000000Z-0123456789abcdef", By: "ada", Reason: "r"}
	for name, change := range map[string]func(*force.SweepRequest){
		"no name":   func(r *force.SweepRequest) { r.Name = "" },
		"no by":     func(r *force.SweepRequest) { r.By = "" },
		"no reason": func(r *force.SweepRequest) { r.Reason = "" },
		"hidden":    func(r *force.SweepRequest) { r.Reason = "a\u202eb" },
		"timeout":   func(r *force.SweepRequest) { r.CallTimeout = -1 },
		"parallel":  func(r *force.SweepRequest) { r.Parallel = -1 },
		"release":   func(r *force.SweepRequest) { r.Release = []finalizer.Name{""} },
	} {
		req := sweep
		change(&req)
		_, err := w.sweep(req)
		require.ErrorIs(t, err, namespace.ErrInvalid, name)
	}
	_, err = w.sweep(sweep)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	_, err = force.Sweep(ctx, w.registry, w.registry, w.log, sweep)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, w.actions("x"))
	after, err := w.registry.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, ns, after)
}

// The final record is written even if the caller's context ended.
func TestDropRecordsItsEndAfterTheContext(t *testing.T) {
	w := newWorld(t, newStore(t))
	ns := w.stuck("x", 1)
	ctx, cancel := context.WithCancel(t.Context())
	result, err := force.Drop(ctx, thenCancelled{w.registry, cancel}, w.content, w.log, request(ns))
	require.NoError(t, err)
	require.True(t, result.Removed)
	require.Error(t, ctx.Err())
	require.Equal(t, []string{"forcing", "forced 0"}, w.actions("x"))
}

// thenCancelled ends a context when finalizers were taken off.
type thenCancelled struct {
	force.Namespaces
	cancel context.CancelFunc
}

func (c thenCancelled) Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	n, err := c.Namespaces.Finalize(ctx, n)
	c.cancel()
	return n, err
}

// A type that another version of the service stored refuses it as well. If that is
// accepted, its objects are in the inventory, and only a version that declares it sweeps
// them.
func TestR7_UndeclaredTypesRefuse(t *testing.T) {
	s := newStore(t)
	w := newWorld(t, s)
	invoices := registry.Type{Group: "example.com", Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}
	newer, err := registry.New(s, &registry.Options{Types: []registry.Type{invoices}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, newer.Close()) })
	content, err := newer.Content(invoices.Name())
	require.NoError(t, err)
	w.create("x", 0, dead)
	_, err = content.Create(t.Context(), "x", registry.Object{Meta: namespace.Meta{Name: "i"}})
	require.NoError(t, err)
	ns := w.terminate("x")
	_, err = w.drop(request(ns))
	require.ErrorIs(t, err, force.ErrIncomplete)
	require.ErrorIs(t, err, deleter.ErrUndeclared)
	require.False(t, w.gone("x", ns.UID))

	req := request(ns)
	req.Incomplete = true
	result, err := w.drop(req)
	require.NoError(t, err)
	require.True(t, result.Removed)
	require.Equal(t, "invoices.example.com", result.Inventory.Objects[0].Resource)
	sweep := force.SweepRequest{Name: "x", ID: result.ID, By: "ann", Reason: "left behind"}
	swept, err := force.Sweep(t.Context(), w.registry, w.registry, w.log, sweep)
	require.ErrorContains(t, err, `the resource type "invoices.example.com" is not declared`)
	require.Zero(t, swept.Gone)
	swept, err = force.Sweep(t.Context(), newer, newer, w.log, sweep)
	require.NoError(t, err)
	require.Equal(t, 1, swept.Gone)
}
