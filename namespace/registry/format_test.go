package registry_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

const formatKey = "/registry/.format"

func TestFormatIsRecordedWithTheFirstWrite(t *testing.T) {
	e := newEnv(t)
	_, err := e.List(e.ctx, registry.ListOptions{})
	require.NoError(t, err)
	_, err = e.DryRun().Create(e.ctx, named("x"))
	require.NoError(t, err)
	require.Zero(t, e.revision(), "reads and dry runs write nothing")
	n := e.create("x")
	entry, err := e.store.Get(e.ctx, formatKey)
	require.NoError(t, err)
	require.Equal(t, "1", string(entry.Value))
	made, err := e.store.Get(e.ctx, "/registry/namespaces/x")
	require.NoError(t, err)
	require.Equal(t, made.Revision, entry.Revision, "one commit")

	second := newEnvOver(t, e.store)
	second.create("y")
	require.Equal(t, n.UID, second.get("x").UID)
	again, err := e.store.Get(e.ctx, formatKey)
	require.NoError(t, err)
	require.Equal(t, entry.Revision, again.Revision, "written once")
}

// Every method of a build that cannot read the stored format fails, and changes nothing.
func TestForeignFormat(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(formatKey, []byte("2"))}})
	require.NoError(t, err)
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
	w := e.content(widgets)
	watch := func(f func(yield func(error) bool)) error {
		for err := range f {
			return err
		}
		return nil
	}
	for name, call := range map[string]func() error{
		"ping":        func() error { return r.Ping(e.ctx) },
		"get":         func() error { _, err := r.Get(e.ctx, "x"); return err },
		"create":      func() error { _, err := r.Create(e.ctx, named("x")); return err },
		"delete":      func() error { _, err := r.Delete(e.ctx, "x", anyVersion); return err },
		"count":       func() error { _, _, err := r.Count(e.ctx); return err },
		"put content": func() error { _, err := w.Create(e.ctx, "x", object("a")); return err },
		"list":        func() error { _, err := w.ListJSON(e.ctx, "x", registry.ListOptions{}); return err },
		"watch": func() error {
			return watch(func(yield func(error) bool) {
				for _, err := range r.Watch(e.ctx, registry.WatchOptions{}) {
					yield(err)
					return
				}
			})
		},
		"terminating": func() error {
			return watch(func(yield func(error) bool) {
				for _, err := range r.Terminating(e.ctx, "") {
					yield(err)
					return
				}
			})
		},
	} {
		err := call()
		require.ErrorIs(t, err, registry.ErrFormat, name)
		require.ErrorContains(t, err, `"/registry/.format" says format "2", this build reads format "1"`, name)
	}
	require.EqualValues(t, 1, e.revision())
}

// Of builds that open an empty store at once, the first write decides the format.
func TestR11_FormatIsDecidedByTheFirstWrite(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	opened := make([]*registry.Registry, 8)
	for i := range opened {
		opened[i], err = registry.New(s, nil)
		require.NoError(t, err)
		require.NoError(t, opened[i].Ping(t.Context()), "the store is empty")
	}
	var running sync.WaitGroup
	for i, r := range opened[1:] {
		running.Go(func() {
			if _, err := r.Create(t.Context(), named(string(rune('a'+i)))); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	active, _, err := opened[0].Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, active)

	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(formatKey, []byte("2"))}})
	require.NoError(t, err)
	_, err = opened[0].Create(t.Context(), named("late"))
	require.ErrorIs(t, err, registry.ErrFormat, "the other build was first")
	_, err = opened[0].Get(t.Context(), "late")
	require.ErrorIs(t, err, registry.ErrFormat)
}

// Faults of the first commit leave neither a write without its format nor a failing registry.
func TestFormatUnderFaults(t *testing.T) {
	for _, kind := range []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Fail} {
		m, err := memory.New(nil)
		require.NoError(t, err)
		first := true
		s, err := storetest.Inject(m, func(a storetest.Attempt) storetest.Fault {
			if a.Method != "commit" || !first {
				return storetest.Fault{}
			}
			first = false
			return storetest.Fault{Kind: kind}
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		e := newEnvOver(t, s)
		for range 2 {
			if _, err = e.Create(e.ctx, named("x")); err == nil {
				break
			}
		}
		require.NoError(t, err)
		_, err = m.Get(context.WithoutCancel(t.Context()), formatKey)
		require.NoError(t, err)
	}
}
