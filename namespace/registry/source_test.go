package registry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The source of registry content passes the suite for sources.
func TestContent(t *testing.T) {
	contenttest.Run(t, func(t *testing.T) contenttest.Backend {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		place := &failingStore{Store: s}
		b := backend(newEnvOver(t, place))
		b.Fail = func(_ context.Context, failing bool) error {
			place.failing.Store(failing)
			return nil
		}
		return b
	})
}

// failingStore fails requests while failing is set.
type failingStore struct {
	store.Store
	failing atomic.Bool
}

func (s *failingStore) fail() error {
	if s.failing.Load() {
		return store.ErrUnavailable
	}
	return nil
}

func (s *failingStore) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := s.fail(); err != nil {
		return store.Entry{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *failingStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.fail(); err != nil {
		return store.Page{}, err
	}
	return s.Store.List(ctx, q)
}

func (s *failingStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := s.fail(); err != nil {
		return 0, err
	}
	return s.Store.Commit(ctx, txn)
}

func backend(e *env) contenttest.Backend {
	sources, err := e.Sources(widgets)
	require.NoError(e.t, err)
	seed := func(ctx context.Context, name string, objects ...contenttest.Object) (namespace.Namespace, error) {
		if err := e.removeAll(ctx, name); err != nil {
			return namespace.Namespace{}, err
		}
		n, err := e.Create(ctx, named(name))
		if err != nil {
			return n, err
		}
		for _, o := range objects {
			made := object(o.Name)
			for _, f := range o.Finalizers {
				made.Finalizers = made.Finalizers.With(finalizer.Name(f))
			}
			if _, err := e.content(widgets).Create(ctx, name, made); err != nil {
				return n, err
			}
		}
		return n, nil
	}
	return contenttest.Backend{
		Content: sources[0].Content,
		Seed: func(ctx context.Context, name string, objects ...contenttest.Object) (deleter.Target, error) {
			if _, err := seed(ctx, name, objects...); err != nil {
				return deleter.Target{}, err
			}
			n, err := e.Delete(ctx, name, anyVersion)
			return targetOf(n), err
		},
		SeedActive: func(ctx context.Context, name string, objects ...contenttest.Object) (deleter.Target, error) {
			n, err := seed(ctx, name, objects...)
			n.DeletionTimestamp.Time = time.Now()
			return targetOf(n), err
		},
		Names: func(ctx context.Context, target deleter.Target) ([]string, error) {
			list, err := e.content(widgets).List(ctx, target.Namespace, registry.ListOptions{})
			return objectNames(list), err
		},
		Release: func(ctx context.Context, target deleter.Target, name string) error {
			return e.releaseObject(ctx, target.Namespace, name)
		},
		UIDs: true, Collections: true, Notifies: true, Views: true,
	}
}

func (e *env) releaseObject(ctx context.Context, ns, name string) error {
	o, err := e.content(widgets).Get(ctx, ns, name)
	if err != nil {
		return err
	}
	o.Finalizers = finalizer.Set{}
	_, err = e.content(widgets).Update(ctx, ns, o)
	return err
}

// removeAll removes a namespace with all widgets in it, if it is there.
func (e *env) removeAll(ctx context.Context, name string) error {
	if _, err := e.Delete(ctx, name, anyVersion); errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	list, err := e.content(widgets).List(ctx, name, registry.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		if _, err := e.content(widgets).Delete(ctx, name, o.Name, anyVersion); err != nil {
			return err
		}
		if o.Finalizers.Len() > 0 {
			if err := e.releaseObject(ctx, name, o.Name); err != nil {
				return err
			}
		}
	}
	_, err = e.Finalize(ctx, named(name))
	return err
}

func TestSources(t *testing.T) {
	e := newEnv(t)
	all, err := e.Sources()
	require.NoError(t, err)
	require.Len(t, all, 2, "the cluster-scoped type is no content of namespaces")
	require.Equal(t, configmaps, all[0].Resource)
	require.Equal(t, widgets, all[1].Resource)
	require.True(t, all[0].Final, "rule R6 holds for content of a registry")
	_, err = e.Sources(nodes)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = e.Sources(namespace.ResourceType{Name: "unknown"})
	require.ErrorIs(t, err, namespace.ErrNotFound)
}

// A finalizer that is added to a terminating namespace rewrites the termination entry;
// the pass of the same incarnation goes on all the same.
func TestR8_FenceFollowsItsIncarnation(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(widgets, "x", object("a"))
	n := e.terminate("x")
	_, err := e.Finalize(e.ctx, named("x", finalizer.Kubernetes, "example.com/late"))
	require.NoError(t, err)
	sources, err := e.Sources(widgets)
	require.NoError(t, err)
	deleted, more, err := sources[0].Content.(deleter.CollectionDeleter).DeleteCollection(e.ctx, targetOf(n))
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.False(t, more)
	e.release("x")
}

// A waiter that listed before something went is woken, whether it waits already or
// not; other namespaces do not wake it.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		for _, name := range []string{"x", "y"} {
			e.create(name)
			e.put(widgets, name, object("held", "example.com/f"))
		}
		n := e.terminate("x")
		e.terminate("y")
		sources, err := e.Sources(widgets)
		require.NoError(t, err)
		source := sources[0].Content.(interface {
			deleter.Content
			deleter.Notifier
			deleter.CollectionDeleter
		})
		_, _, err = source.DeleteCollection(e.ctx, targetOf(n))
		require.NoError(t, err)
		page, err := source.List(e.ctx, targetOf(n), 0, "")
		require.NoError(t, err)
		require.Equal(t, []string{"example.com/f"}, page.Items[0].Finalizers)
		require.True(t, page.Items[0].Deleting)

		woken := make(chan error, 1)
		go func() { woken <- source.Wait(e.ctx, targetOf(n), page.Seen) }()
		synctest.Wait()
		require.NoError(t, e.removeAll(e.ctx, "y"))
		synctest.Wait()
		require.Empty(t, woken, "nothing has gone from x")
		require.NoError(t, e.releaseObject(e.ctx, "x", "held"))
		require.NoError(t, <-woken)
		require.NoError(t, source.Wait(e.ctx, targetOf(n), page.Seen), "it went before the call")

		page, err = source.List(e.ctx, targetOf(n), 0, "")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
		defer cancel()
		require.ErrorIs(t, source.Wait(ctx, targetOf(n), page.Seen), context.DeadlineExceeded)
		e.release("x")
		require.ErrorIs(t, source.Wait(e.ctx, targetOf(n), page.Seen), deleter.ErrIncarnation)
	})
}

