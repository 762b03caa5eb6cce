package quota_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
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

// All quotas must hold; the first by name is the one that is reported, and none is
// charged.
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
	require.NotContains(t, e.status("c"), "used", "nobody needed it")
	require.NotZero(t, audit(t, e.store, start))
}

// A quota that is lowered below what is used forbids more, and nothing else.
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
	require.NoError(t, err, "what changes nothing is too")
	require.Error(t, e.create(widgets, widget("w2", `{"size":1}`)))
	require.NoError(t, e.create(widgets, widget("w2", `{"size":0}`)))
	require.NoError(t, e.remove(widgets, "w1"))
	_, err = e.content(quota.Resource).Update(e.ctx, space, limits("a", "configmaps", "1"))
	require.NoError(t, err)
	require.NotContains(t, e.status("a"), "size")
	require.NotZero(t, audit(t, e.store, start))
}

// What is marked for deletion counts until it goes, in whatever way it goes.
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
	require.NoError(t, err, "without its finalizer it goes")
	require.Contains(t, e.status("a"), `"used":{"count/widgets.example.com":"0"}`)
	require.NotZero(t, audit(t, e.store, start))
}

// A large collection goes in batches; each takes what it deletes off in its own
// commit, also where the store takes few operations at once.
func TestLargeCollection(t *testing.T) {
	for _, operations := range []int{0, 4, 7} {
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

// A quota may limit quotas, itself too.
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

// A quota that is being deleted limits nothing, and holds nothing up.
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

// The status is the server's alone.
func TestStatusIsTheServers(t *testing.T) {
	e := newEnv(t)
	forged := json.RawMessage(`{"hard":{"configmaps":"100"},"used":{"configmaps":"0"}}`)
	o := limits("a", "configmaps", "1")
	o.Fields["status"] = forged
	_, err := e.content(quota.Resource).Create(e.ctx, space, o)
	require.NoError(t, err)
	require.NoError(t, e.create(configmaps, named("c")))
	want := `{"hard":{"configmaps":"1"},"used":{"configmaps":"1"}}`
	_, err = e.content(quota.Resource).Update(e.ctx, space, o)
	require.NoError(t, err)
	require.Equal(t, want, e.status("a"))
	_, err = e.content(quota.Resource).UpdateStatus(e.ctx, space, o)
	require.NoError(t, err)
	require.Equal(t, want, e.status("a"))
	requireError(t, e.create(configmaps, named("d")), namespace.ErrForbidden,
		`configmaps "d" is forbidden: exceeded quota: a, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`)
}

func TestDryRunChangesNothing(t *testing.T) {
	e := newEnv(t)
	e.limit("a", "configmaps", "1")
	before := revision(t, e.store)
	dry, err := e.DryRun().Content(configmaps)
	require.NoError(t, err)
	for range 3 {
		_, err = dry.Create(e.ctx, space, named("c"))
		require.NoError(t, err)
	}
	_, err = quota.Recount(e.ctx, e.DryRun(), space)
	require.NoError(t, err)
	require.Equal(t, before, revision(t, e.store))
	require.NoError(t, e.create(configmaps, named("c")))
	_, err = dry.Create(e.ctx, space, named("d"))
	require.ErrorIs(t, err, namespace.ErrForbidden)
	dryQuotas, err := e.DryRun().Content(quota.Resource)
	require.NoError(t, err)
	_, err = dryQuotas.Create(e.ctx, space, limits("b", "configmaps", "-1"))
	require.ErrorIs(t, err, namespace.ErrInvalid)
}

// 64 writers against a limit of 100: exactly 100 succeed, and at no revision is
// there another number than the quota says.
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
					t.Errorf("neither made nor refused: %v", err)
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

// A quota that comes in the middle counts all that is there by then, and from then
// on nothing slips through that was looked at before.
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

func TestRecount(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	e.limit("a", "configmaps", "2", "example.com/size", "10")
	e.limit("b", "count/configmaps", "9")
	e.limit("c")
	require.NoError(t, e.create(configmaps, named("c1")))
	past := openOver(t, s, false)
	require.NoError(t, past.create(configmaps, named("c2")))
	require.NoError(t, past.create(widgets, widget("w", `{"size":"3"}`)))
	require.NoError(t, past.create(widgets, widget("strange", `{"size":{}}`)))

	_, err := quota.Recount(e.ctx, past.Registry, space)
	require.ErrorIs(t, err, quota.ErrNotInstalled)
	want := []quota.Change{
		{Quota: "a", Name: "configmaps", Was: "1", Is: "2"},
		{Quota: "a", Name: "example.com/size", Was: "0", Is: "3"},
		{Quota: "b", Name: "count/configmaps", Was: "1", Is: "2"},
	}
	changes, err := quota.Recount(e.ctx, e.DryRun(), space)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, changes))
	changes, err = quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, changes))
	require.Equal(t, "a: configmaps was 1, is 2", changes[0].String())
	require.Equal(t, "a: x counted: 0", quota.Change{Quota: "a", Name: "x", Is: "0"}.String())
	before := revision(t, s)
	changes, err = quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, changes)
	require.Equal(t, before, revision(t, s))

	// A figure that would come below zero cannot be right: it is counted then.
	require.NoError(t, past.remove(configmaps, "c1"))
	require.NoError(t, past.remove(configmaps, "c2"))
	for i := range 5 {
		require.NoError(t, past.create(configmaps, named(fmt.Sprint("d", i))))
	}
	for i := range 3 {
		require.NoError(t, e.remove(configmaps, fmt.Sprint("d", i)))
	}
	require.Contains(t, e.status("a"), `"used":{"configmaps":"2",`)
}

