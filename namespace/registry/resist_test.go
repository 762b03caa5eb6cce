package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// What the store takes can also be deleted: a document grows when it is marked,
// and a namespace again by its conditions.
func TestR12_WhatIsCreatedCanBeDeleted(t *testing.T) {
	for _, limits := range []store.Limits{{Value: 4000}, {Bytes: 4000}, {Value: 5000, Bytes: 4000}, {Value: 4000, Bytes: 9000}} {
		s, err := memory.New(&memory.Options{Limits: limits})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		e := newEnvOver(t, s)
		w := e.content(widgets)
		refused := 0
		for size := 4000; !e.has("x"); size -= 20 {
			n := named("x")
			n.Annotations = map[string]string{"a": strings.Repeat("x", size)}
			if _, err := e.Create(e.ctx, n); err != nil {
				refused++
				requireRefused(t, err, "namespace", namespace.ErrInvalid)
				require.ErrorIs(t, err, store.ErrTooLarge)
			}
		}
		for size := 4000; !e.hasWidget("x", "a"); size-- {
			o := object("a", "example.com/f")
			o.Fields["data"] = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
			if _, err := w.Create(e.ctx, "x", o); err != nil {
				refused++
				requireRefused(t, err, "object", namespace.ErrInvalid)
				require.ErrorIs(t, err, store.ErrTooLarge)
			}
		}
		require.Greater(t, refused, 10)
		grown, err := w.Get(e.ctx, "x", "a")
		require.NoError(t, err)
		grown.Annotations = map[string]string{"more": "x"}
		_, err = w.Update(e.ctx, "x", grown)
		requireRefused(t, err, "an update", namespace.ErrInvalid)

		n := e.terminate("x")
		n.Status.Conditions = phase.Conditions(nil, phase.Observation{}, "", n.CreationTimestamp.Time)
		_, err = e.UpdateStatus(e.ctx, n)
		require.NoError(t, err)
		done, _, err := e.source().DeleteCollection(e.ctx, targetOf(n))
		require.NoError(t, err)
		require.Equal(t, 1, done)
		require.NoError(t, e.removeAll(e.ctx, "x"))
	}
}

// hotStore lets something happen before every commit that deletes a key.
type hotStore struct {
	store.Store
	before func(txn store.Txn)
}

func (s hotStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	for _, op := range txn.Do {
		if op.Delete {
			s.before(txn)
			break
		}
	}
	return s.Store.Commit(ctx, txn)
}

// An object that is changed all the time does not keep the others of its
// collection, nor itself once it is still for one commit.
func TestR10_HotObjectHoldsUpNoOther(t *testing.T) {
	for _, always := range []bool{false, true} {
		e := newEnv(t)
		e.create("x")
		for i := range 100 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		n := e.terminate("x")
		changes := 0
		touch := func(txn store.Txn) {
			if len(txn.Do) == 1 && (!always || !strings.HasSuffix(txn.Do[0].Key, "/o50")) {
				return
			}
			changes++
			o := object("o50")
			o.Labels = map[string]string{"a": fmt.Sprint(changes)}
			if _, err := e.content(widgets).Update(e.ctx, "x", o); !errors.Is(err, namespace.ErrNotFound) {
				require.NoError(t, err)
			}
		}
		done, _, err := newEnvOver(t, hotStore{e.store, touch}).source().DeleteCollection(e.ctx, targetOf(n))
		if !always {
			require.NoError(t, err)
			require.Equal(t, 100, done)
			continue
		}
		requireError(t, err, namespace.ErrConflict, `Operation cannot be fulfilled on widgets.example.com "o50": the object has been modified;`+
			` please apply your changes to the latest version and try again`)
		require.Equal(t, 99, done)
		require.Less(t, changes, 100, "it gives up on it")
		require.True(t, e.hasWidget("x", "o50"))
	}
}

// doubtfulStore does not carry out one commit, says that the outcome is unknown,
// and lets something happen.
type doubtfulStore struct {
	store.Store
	after   func()
	commits int
}

func (s *doubtfulStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if s.commits++; s.commits == 1 {
		s.after()
		return 0, store.ErrUnknownOutcome
	}
	return s.Store.Commit(ctx, txn)
}

// A fence that has moved settles what became of a commit in doubt: it was not made,
// and cannot be any more.
func TestR8_FenceSettlesADoubt(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(widgets, "x", object("a"))
	n := e.terminate("x")
	late := n
	late.Spec.Finalizers = late.Spec.Finalizers.With("example.com/late")
	s := &doubtfulStore{Store: e.store, after: func() {
		_, err := e.Finalize(e.ctx, late)
		require.NoError(t, err)
	}}
	require.NoError(t, newEnvOver(t, s).source().Delete(e.ctx, targetOf(n), "a", ""))
	require.False(t, e.hasWidget("x", "a"))
	require.Equal(t, 3, s.commits, "in doubt, refused, made")

	e.create("y")
	e.put(widgets, "y", object("a"))
	s = &doubtfulStore{Store: e.store, after: func() {
		require.NoError(t, e.removeAll(e.ctx, "y"))
		e.create("y")
		e.put(widgets, "y", object("a"))
	}}
	require.NoError(t, newEnvOver(t, s).source().Delete(e.ctx, targetOf(e.terminate("y")), "a", ""), "what was there is gone")
	require.True(t, e.hasWidget("y", "a"), "that of another incarnation")
	require.Equal(t, 1, s.commits)
}

// The token of one listing is none of another, which would begin in its midst.
func TestTokensOfOtherListings(t *testing.T) {
	e := newEnv(t)
	for _, ns := range []string{"a", "b"} {
		e.create(ns)
		for _, name := range []string{"o1", "o2"} {
			e.put(widgets, ns, object(name))
			e.put(configmaps, ns, object(name))
		}
	}
	w := e.content(widgets)
	spaces, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	all, err := w.List(e.ctx, "", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	one, err := w.List(e.ctx, "a", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	n := e.terminate("a")
	page, err := e.source().List(e.ctx, targetOf(n), 1, "")
	require.NoError(t, err)
	for _, token := range []string{spaces.Continue, all.Continue, one.Continue, page.Next, page.Seen} {
		require.NotEmpty(t, token)
		o := registry.ListOptions{Continue: token}
		if token != spaces.Continue {
			_, err = e.List(e.ctx, o)
			requireRefused(t, err, "namespaces", namespace.ErrBadRequest)
		}
		if token != all.Continue {
			_, err = w.List(e.ctx, "", o)
			requireRefused(t, err, "all", namespace.ErrBadRequest)
		}
		_, err = w.List(e.ctx, "b", o)
		requireRefused(t, err, "another namespace", namespace.ErrBadRequest)
		_, err = e.content(configmaps).List(e.ctx, "a", o)
		requireRefused(t, err, "another type", namespace.ErrBadRequest)
		requireRefused(t, last(e.Terminating(e.ctx, token)), "terminating", namespace.ErrBadRequest)
	}
	rest, err := w.List(e.ctx, "a", registry.ListOptions{Continue: one.Continue})
	require.NoError(t, err)
	require.Equal(t, []string{"o2"}, objectNames(rest))
}
