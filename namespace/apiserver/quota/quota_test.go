package quota_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func TestCounts(t *testing.T) {
	e := newEnv(t)
	start := revisionZero(t, e)
	e.limit("a", "count/widgets.example.com", "2", "configmaps", "1", "count/configmaps", "5")
	require.Equal(t, `{"hard":{"configmaps":"1","count/configmaps":"5","count/widgets.example.com":"2"}}`, e.status("a"))
	require.NoError(t, e.create(configmaps, named("c1")))
	require.Equal(t, `{"hard":{"configmaps":"1","count/configmaps":"5","count/widgets.example.com":"2"},`+
		`"used":{"configmaps":"1","count/configmaps":"1","count/widgets.example.com":"0"}}`, e.status("a"))
	requireError(t, e.create(configmaps, named("c2")), namespace.ErrForbidden,
		`configmaps "c2" is forbidden: exceeded quota: a, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`)
	require.NoError(t, e.create(widgets, named("w1")))
	require.NoError(t, e.create(widgets, named("w2")))
	requireError(t, e.create(widgets, named("w3")), namespace.ErrForbidden,
		`widgets.example.com "w3" is forbidden: exceeded quota: a, requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: count/widgets.example.com=2`)
	require.NoError(t, e.remove(widgets, "w1"))
	require.NoError(t, e.create(widgets, named("w3")))
	require.NoError(t, e.remove(configmaps, "c1"))
	require.Contains(t, e.status("a"), `"used":{"configmaps":"0","count/configmaps":"0","count/widgets.example.com":"2"}`)
	require.NotZero(t, audit(t, e.store, start))
}

func TestSums(t *testing.T) {
	e := newEnv(t)
	start := revisionZero(t, e)
	e.limit("a", "example.com/size", "10Gi", "requests.cpu", "2")
	require.NoError(t, e.create(widgets, widget("w1", `{"size":"4Gi","parts":[{"cpu":"500m"},{"cpu":0.5},{}]}`)))
	require.Contains(t, e.status("a"), `"used":{"example.com/size":"4Gi","requests.cpu":"1"}`)
	requireError(t, e.create(widgets, widget("w2", `{"size":"7Gi","parts":[{"cpu":"1001m"}]}`)), namespace.ErrForbidden,
		`widgets.example.com "w2" is forbidden: exceeded quota: a, requested: example.com/size=7Gi,requests.cpu=1001m, used: example.com/size=4Gi,requests.cpu=1, limited: example.com/size=10Gi,requests.cpu=2`)
	require.NoError(t, e.create(widgets, widget("w2", `{"size":"6Gi"}`)))
	_, err := e.content(widgets).Update(e.ctx, space, widget("w1", `{"size":"4097Mi"}`))
	requireError(t, err, namespace.ErrForbidden,
		`widgets.example.com "w1" is forbidden: exceeded quota: a, requested: example.com/size=1Mi, used: example.com/size=10Gi, limited: example.com/size=10Gi`)
	_, err = e.content(widgets).Update(e.ctx, space, widget("w1", `{"size":"1Gi","parts":[{"cpu":"2"}]}`))
	require.NoError(t, err)
	require.Contains(t, e.status("a"), `"used":{"example.com/size":"7Gi","requests.cpu":"2"}`)
	require.NoError(t, e.create(configmaps, named("c")), "not limited")
	require.NotZero(t, audit(t, e.store, start))
}

// All quotas apply. The refusal names the first exceeded quota, and charges none.
func TestSeveralQuotas(t *testing.T) {
	e := newEnv(t)
	start := revisionZero(t, e)
	e.limit("b", "count/widgets.example.com", "1")
	e.limit("a", "count/widgets.example.com", "3", "example.com/size", "5")
	e.limit("c", "configmaps", "1")
	require.NoError(t, e.create(widgets, widget("w1", `{"size":"2"}`)))
	requireError(t, e.create(widgets, widget("w2", `{"size":4}`)), namespace.ErrForbidden,
		`widgets.example.com "w2" is forbidden: exceeded quota: a, requested: example.com/size=4, used: example.com/size=2, limited: example.com/size=5`)
	requireError(t, e.create(widgets, widget("w2", `{"size":1}`)), namespace.ErrForbidden,
		`widgets.example.com "w2" is forbidden: exceeded quota: b, requested: count/widgets.example.com=1, used: count/widgets.example.com=1, limited: count/widgets.example.com=1`)
	require.Contains(t, e.status("a"), `"used":{"count/widgets.example.com":"1","example.com/size":"2"}`)
	require.NotContains(t, e.status("c"), "used", "no write needed the figure")
	require.NotZero(t, audit(t, e.store, start))
}

