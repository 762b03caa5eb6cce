package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func TestRemove(t *testing.T) {
	for _, phase := range []string{"active", "terminating", "gone"} {
		t.Run(phase, func(t *testing.T) {
			e := newEnv(t)
			e.create("x")
			free := e.put(widgets, "x", object("free"))
			held := e.put(widgets, "x", object("held", "example.com/a", "example.com/b"))
			if phase != "active" {
				e.terminate("x")
			}
			if phase == "gone" {
				e.release("x") // by force; the steps below remove what that leaves
			}
			gone, err := e.RemoveObject(e.ctx, widgets, "x", "free", free.UID, nil)
			require.NoError(t, err)
			require.True(t, gone)
			for i, step := range []struct {
				release []finalizer.Name
				gone    bool
				left    int
			}{
				{nil, false, 2},
				{[]finalizer.Name{"example.com/a", "example.com/none"}, false, 1},
				{nil, false, 1},
				{[]finalizer.Name{"example.com/b"}, true, 0},
				{nil, true, 0}, // again
			} {
				gone, err := e.RemoveObject(e.ctx, widgets, "x", "held", held.UID, step.release)
				require.NoError(t, err, i)
				require.Equal(t, step.gone, gone, i)
				o, err := e.content(widgets).Get(e.ctx, "x", "held")
				if step.gone {
					require.ErrorIs(t, err, namespace.ErrNotFound, i)
					continue
				}
				require.NoError(t, err, i)
				require.Equal(t, step.left, o.Finalizers.Len(), i)
				require.False(t, o.DeletionTimestamp.IsZero(), i)
			}
		})
	}
}

// Remove does not touch an object of the same name in a recreated namespace.
func TestR8_RemoveTouchesNothingOfAnotherIncarnation(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	old := e.put(widgets, "x", object("w"))
	_, err := e.content(widgets).Delete(e.ctx, "x", "w", anyVersion)
	require.NoError(t, err)
	e.terminate("x")
	e.release("x")
	e.create("x")
	e.put(widgets, "x", object("w", "example.com/a"))
	before := e.revision()
	gone, err := e.RemoveObject(e.ctx, widgets, "x", "w", old.UID, []finalizer.Name{"example.com/a"})
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, before, e.revision(), "nothing was written")
}

