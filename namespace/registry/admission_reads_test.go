package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// What is cluster-scoped can be read and replaced by every write, content only by
// those of its namespace.
func TestAdmissionOfWhatIsClusterScoped(t *testing.T) {
	var clusterErr, gateErr error
	e := admittedEnv(t, nil, link(func(ctx context.Context, w *registry.Write) error {
		if w.Namespace == "" {
			_, clusterErr = w.List(ctx, widgets)
			_, gateErr = w.HoldGate(ctx)
			return nil
		}
		node, err := w.Get(ctx, nodes, "total")
		if err != nil {
			return err
		}
		updated := node.DeepCopy()
		var n int
		if err := json.Unmarshal(node.Fields["spec"], &n); err != nil {
			return err
		}
		updated.Fields["spec"] = json.RawMessage(fmt.Sprint(n + 1))
		return w.Replace(node, updated)
	}))
	total := object("total")
	total.Fields["spec"] = json.RawMessage(`0`)
	e.put(nodes, "", total)
	require.ErrorIs(t, clusterErr, namespace.ErrBadRequest)
	require.ErrorIs(t, gateErr, namespace.ErrBadRequest)
	e.create("x")
	e.create("y")
	e.put(widgets, "x", object("a"))
	e.terminate("y")
	total, err := e.content(nodes).Get(e.ctx, "", "total")
	require.NoError(t, err)
	require.Equal(t, `4`, string(total.Fields["spec"]))
}

// Batches with what links add keep to what the store allows, and a batch that does
// not fit is cut.
func TestAdmittedBatchesFitTheStore(t *testing.T) {
	for _, limits := range []store.Limits{{Operations: 4}, {Operations: 20}, {Operations: 18, Bytes: 3000}} {
		inner, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, inner.Close()) })
		s := &smallStore{Store: inner, limits: limits}
		var batches []int
		e := admittedEnv(t, s, onWidgets(func(ctx context.Context, w *registry.Write) error {
			if w.Objects[0].Operation != registry.Delete {
				return nil
			}
			batches = append(batches, len(w.Objects))
			all, err := w.List(ctx, counters)
			for _, o := range all {
				updated := o.DeepCopy()
				updated.Fields["spec"] = json.RawMessage(fmt.Sprintf(`"batch %d of %d"`, len(batches), len(w.Objects)))
				if err := w.Replace(o, updated); err != nil {
					return err
				}
			}
			return err
		}))
		e.create("x")
		for i := range 3 {
			e.put(counters, "x", object(fmt.Sprint("c", i)))
		}
		for i := range 40 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		s.largest = 0
		done, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		require.Equal(t, 40, done.Deleted)
		require.Greater(t, len(batches), 1)
		require.LessOrEqual(t, s.largest, limits.Operations)
	}
}

// All links of an attempt see the same, until one holds the gate: what it holds is
// read after that.
func TestAdmissionReadsOnce(t *testing.T) {
	var plain *env
	var seen []string
	say := func(ctx context.Context, w *registry.Write) error {
		all, err := w.List(ctx, counters)
		if err != nil {
			return err
		}
		one, err := w.Get(ctx, counters, "a")
		if err != nil {
			return err
		}
		seen = append(seen, fmt.Sprint(len(all), one.Labels))
		return nil
	}
	change := func(name string) error {
		o := object("a")
		o.Labels = map[string]string{"by": name}
		if _, err := plain.content(counters).Update(plain.ctx, "x", o); err != nil {
			return err
		}
		_, err := plain.content(counters).Create(plain.ctx, "x", object(name))
		return err
	}
	e := admittedEnv(t, nil,
		onWidgets(func(ctx context.Context, w *registry.Write) error { return errors.Join(say(ctx, w), change("first")) }),
		onWidgets(func(ctx context.Context, w *registry.Write) error {
			old, err := w.Get(ctx, counters, "a")
			if err != nil {
				return err
			}
			if _, err := w.HoldGate(ctx); err != nil {
				return err
			}
			return errors.Join(say(ctx, w), change("second"), w.Replace(old, old), w.Replace(old, old))
		}),
		onWidgets(func(ctx context.Context, w *registry.Write) error {
			_, err := w.HoldGate(ctx)
			return errors.Join(err, say(ctx, w), errEnough)
		}))
	plain = admittedEnv(t, e.store)
	e.create("x")
	e.put(counters, "x", object("a"))
	_, err := e.content(widgets).Create(e.ctx, "x", object("w"))
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, []string{"1 map[]", "2 map[by:first]", "2 map[]"}, seen, "what is replaced stays what it was")
}

var errEnough = errors.New("enough was seen")
