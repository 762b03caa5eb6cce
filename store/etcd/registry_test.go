package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/namespace/registry/upgradetest"
	"github.com/nslifecycle/nslifecycle/store"
)

// A registry over etcd keeps the promises that a controller relies on.
func TestRegistryConforms(t *testing.T) {
	server := theServer(t)
	controllertest.Run(t, func(t *testing.T) controllertest.Backend {
		s := openAt(t, newPrefix(), nil, server.URL)
		r, err := registry.New(s, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		return controllertest.Backend{
			Namespaces: r,
			Create:     r.Create,
			Delete: func(ctx context.Context, name string) error {
				_, err := r.Delete(ctx, name, namespace.Preconditions{})
				return err
			},
			Forget: func(ctx context.Context) error { return s.Compact(ctx, now(t, s).Revision) },
		}
	})
}

var configmaps = namespace.ResourceType{Name: "configmaps"}

func newRegistry(t testing.TB, s store.Store) *registry.Registry {
	r, err := registry.New(s, &registry.Options{
		Types: []registry.Type{{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Replicas create content in namespaces that other replicas terminate, empty, remove and recreate,
// while connections break. No commit breaks a rule, and nothing remains. The registry resolves
// writes with an unknown outcome.
func TestR6_OrphansOverBrokenConnections(t *testing.T) {
	const replicas, spaces, cycles = 3, 6, 15
	server := theServer(t)
	prefix := newPrefix()
	direct := openAt(t, prefix, nil, server.URL)
	g := newGate(t, server.URL)
	var registries []*registry.Registry
	for range replicas {
		registries = append(registries, newRegistry(t, openAt(t, prefix, quick(), g.url())))
	}
	start := now(t, direct)
	var created, refused, unresolved atomic.Int64
	stop := make(chan struct{})
	var creators, terminators, breaking sync.WaitGroup
	for i := range 2 * replicas {
		content, err := registries[i%replicas].Content(configmaps)
		require.NoError(t, err)
		creators.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				o := registry.Object{Fields: map[string]json.RawMessage{"data": json.RawMessage(`{}`)}}
				o.Meta.Name = fmt.Sprintf("o-%d-%d", i, n)
				switch _, err := content.Create(t.Context(), fmt.Sprint("n", n%spaces), o); {
				case err == nil:
					created.Add(1)
				case errors.Is(err, namespace.ErrUnknownOutcome):
					unresolved.Add(1)
				default:
					refused.Add(1)
				}
			}
		})
	}
	breaking.Go(func() {
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				g.breakAll()
			}
		}
	})
	for i := range spaces {
		terminators.Go(func() {
			for range cycles {
				life(t, registries[i%replicas], fmt.Sprint("n", i), &created)
			}
		})
	}
	terminators.Wait()
	close(stop)
	creators.Wait()
	breaking.Wait()
	t.Logf("%d created, %d refused, %d not known", created.Load(), refused.Load(), unresolved.Load())
	require.Positive(t, created.Load())
	require.Positive(t, refused.Load())
	require.NoError(t, registrytest.Check(t.Context(), direct, "registry"))
	require.NoError(t, registrytest.Audit(t.Context(), direct, "registry", start, now(t, direct).Revision))
	page, err := direct.List(t.Context(), store.Query{Prefix: "/registry/"})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2)
	require.Equal(t, "/registry/.format", page.Entries[0].Key)
	require.Equal(t, "/registry/.types/configmaps", page.Entries[1].Key)
}

// insist repeats a call that a broken connection can fail.
func insist(t *testing.T, what string, f func(context.Context) error) {
	for i := 0; ; i++ {
		err := f(t.Context())
		if err == nil {
			return
		}
		if i == 50 {
			t.Errorf("%s: %v", what, err)
			return
		}
	}
}

// life creates a namespace, waits until creators have used it, deletes it and completes the
// deletion.
func life(t *testing.T, r *registry.Registry, name string, created *atomic.Int64) {
	insist(t, "create "+name, func(ctx context.Context) error {
		ns := namespace.Namespace{Meta: namespace.Meta{Name: name}}
		if _, err := r.Create(ctx, ns); !errors.Is(err, namespace.ErrExists) {
			return err
		}
		return nil
	})
	for before, i := created.Load(), 0; created.Load() < before+10 && i < 1_000; i++ {
		_, _ = r.Get(t.Context(), name) // takes some time, in which creators create
	}
	var ns namespace.Namespace
	insist(t, "delete "+name, func(ctx context.Context) (err error) {
		ns, err = r.Delete(ctx, name, namespace.Preconditions{})
		return err
	})
	d, err := r.Deleter(nil)
	if err != nil {
		t.Error(err)
		return
	}
	target := deleter.Target{Namespace: name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}
	insist(t, "empty "+name, func(ctx context.Context) error {
		report, err := d.Delete(ctx, target, deleter.Report{})
		if err == nil && !report.Empty() {
			err = fmt.Errorf("%d objects are left", report.Remaining())
		}
		return err
	})
	insist(t, "finalize "+name, func(ctx context.Context) error {
		ns.Spec.Finalizers = finalizer.Set{}
		_, err := r.Finalize(ctx, ns)
		if errors.Is(err, namespace.ErrNotFound) {
			return nil
		}
		return err
	})
}

func TestR7_RollingUpgrade(t *testing.T) {
	url, prefix := theServer(t).URL, newPrefix()
	upgradetest.Run(t, upgradetest.Options{Open: func(ctx context.Context) (store.Store, error) { return Open(ctx, []string{url}, prefix, nil) }})
}
