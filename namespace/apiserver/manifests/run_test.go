package manifests_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// Syncs come at regular intervals. While the source fails, the intervals grow.
func TestRunIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t).space()
		src := fixedOf(configmap("a", "1"))
		ctx, cancel := context.WithCancel(e.ctx)
		ended := make(chan error, 1)
		s := e.syncer(src, &manifests.Options{Interval: 10 * time.Second, MaxInterval: time.Minute})
		began := time.Now()
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(25 * time.Second) // syncs at 0, 10, 20
		src.set(errors.New("broken"))
		time.Sleep(3 * time.Minute) // at 30, 40, 60, 100, 160
		src.set(nil, "a: [")
		time.Sleep(40 * time.Second) // at 220, 230, 240: an invalid file does not lengthen the interval
		cancel()
		require.NoError(t, <-ended)
		var at []string
		for _, read := range src.reads {
			at = append(at, read.Sub(began).String())
		}
		require.Equal(t, "0s 10s 20s 30s 40s 1m0s 1m40s 2m40s 3m40s 3m50s 4m0s", strings.Join(at, " "))
	})
}

// run starts a controller that deletes the registry's content.
func (e *env) controller(ctx context.Context) <-chan error {
	e.t.Helper()
	d, err := e.Deleter(nil)
	require.NoError(e.t, err)
	c, err := controller.New(e.Registry, d, namespace.Party{Finalizer: finalizer.Kubernetes}, nil)
	require.NoError(e.t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return ended
}

// R6, R12: while a source runs, the deletion of its namespace finishes without orphans. The source
// does not create the namespace again. When another client does, the source fills it.
func TestR6_TerminationEndsWithoutOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		src := fixedOf()
		var texts []string
		for i := range 50 {
			texts = append(texts, configmap(fmt.Sprint("c", i), "1"))
		}
		src.set(nil, docs(texts...))
		ctx, cancel := context.WithCancel(e.ctx)
		controlled := e.controller(ctx)
		var last manifests.Result
		ended := make(chan error, 1)
		s := e.syncer(src, &manifests.Options{CreateNamespace: true, Interval: 100 * time.Millisecond, Synced: func(r manifests.Result, err error) {
			last = r
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}})
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, e.all(), 50)
		first, err := e.Get(e.ctx, space)
		require.NoError(t, err)

		for range 3 {
			_, err = e.Delete(e.ctx, space, namespace.Preconditions{})
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			_, err = e.Get(e.ctx, space)
			require.ErrorIs(t, err, namespace.ErrNotFound, "the source does not create the namespace again")
			require.Empty(t, e.all())
			require.Empty(t, cmp.Diff(manifests.Result{Waiting: true}, last))
			again, err := e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
			require.NoError(t, err)
			require.NotEqual(t, first.UID, again.UID)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, e.all(), 50)
			require.Empty(t, cmp.Diff(manifests.Result{Unchanged: 50}, last))
		}
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, <-controlled)
		require.NoError(t, registrytest.Audit(t.Context(), e.store, "registry", e.start, e.position().Revision))
	})
}

// If the namespace is deleted during a sync, the sync reports Waiting for every kind of write.
func TestDeletedMeanwhile(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf(docs(configmap("a", "1"), configmap("b", "1")))
	s := e.syncer(hooked{src, func() {
		_, err := e.Delete(e.ctx, space, namespace.Preconditions{})
		require.NoError(t, err)
	}}, &manifests.Options{CreateNamespace: true})
	require.Empty(t, cmp.Diff(manifests.Result{Waiting: true}, e.sync(s)))
	require.Empty(t, e.all())
	_, err := e.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)

	// The source does not write objects that are being deleted with their namespace.
	e.space()
	s = e.syncer(src, nil)
	e.sync(s)
	_, err = e.Delete(e.ctx, space, namespace.Preconditions{})
	require.NoError(t, err)
	src.set(nil, configmap("a", "2"))
	before := e.position()
	require.Empty(t, cmp.Diff(manifests.Result{Waiting: true}, e.sync(s)))
	require.Equal(t, before, e.position())
	for _, name := range []string{"a", "b"} {
		_, err = e.content(configmaps).Delete(e.ctx, space, name, namespace.Preconditions{})
		require.NoError(t, err)
	}
	_, err = e.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)

	s = e.syncer(hooked{src, func() {}}, nil)
	require.Empty(t, cmp.Diff(manifests.Result{Waiting: true}, e.sync(s)), "the namespace is missing")

	// The namespace is removed between the first read and the first write.
	e.space()
	s = e.syncer(hooked{src, func() {
		_, err := e.Delete(e.ctx, space, namespace.Preconditions{})
		require.NoError(t, err)
		_, err = e.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
		require.NoError(t, err)
	}}, nil)
	require.Empty(t, cmp.Diff(manifests.Result{Waiting: true}, e.sync(s)))
	_, err = e.Get(e.ctx, space)
	require.ErrorIs(t, err, namespace.ErrNotFound)
}

// hooked is a source that calls a function in Read.
type hooked struct {
	manifests.Source
	hook func()
}

func (h hooked) Read(ctx context.Context) ([]manifests.File, error) {
	h.hook()
	return h.Source.Read(ctx)
}