func TestRemoveWhoseOutcomeIsUnknown(t *testing.T) {
	for _, kind := range []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Conflict} {
		inner, err := memory.New(nil)
		require.NoError(t, err)
		begun := false
		s, err := storetest.Inject(inner, func(a storetest.Attempt) storetest.Fault {
			if begun && a.Method == "commit" && a.N%2 == 0 {
				return storetest.Fault{Kind: kind}
			}
			return storetest.Fault{}
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		e := newEnvOver(t, s)
		e.create("x")
		for i := range 4 {
			o := e.put(widgets, "x", object(fmt.Sprint("w", i), "example.com/a"))
			begun = true
			gone, err := e.RemoveObject(e.ctx, widgets, "x", o.Name, o.UID, []finalizer.Name{"example.com/a"})
			begun = false
			require.NoError(t, err, kind)
			require.True(t, gone, kind)
			_, err = e.content(widgets).Get(e.ctx, "x", o.Name)
			require.ErrorIs(t, err, namespace.ErrNotFound)
		}
	}
}

func TestRemoveInADryRun(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	o := e.put(widgets, "x", object("w"))
	gone, err := e.DryRun().RemoveObject(e.ctx, widgets, "x", "w", o.UID, nil)
	require.NoError(t, err)
	require.True(t, gone)
	_, err = e.content(widgets).Get(e.ctx, "x", "w")
	require.NoError(t, err)
}

func TestRemoveBadInput(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	for name, tc := range map[string]struct {
		resource      namespace.ResourceType
		ns, name, uid string
		want          error
	}{
		"no type":        {namespace.ResourceType{}, "x", "w", "u", namespace.ErrNotFound},
		"not declared":   {namespace.ResourceType{Name: "gadgets"}, "x", "w", "u", namespace.ErrNotFound},
		"no namespace":   {widgets, "", "w", "u", namespace.ErrBadRequest},
		"path":           {widgets, "x/y", "w", "u", namespace.ErrBadRequest},
		"path as name":   {widgets, "x", "../y", "u", namespace.ErrBadRequest},
		"no name":        {widgets, "x", "", "u", namespace.ErrBadRequest},
		"no uid":         {widgets, "x", "w", "", namespace.ErrBadRequest},
		"cluster-scoped": {nodes, "x", "w", "u", namespace.ErrBadRequest},
	} {
		gone, err := e.RemoveObject(e.ctx, tc.resource, tc.ns, tc.name, tc.uid, nil)
		require.ErrorIs(t, err, tc.want, name)
		require.False(t, gone, name)
	}
}

// View pages through one snapshot of one incarnation, in any phase, and never shows
// another one.
func TestR8_ViewIsOfOneIncarnation(t *testing.T) {
	e := newEnv(t)
	sources, err := e.Sources(widgets)
	require.NoError(t, err)
	viewer := sources[0].Content.(deleter.Viewer)
	n := e.create("x")
	e.create("x-y") // whose key begins with the same bytes
	for i := range 5 {
		e.put(widgets, "x", object(fmt.Sprint("w", i)))
	}
	target := deleter.Target{Namespace: "x", UID: n.UID}
	page, err := viewer.View(e.ctx, target, 2, "")
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	e.terminate("x")
	_, err = e.content(widgets).Delete(e.ctx, "x", "w4", anyVersion)
	require.NoError(t, err)
	page, err = viewer.View(e.ctx, target, 0, page.Next)
	require.NoError(t, err)
	require.Len(t, page.Items, 3, "of the snapshot of the first page")
	page, err = viewer.View(e.ctx, target, 0, "")
	require.NoError(t, err)
	require.Len(t, page.Items, 4)

	for name, other := range map[string]deleter.Target{
		"another incarnation": {Namespace: "x", UID: "u"},
		"none":                {Namespace: "y", UID: n.UID},
		"a prefix":            {Namespace: "x-", UID: n.UID},
	} {
		_, err = viewer.View(e.ctx, other, 0, "")
		require.ErrorIs(t, err, deleter.ErrIncarnation, name)
	}
	for name, bad := range map[string]deleter.Target{"no name": {UID: "u"}, "no uid": {Namespace: "x"}, "hidden": {Namespace: ".x", UID: "u"}} {
		_, err = viewer.View(e.ctx, bad, 0, "")
		require.ErrorIs(t, err, deleter.ErrInvalid, name)
	}
	_, err = viewer.View(e.ctx, target, -1, "")
	require.ErrorIs(t, err, deleter.ErrInvalid)
	_, err = viewer.View(e.ctx, target, 0, "!")
	require.ErrorIs(t, err, deleter.ErrInvalid)
	for _, i := range []int{0, 1, 2, 3} {
		_, err = e.content(widgets).Delete(e.ctx, "x", fmt.Sprint("w", i), anyVersion)
		require.NoError(t, err)
	}
	e.release("x")
	_, err = viewer.View(e.ctx, target, 0, "")
	require.ErrorIs(t, err, deleter.ErrIncarnation)
}

// An inventory of an Active namespace goes through View.
func TestInventoryOfAnActiveNamespace(t *testing.T) {
	e := newEnv(t)
	n := e.create("x")
	o := e.put(widgets, "x", registry.Object{Meta: namespace.Meta{Name: "w", Finalizers: finalizer.NewSet("example.com/a")}})
	composed, err := e.Deleter(nil)
	require.NoError(t, err)
	for _, deleted := range []time.Time{{}, time.Now()} {
		if !deleted.IsZero() {
			e.terminate("x")
		}
		inventory, err := composed.Inventory(e.ctx, deleter.Target{Namespace: "x", UID: n.UID, DeletedAt: deleted})
		require.NoError(t, err)
		require.Equal(t, []deleter.Object{{Resource: widgets, Item: deleter.Item{Name: "w", UID: o.UID, Finalizers: []string{"example.com/a"}}}}, inventory.Objects)
	}
}

// In an Active namespace a removal passes the chain, so that counts stay exact. Elsewhere
// it does not (rule R12).
func TestRemovePassesAdmissionIfActive(t *testing.T) {
	var asked []string
	refuse := fmt.Errorf("not this one: %w", namespace.ErrNotFound)
	e := admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
		for _, o := range w.Objects {
			if o.Type.Resource != "widgets" || o.Verb == registry.Create {
				continue
			}
			text := fmt.Sprintf("%v %s", o.Verb, o.Old.Name)
			if o.New != nil {
				text += fmt.Sprintf(", %d finalizers left", o.New.Finalizers.Len())
			}
			asked = append(asked, text)
			if o.Old.Name == "kept" {
				return refuse
			}
		}
		return nil
	}))
	e.create("x")
	remove := func(o registry.Object, release ...finalizer.Name) bool {
		t.Helper()
		asked = nil
		gone, err := e.RemoveObject(e.ctx, widgets, "x", o.Name, o.UID, release)
		require.NoError(t, err)
		return gone
	}
	free := e.put(widgets, "x", object("free"))
	held := e.put(widgets, "x", object("held", "example.com/a", "example.com/b"))
	kept := e.put(widgets, "x", object("kept"))

	require.True(t, remove(free))
	require.Equal(t, []string{"DELETE free"}, asked)
	require.False(t, remove(held))
	require.Equal(t, []string{"DELETE held, 2 finalizers left"}, asked)
	require.False(t, remove(held))
	require.Empty(t, asked, "nothing is done")
	require.False(t, remove(held, "example.com/a"))
	require.Equal(t, []string{"DELETE held, 1 finalizers left"}, asked)
	require.True(t, remove(held, "example.com/b"))
	require.Equal(t, []string{"DELETE held"}, asked)
	gone, err := e.RemoveObject(e.ctx, widgets, "x", kept.Name, kept.UID, nil)
	require.ErrorIs(t, err, refuse)
	require.False(t, gone)
	asked = nil
	gone, err = e.RemoveObject(e.ctx, widgets, "x", kept.Name, "another", nil)
	require.NoError(t, err)
	require.True(t, gone)
	require.Empty(t, asked, "another object is none of the chain's business")

	e.terminate("x")
	require.True(t, remove(kept))
	require.Empty(t, asked)
}