// A recount changes nothing but figures, whatever somebody makes of the quota meanwhile.
func TestRecountKeepsTheRest(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	e.limit("a", "configmaps", "2")
	changed := false
	faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "get" && a.Key == "/registry/resourcequotas/acme/a" && !changed {
			changed = true
			o := limits("a", "count/configmaps", "7")
			o.Labels = map[string]string{"a": "b"}
			_, err := e.content(quota.Resource).Update(e.ctx, space, o)
			require.NoError(t, err)
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	changes, err := quota.Recount(e.ctx, openOver(t, faulty, true).Registry, space)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, []quota.Change{{Quota: "a", Name: "count/configmaps", Is: "0"}}, changes)
	o, err := e.content(quota.Resource).Get(e.ctx, space, "a")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b"}, o.Labels)
	require.Equal(t, `{"hard":{"count/configmaps":"7"}}`, string(o.Fields["spec"]))
}

// Nor does a recount take a finalizer away that has come since.
func TestRecountKeepsFinalizers(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	e.limit("a", "configmaps", "2")
	changed := false
	faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "get" && a.Key == "/registry/resourcequotas/acme/a" && !changed {
			changed = true
			o := limits("a", "configmaps", "2")
			o.Finalizers = named("", "example.com/held").Finalizers
			_, err := e.content(quota.Resource).Update(e.ctx, space, o)
			require.NoError(t, err)
			require.NoError(t, e.remove(quota.Resource, "a"))
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	changes, err := quota.Recount(e.ctx, openOver(t, faulty, true).Registry, space)
	require.NoError(t, err)
	require.True(t, changed)
	require.Empty(t, changes)
	require.Equal(t, `{"hard":{"configmaps":"2"}}`, e.status("a"), "it is still there")
}

// Figures that cannot be right are counted anew, whoever wrote them.
func TestImpossibleFigures(t *testing.T) {
	for _, used := range []string{`{"configmaps":"1.5"}`, `{"configmaps":"-1"}`, `{"configmaps":{}}`, `[]`, `{"configmaps":"1e1000000000"}`, `{}`} {
		s := newMemory(t)
		e := newEnvOver(t, s)
		e.limit("a", "configmaps", "2", "count/unknown.example.com", "1")
		require.NoError(t, e.create(configmaps, named("c")))
		require.Contains(t, e.status("a"), `"used":{"configmaps":"1","count/unknown.example.com":"0"}`, "what is not declared has no objects")
		o := named("a")
		o.Fields = map[string]json.RawMessage{"status": json.RawMessage(`{"used":` + used + `}`)}
		_, err := openOver(t, s, false).content(quota.Resource).UpdateStatus(e.ctx, space, o)
		require.NoError(t, err)
		require.NoError(t, e.create(configmaps, named("d")))
		require.Contains(t, e.status("a"), `"used":{"configmaps":"2","count/unknown.example.com":"0"}`, used)
		require.ErrorIs(t, e.create(configmaps, named("e")), namespace.ErrForbidden)
	}
}

// R6: nothing is created in a namespace that is not Active, and nothing of a quota
// keeps it from becoming empty.
func TestR6_TerminatingNamespace(t *testing.T) {
	e := newEnv(t)
	e.limit("a", "configmaps", "1", "example.com/size", "2")
	require.NoError(t, e.create(configmaps, named("held", "example.com/held")))
	require.NoError(t, e.create(widgets, widget("w", `{"size":1}`)))
	n, err := e.Delete(e.ctx, space, namespace.Preconditions{})
	require.NoError(t, err)
	require.ErrorIs(t, e.create(configmaps, named("c")), namespace.ErrTerminating)
	require.ErrorIs(t, e.create(quota.Resource, limits("b")), namespace.ErrTerminating)
	before := e.status("a")
	_, err = e.content(widgets).Update(e.ctx, space, widget("w", `{"size":9}`))
	require.NoError(t, err, "nothing holds up what is terminating")
	require.Equal(t, before, e.status("a"))
	_, err = e.content(quota.Resource).Update(e.ctx, space, limits("a", "configmaps", "5", "count/configmaps", "1"))
	require.NoError(t, err)
	changes, err := quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, changes)
	require.NoError(t, e.remove(configmaps, "held"))
	_, err = e.content(configmaps).Update(e.ctx, space, named("held"))
	require.NoError(t, err)
	sources, err := e.Sources()
	require.NoError(t, err)
	for _, source := range sources {
		_, _, err := source.Content.(deleter.CollectionDeleter).DeleteCollection(e.ctx, deleter.Target{Namespace: space, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time})
		require.NoError(t, err)
	}
	_, err = e.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	_, err = e.Get(e.ctx, space)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	require.ErrorIs(t, e.create(configmaps, named("c")), namespace.ErrNotFound)
	require.False(t, errors.Is(e.create(configmaps, named("c")), namespace.ErrTerminating))
}