// The Syncer creates the namespace only with CreateNamespace, after the source was read, and if it
// has not seen the namespace before.
func TestCreateNamespace(t *testing.T) {
	e := newEnv(t)
	src := fixedOf(configmap("a", "1"))
	require.Empty(t, cmp.Diff(manifests.Result{Waiting: true}, e.sync(e.syncer(src, nil))))
	s := e.syncer(src, &manifests.Options{CreateNamespace: true})
	src.set(errors.New("broken"))
	_, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
	_, err = e.Get(e.ctx, space)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	src.set(nil, configmap("a", "1"))
	require.Empty(t, cmp.Diff(manifests.Result{Created: 1}, e.sync(s)))
}

// With a store that fails and loses answers, the objects converge to the documents.
func TestPropertyConverges(t *testing.T) {
	for range 4 {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			e := newEnv(t).space()
			plan, err := storetest.Seeded(seed, storetest.Rates{Conflict: 0.1, Lost: 0.1, Landed: 0.1, Fail: 0.03})
			require.NoError(t, err)
			faulty, err := storetest.Inject(e.store, plan)
			require.NoError(t, err)
			r, err := registry.New(faulty, &registry.Options{Types: types})
			require.NoError(t, err)
			src := fixedOf()
			s, err := manifests.New(r, space, src, nil)
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(seed, 1))
			want := []string{}
			for range 60 {
				var texts []string
				want = want[:0]
				for i := range 8 {
					if v := random.IntN(3); v > 0 {
						texts = append(texts, configmap(fmt.Sprint("c", i), fmt.Sprint(v)))
						want = append(want, fmt.Sprintf(`configmaps/c%d {"v":"%d"}`, i, v))
					}
				}
				src.set(nil, texts...)
				_, _ = s.Sync(e.ctx)
			}
			e.sync(e.syncer(src, nil)) // without faults
			require.Empty(t, cmp.Diff(want, e.all()))
			require.NotZero(t, faulty.Injected()[storetest.Landed])
			require.NoError(t, r.Close())
		})
	}
}

func TestBadInput(t *testing.T) {
	e := newEnv(t)
	src := fixedOf()
	for name, make := range map[string]func() (*manifests.Syncer, error){
		"no id":         func() (*manifests.Syncer, error) { return manifests.New(e.Registry, "", src, nil) },
		"an id no name": func() (*manifests.Syncer, error) { return manifests.New(e.Registry, "../x", src, nil) },
		"invalid UTF-8": func() (*manifests.Syncer, error) { return manifests.New(e.Registry, "\xff", src, nil) },
		"interval": func() (*manifests.Syncer, error) {
			return manifests.New(e.Registry, space, src, &manifests.Options{Interval: -1})
		},
		"max interval": func() (*manifests.Syncer, error) {
			return manifests.New(e.Registry, space, src, &manifests.Options{MaxInterval: -1})
		},
		"less than that": func() (*manifests.Syncer, error) {
			return manifests.New(e.Registry, space, src, &manifests.Options{MaxInterval: 1})
		},
		"max objects": func() (*manifests.Syncer, error) {
			return manifests.New(e.Registry, space, src, &manifests.Options{MaxObjects: -1})
		},
		"long name": func() (*manifests.Syncer, error) {
			return manifests.New(e.Registry, space, src, &manifests.Options{Name: strings.Repeat("x", 2000)})
		},
		"name no text": func() (*manifests.Syncer, error) {
			return manifests.New(e.Registry, space, src, &manifests.Options{Name: "\xff"})
		},
	} {
		_, err := make()
		require.Error(t, err, name)
	}
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	s := e.syncer(src, &manifests.Options{MaxObjects: 1, CreateNamespace: true})
	_, err := s.Sync(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Run(ended))
	src.set(nil, configmap("a", "1"), configmap("b", "1"))
	_, err = s.Sync(e.ctx)
	require.ErrorContains(t, err, "there are more than 1 objects")
	src.set(nil, docs(configmap("a", "1"), configmap("b", "1")))
	_, err = s.Sync(e.ctx)
	require.ErrorContains(t, err, "there are more than 1 objects")
	require.Empty(t, e.all())
}

// FuzzDecode checks that a malformed document causes a problem only, and that a second sync of a valid
// one writes nothing.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(configmap("a", "1")))
	f.Add([]byte(docs(configmap("a", "1"), configmap("b", "1"))))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}`))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("--- \n---"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"binaryData":{"b":"AQ=="},"immutable":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, list := range [][]kinds.Kind{nil, {kinds.ConfigMaps()}} {
			o := &manifests.Options{Kinds: list}
			e := newEnv(t).space()
			src := &fixed{files: []manifests.File{{Name: "f", Data: data}}}
			s := e.syncer(src, o)
			result, err := s.Sync(e.ctx)
			if err != nil {
				var problem *manifests.Problem
				if !errors.As(err, &problem) {
					t.Fatal(err)
				}
			}
			for _, again := range []*manifests.Syncer{s, e.syncer(src, o)} {
				second, _ := again.Sync(e.ctx)
				if second.Writes() != 0 || second.Unchanged != result.Created {
					t.Fatalf("first %+v, then %+v", result, second)
				}
			}
		}
	})
}