// A removal without a gate requires that there is still none. Otherwise the quota of a
// namespace that was recreated meanwhile would count the object forever.
func TestRemoveWhileTheNamespaceIsRecreated(t *testing.T) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	s := &onceBefore{Store: m}
	e := admittedEnv(t, s, counting)
	e.create("x")
	o := e.put(widgets, "x", object("w"))
	e.terminate("x")
	e.release("x")
	s.do = func() {
		e.create("x")
		e.put(counters, "x", counter("c", 3))
		e.put(widgets, "x", object("v"))
		require.Equal(t, 1, e.requireCounted("x", 3))
	}
	gone, err := e.RemoveObject(e.ctx, widgets, "x", "w", o.UID, nil)
	require.NoError(t, err)
	require.True(t, gone)
	require.Nil(t, s.do, "it happened in between")
	require.Equal(t, 1, e.requireCounted("x", 3))
}

// onceBefore does something before the next commit.
type onceBefore struct {
	store.Store
	do func()
}

func (s *onceBefore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	return s.Store.Commit(ctx, txn)
}

// The README says how long values remain after the removal of their namespace: in the
// present not at all, in history and in files until it is compacted.
func TestValuesRemainInHistory(t *testing.T) {
	secret := []byte("correct horse battery staple")
	path := filepath.Join(t.TempDir(), "service.db")
	m, err := memory.New(nil)
	require.NoError(t, err)
	f, err := bolt.Open(path, nil)
	require.NoError(t, err)
	for name, s := range map[string]interface {
		store.Store
		store.Compactor
	}{"memory": m, "bolt": f} {
		t.Run(name, func(t *testing.T) {
			v := newVersion(t, s, documents)
			v.create("acme")
			before := now(t, s)
			o := v.put(documents.Name(), "acme", registry.Object{
				Meta:   namespace.Meta{Name: "d"},
				Fields: map[string]json.RawMessage{"data": must(json.Marshal(secret))},
			})
			value, err := s.Get(t.Context(), "/registry/documents.example.com/acme/d")
			require.NoError(t, err)
			written := now(t, s)
			v.terminate("acme")
			_, err = v.pass("acme")
			require.NoError(t, err)

			page, err := s.List(t.Context(), store.Query{})
			require.NoError(t, err)
			require.Len(t, page.Entries, 2, "the format and the type record")
			for change, err := range s.Watch(t.Context(), value.Key, before) {
				require.NoError(t, err)
				require.Equal(t, value.Value, change.Events[0].Value)
				break
			}
			page, err = s.List(t.Context(), store.Query{Prefix: value.Key, At: written})
			require.NoError(t, err)
			require.Equal(t, value.Value, page.Entries[0].Value)
			require.NotEmpty(t, o.UID)

			if s == store.Store(f) {
				file, err := os.ReadFile(path)
				require.NoError(t, err)
				require.True(t, bytes.Contains(file, must(json.Marshal(secret))))
			}
			require.NoError(t, s.Compact(t.Context(), now(t, s).Revision))
			_, err = s.List(t.Context(), store.Query{Prefix: value.Key, At: written})
			require.ErrorIs(t, err, store.ErrGone)
			for _, err := range s.Watch(t.Context(), value.Key, before) {
				require.ErrorIs(t, err, store.ErrGone)
			}
			require.NoError(t, s.Close())
		})
	}
}