// A quota below the used figure refuses increases only.
func TestLowered(t *testing.T) {
	e := newEnv(t)
	start := revisionZero(t, e)
	e.limit("a", "example.com/size", "10")
	require.NoError(t, e.create(widgets, widget("w1", `{"size":6}`)))
	_, err := e.content(quota.Resource).Update(e.ctx, space, limits("a", "example.com/size", "2", "configmaps", "1"))
	require.NoError(t, err)
	require.Equal(t, `{"hard":{"configmaps":"1","example.com/size":"2"},"used":{"example.com/size":"6"}}`, e.status("a"))
	_, err = e.content(widgets).Update(e.ctx, space, widget("w1", `{"size":5}`))
	require.NoError(t, err, "a decrease is always allowed")
	_, err = e.content(widgets).Update(e.ctx, space, widget("w1", `{"size":5,"label":"x"}`))
	require.NoError(t, err, "an unchanged figure is always allowed")
	require.Error(t, e.create(widgets, widget("w2", `{"size":1}`)))
	require.NoError(t, e.create(widgets, widget("w2", `{"size":0}`)))
	require.NoError(t, e.remove(widgets, "w1"))
	_, err = e.content(quota.Resource).Update(e.ctx, space, limits("a", "configmaps", "1"))
	require.NoError(t, err)
	require.NotContains(t, e.status("a"), "size")
	require.NotZero(t, audit(t, e.store, start))
}

// Objects marked for deletion count until they are removed.
func TestDeletion(t *testing.T) {
	e := newEnv(t)
	start := revisionZero(t, e)
	e.limit("a", "count/widgets.example.com", "3")
	require.NoError(t, e.create(widgets, named("w1", "example.com/held")))
	require.NoError(t, e.create(widgets, named("w2")))
	require.NoError(t, e.create(widgets, named("w3")))
	require.NoError(t, e.remove(widgets, "w1"))
	require.Contains(t, e.status("a"), `"used":{"count/widgets.example.com":"3"}`)
	require.Error(t, e.create(widgets, named("w4")))
	did, err := e.content(widgets).DeleteCollection(e.ctx, space, selector.Labels{}, selector.Fields{})
	require.NoError(t, err)
	require.Equal(t, 2, did.Deleted)
	require.Contains(t, e.status("a"), `"used":{"count/widgets.example.com":"1"}`)
	_, err = e.content(widgets).Update(e.ctx, space, named("w1"))
	require.NoError(t, err, "removing the last finalizer removes the object")
	require.Contains(t, e.status("a"), `"used":{"count/widgets.example.com":"0"}`)
	require.NotZero(t, audit(t, e.store, start))
}

