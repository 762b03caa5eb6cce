package quota_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// walker makes random requests.
type walker struct {
	*env
	random *rand.Rand
}

func (w *walker) step() error {
	name := fmt.Sprint("w", w.random.IntN(12))
	spec := fmt.Sprintf(`{"size":"%d","parts":[{"cpu":"%dm"},{"cpu":0.25}]}`, w.random.IntN(40), w.random.IntN(2000))
	switch w.random.IntN(12) {
	case 0, 1, 2:
		o := widget(name, spec)
		if w.random.IntN(4) == 0 {
			o.Finalizers = finalizer.NewSet("example.com/held")
		}
		return w.create(widgets, o)
	case 3, 4:
		_, err := w.content(widgets).Update(w.ctx, space, widget(name, spec)) // also removes the finalizer
		return err
	case 5:
		return w.remove(widgets, name)
	case 6:
		_, err := w.content(widgets).DeleteCollection(w.ctx, space, selector.Labels{}, selector.Fields{})
		return err
	case 7, 8:
		return w.create(configmaps, named(name))
	case 9:
		return w.remove(configmaps, name)
	case 10:
		return w.changeQuota()
	}
	_, err := quota.Recount(w.ctx, w.Registry, space)
	return err
}

// changeQuota creates, updates or deletes one of two quotas.
func (w *walker) changeQuota() error {
	pairs := []string{"example.com/size", fmt.Sprint(50 + w.random.IntN(200))}
	if w.random.IntN(2) == 0 {
		pairs = append(pairs, "configmaps", fmt.Sprint(1+w.random.IntN(8)))
	}
	if w.random.IntN(2) == 0 {
		pairs = append(pairs, "count/widgets.example.com", "6", "requests.cpu", "5500m", "resourcequotas", "1")
	}
	name := fmt.Sprint("q", w.random.IntN(2))
	switch w.random.IntN(3) {
	case 0:
		return w.remove(quota.Resource, name)
	case 1:
		return w.create(quota.Resource, limits(name, pairs...))
	}
	_, err := w.content(quota.Resource).Update(w.ctx, space, limits(name, pairs...))
	return err
}

// expected reports whether an error is nil or a valid refusal.
func expected(err error) bool {
	for _, kind := range []error{nil, namespace.ErrForbidden, namespace.ErrExists, namespace.ErrNotFound, namespace.ErrConflict} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Under random concurrent requests, the figures are correct at every revision.
func TestPropertyExact(t *testing.T) {
	for range 4 {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newMemory(t)
			start := revision(t, s)
			envs := []*env{newEnvOver(t, s), openOver(t, s, true)}
			var group sync.WaitGroup
			for i := range 6 {
				group.Go(func() {
					w := walker{envs[i%2], rand.New(rand.NewPCG(seed, uint64(i)))}
					for range 100 {
						if err := w.step(); !expected(err) {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			require.NotZero(t, audit(t, s, start))
		})
	}
}

// The figures are correct with a store that fails, conflicts and loses answers.
func TestPropertyExactUnderFaults(t *testing.T) {
	for range 3 {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newMemory(t)
			start := revision(t, s)
			newEnvOver(t, s)
			plan, err := storetest.Seeded(seed, storetest.Rates{Conflict: 0.05, Lost: 0.05, Landed: 0.05, Fail: 0.02})
			require.NoError(t, err)
			faulty, err := storetest.Inject(s, plan)
			require.NoError(t, err)
			plugin, err := quota.New(rule)
			require.NoError(t, err)
			r, err := registry.New(faulty, &registry.Options{Types: types, Admission: []registry.Admission{plugin}})
			require.NoError(t, err)
			e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					w := walker{e, rand.New(rand.NewPCG(seed, uint64(i)))}
					for range 120 {
						err := w.step()
						if !expected(err) && !errors.Is(err, storetest.ErrInjected) && !errors.Is(err, namespace.ErrUnknownOutcome) {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			injected := faulty.Injected()
			require.NotZero(t, injected[storetest.Landed])
			require.NotZero(t, injected[storetest.Lost])
			require.NoError(t, r.Close())
			require.NotZero(t, audit(t, s, start))
		})
	}
}

// FuzzQuota checks that the plug-in returns no error other than a typed refusal, and counts accepted
// objects correctly.
func FuzzQuota(f *testing.F) {
	f.Add(`{"hard":{"configmaps":"1","example.com/size":"10Gi"}}`, `{"used":{"configmaps":"-1"}}`, `{"size":"1Gi","parts":[{"cpu":1}]}`)
	f.Add(`{"hard":{"requests.cpu":2},"scopes":[]}`, `null`, `{"parts":[{"cpu":"1e3"},null]}`)
	f.Add(`[]`, `{"used":[]}`, `{"size":{}}`)
	f.Fuzz(func(t *testing.T, spec, status, object string) {
		s := newMemory(t)
		e := newEnvOver(t, s)
		past := openOver(t, s, false)
		if json.Valid([]byte(spec)) && json.Valid([]byte(status)) {
			_ = past.create(quota.Resource, registry.Object{Meta: namespace.Meta{Name: "past"}, Fields: map[string]json.RawMessage{
				"spec": json.RawMessage(spec), "status": json.RawMessage(status),
			}})
		}
		for i, o := range []registry.Object{
			{Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec), "status": json.RawMessage(status)}},
			widget("w", object), widget("v", object),
		} {
			resource := widgets
			if i == 0 {
				resource = quota.Resource
			}
			if err := e.create(resource, o); !expected(err) && !errors.Is(err, namespace.ErrInvalid) && !errors.Is(err, namespace.ErrBadRequest) {
				t.Fatal(err)
			}
		}
		if err := e.remove(widgets, "w"); !expected(err) {
			t.Fatal(err)
		}
		for i := range 2 {
			changes, err := quota.Recount(e.ctx, e.Registry, space)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if i == 1 || c.Quota == "q" && c.Was != "" {
					t.Fatalf("recount %d: %v", i, c)
				}
			}
		}
	})
}