// The namespace may be removed and made again between the look at it and the listing of
// the first page: that is of the moment of the look.
func TestR8_ViewAndItsNamespaceAreOfOneMoment(t *testing.T) {
	inner, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, inner.Close()) })
	behind := newEnvOver(t, inner)
	n := behind.create("x")
	behind.put(widgets, "x", object("old"))
	behind.terminate("x")
	between := &betweenLists{Store: inner, do: func() {
		require.NoError(t, behind.removeAll(behind.ctx, "x"))
		behind.create("x")
		behind.put(widgets, "x", object("new"))
	}}
	e := newEnvOver(t, between)
	sources, err := e.Sources(widgets)
	require.NoError(t, err)
	page, err := sources[0].Content.(deleter.Viewer).View(e.ctx, deleter.Target{Namespace: "x", UID: n.UID}, 0, "")
	require.NoError(t, err)
	require.Equal(t, 2, between.lists)
	require.Len(t, page.Items, 1)
	require.Equal(t, "old", page.Items[0].Name)
}

// betweenLists does something before the second listing.
type betweenLists struct {
	store.Store
	lists int
	do    func()
}

func (b *betweenLists) List(ctx context.Context, q store.Query) (store.Page, error) {
	if b.lists++; b.lists == 2 {
		b.do()
	}
	return b.Store.List(ctx, q)
}