func TestBadInput(t *testing.T) {
	for name, rules := range map[string][]quota.Rule{
		"no type":     {{Sums: map[string]string{"a": "spec.a"}}},
		"no sums":     {{Resource: widgets}},
		"twice":       {rule, rule},
		"bad path":    {{Resource: widgets, Sums: map[string]string{"a": "spec."}}},
		"bad name":    {{Resource: widgets, Sums: map[string]string{"a b": "spec.a"}}},
		"empty name":  {{Resource: widgets, Sums: map[string]string{"": "spec.a"}}},
		"a count":     {{Resource: widgets, Sums: map[string]string{"count/widgets": "spec.a"}}},
		"a legacy":    {{Resource: widgets, Sums: map[string]string{"pods": "spec.a"}}},
		"invalid":     {{Resource: deleter.Resource{Name: "a/b"}, Sums: map[string]string{"a": "spec.a"}}},
		"not UTF-8":   {{Resource: widgets, Sums: map[string]string{"\xff": "spec.a"}}},
		"of metadata": {{Resource: widgets, Sums: map[string]string{"a": "metadata.generation"}}},
	} {
		_, err := quota.New(rules...)
		require.ErrorIs(t, err, namespace.ErrInvalid, name)
	}
	_, err := quota.New()
	require.NoError(t, err)

	e := newEnv(t)
	before := revision(t, e.store)
	for _, c := range []struct{ spec, text string }{
		{`{"hard":{"configmaps":"-1"}}`, `spec.hard[configmaps]: Invalid value: "-1": must be greater than or equal to 0`},
		{`{"hard":{"configmaps":"1.5"}}`, `spec.hard[configmaps]: Invalid value: "1.5": must be an integer`},
		{`{"hard":{"count/a.b":"1m"}}`, `spec.hard[count/a.b]: Invalid value: "1m": must be an integer`},
		{`{"hard":{"cpus":"1"}}`, `spec.hard[cpus]: Invalid value: "cpus": must be a standard resource for quota: no rule declares it here`},
		{`{"hard":{"example.com/gpu":"1"}}`, `spec.hard[example.com/gpu]: Invalid value: "example.com/gpu": is not counted here: no rule declares it`},
		{`{"hard":[]}`, `spec.hard: Invalid value: must be an object`},
		{`[]`, `spec.hard: Invalid value: spec must be an object`},
		{`{"hard":{},"scopes":["BestEffort"]}`, `spec.scopes: Forbidden: scopes are not supported: a quota counts all objects of its namespace`},
		{`{"hard":{},"scopeSelector":{"matchExpressions":[]}}`, `spec.scopeSelector: Forbidden: scopes are not supported: a quota counts all objects of its namespace`},
	} {
		o := registry.Object{Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(c.spec)}}
		requireError(t, e.create(quota.Resource, o), namespace.ErrInvalid, `ResourceQuota "q" is invalid: `+c.text)
	}
	for _, spec := range []string{
		`{"hard":{"configmaps":"x"}}`, `{"hard":{"configmaps":"1e1000000000"}}`, `{"hard":{"configmaps":{}}}`, `{"hard":{"configmaps":null}}`,
		`{"hard":{"count/":"1"}}`, `{"hard":{"count/a/b":"1"}}`, `{"hard":{"` + strings.Repeat("x", 300) + `":"1"}}`, `{"hard":{"services.nodeports":"1"}}`, `{"hard":"x"}`,
	} {
		o := registry.Object{Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec)}}
		require.ErrorIs(t, e.create(quota.Resource, o), namespace.ErrInvalid, "%.80s", spec)
	}
	for _, spec := range []string{`{"size":"x"}`, `{"size":-1}`, `{"size":[]}`, `"x"`, `{"parts":{}}`, `{"parts":[{"cpu":true}]}`, `{"size":"1e1000000000"}`} {
		require.ErrorIs(t, e.create(widgets, widget("w", spec)), namespace.ErrInvalid, spec)
	}
	requireError(t, e.create(widgets, widget("w", `{"size":"x"}`)), namespace.ErrInvalid,
		`Widget.example.com "w" is invalid: spec.size: Invalid value: "x": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`)
	require.Equal(t, before, revision(t, e.store))

	_, err = quota.Recount(e.ctx, nil, space)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = quota.Recount(e.ctx, e.Registry, "")
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, err = quota.Recount(e.ctx, e.Registry, "a/b")
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, err = e.content(deleter.Resource{Name: "nodes"}).Create(e.ctx, "", named("n"))
	require.NoError(t, err, "what is cluster-scoped is not counted")
}

// A quota that somebody wrote past the plug-in, so that nobody can read it, forbids
// more, but not less, and can be deleted.
func TestUnreadableQuota(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	require.NoError(t, e.create(configmaps, named("c")))
	require.NoError(t, openOver(t, s, false).create(quota.Resource, registry.Object{
		Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"hard":{"configmaps":{}}}`)},
	}))
	require.ErrorContains(t, e.create(configmaps, named("d")), "quota q cannot be read: spec.hard[configmaps]")
	require.NoError(t, e.remove(configmaps, "c"))
	_, err := e.content(quota.Resource).Update(e.ctx, space, registry.Object{
		Meta: namespace.Meta{Name: "q", Labels: map[string]string{"a": "b"}}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"hard":{"configmaps":{}}}`)},
	})
	require.NoError(t, err, "what was wrong before holds nothing up")
	require.NoError(t, e.remove(quota.Resource, "q"))
	require.NoError(t, e.create(configmaps, named("d")))
}

// revisionZero returns the position before all history.
func revisionZero(t testing.TB, e *env) store.Position {
	t.Helper()
	p := revision(t, e.store)
	p.Revision = 0
	return p
}