// Each batch of a large collection deletion subtracts its objects in its own commit, even if the
// store limits the operations of a commit.
func TestLargeCollection(t *testing.T) {
	for _, operations := range []int{0, 5, 7} {
		s, err := memory.New(&memory.Options{Limits: store.Limits{Operations: operations}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		start := revision(t, s)
		e := newEnvOver(t, s)
		e.limit("a", "count/widgets.example.com", "1k", "example.com/size", "1M")
		e.limit("b", "count/widgets.example.com", "1k")
		for i := range 60 {
			require.NoError(t, e.create(widgets, widget(fmt.Sprint("w", i), `{"size":2}`)))
		}
		did, err := e.content(widgets).DeleteCollection(e.ctx, space, selector.Labels{}, selector.Fields{})
		require.NoError(t, err, operations)
		require.Equal(t, 60, did.Deleted)
		require.Contains(t, e.status("a"), `"used":{"count/widgets.example.com":"0","example.com/size":"0"}`)
		require.NotZero(t, audit(t, s, start))
	}
}

// A quota may limit quotas, including itself.
func TestQuotaOfQuotas(t *testing.T) {
	e := newEnv(t)
	start := revisionZero(t, e)
	e.limit("a", "resourcequotas", "2")
	require.NoError(t, e.create(quota.Resource, limits("b", "configmaps", "1")))
	require.Contains(t, e.status("a"), `"used":{"resourcequotas":"2"}`)
	requireError(t, e.create(quota.Resource, limits("c", "configmaps", "1")), namespace.ErrForbidden,
		`resourcequotas "c" is forbidden: exceeded quota: a, requested: resourcequotas=1, used: resourcequotas=2, limited: resourcequotas=2`)
	_, err := e.content(quota.Resource).Update(e.ctx, space, limits("a", "resourcequotas", "3"))
	require.NoError(t, err)
	require.NoError(t, e.create(quota.Resource, named("held", "example.com/held")))
	require.NoError(t, e.remove(quota.Resource, "b"))
	require.Contains(t, e.status("a"), `"used":{"resourcequotas":"2"}`)
	did, err := e.content(quota.Resource).DeleteCollection(e.ctx, space, selector.Labels{}, selector.Fields{})
	require.NoError(t, err)
	require.Equal(t, registry.Deletion{Deleted: 1, Marked: 1}, did)
	require.NotZero(t, audit(t, e.store, start))
}

// A quota that is being deleted limits nothing.
func TestDyingQuota(t *testing.T) {
	e := newEnv(t)
	_, err := e.content(quota.Resource).Create(e.ctx, space, func() registry.Object {
		o := limits("a", "configmaps", "0")
		o.Finalizers = named("", "example.com/held").Finalizers
		return o
	}())
	require.NoError(t, err)
	require.Error(t, e.create(configmaps, named("c")))
	require.NoError(t, e.remove(quota.Resource, "a"))
	require.NoError(t, e.create(configmaps, named("c")))
	require.NoError(t, e.remove(configmaps, "c"))
	_, err = e.content(quota.Resource).Update(e.ctx, space, named("a"))
	require.NoError(t, err)
}

// Of 256 creations by 64 writers against a limit of 100, exactly 100 succeed. The figures are
// correct at every revision.
func TestExactUnderConcurrency(t *testing.T) {
	const writers, each, hard = 64, 4, 100
	s := newMemory(t)
	start := revision(t, s)
	envs := []*env{newEnvOver(t, s), openOver(t, s, true)} // two registries over one store
	envs[0].limit("a", "count/widgets.example.com", fmt.Sprint(hard), "example.com/size", "1k")
	var made, refused atomic.Int64
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for j := range each {
				err := envs[i%2].create(widgets, widget(fmt.Sprintf("w-%d-%d", i, j), `{"size":2}`))
				switch {
				case err == nil:
					made.Add(1)
				case errors.Is(err, namespace.ErrForbidden):
					refused.Add(1)
				default:
					t.Errorf("neither created nor refused: %v", err)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, hard, made.Load())
	require.EqualValues(t, writers*each-hard, refused.Load())
	require.Contains(t, envs[0].status("a"), `"used":{"count/widgets.example.com":"100","example.com/size":"200"}`)
	require.GreaterOrEqual(t, audit(t, s, start), hard)
}

// A quota that is created during writes counts all existing objects and all later writes.
func TestCreatedInTheMiddle(t *testing.T) {
	const writers, each, rounds = 8, 40, 5
	e := newEnv(t)
	start := revisionZero(t, e)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for j := range each {
				name := fmt.Sprintf("c-%d-%d", i, j)
				if err := e.create(configmaps, named(name)); err != nil && !errors.Is(err, namespace.ErrForbidden) {
					t.Error(err)
				} else if err == nil && j%3 == 0 {
					if err := e.remove(configmaps, name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for round := range rounds {
		o := limits("q", "configmaps", fmt.Sprint(60+round))
		if err := e.create(quota.Resource, o); err != nil {
			t.Error(err)
		}
		_, err := e.content(quota.Resource).Update(e.ctx, space, limits("q", "configmaps", "70", "count/configmaps", "1k"))
		if err != nil {
			t.Error(err)
		}
		if round < rounds-1 {
			if err := e.remove(quota.Resource, "q"); err != nil {
				t.Error(err)
			}
		}
	}
	group.Wait()
	_, err := quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.NotZero(t, audit(t, e.store, start))
	left, err := quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, left)
}

// revisionZero returns the position before all history.
func revisionZero(t testing.TB, e *env) store.Position {
	t.Helper()
	p := revision(t, e.store)
	p.Revision = 0
	return p
}
