package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// counting keeps in the status of each counter of a namespace how many widgets there
// are, and refuses more than its spec allows. A new counter is counted by the first
// write that meets it.
var counting = link(func(ctx context.Context, w *registry.Write) error {
	if w.Itself != nil || len(w.Objects) == 0 {
		return nil
	}
	if first := w.Objects[0]; first.Type.Name() == counters && first.Operation == registry.Create {
		w.TouchGate()
		return nil
	}
	if w.Objects[0].Type.Name() != widgets {
		return nil
	}
	delta := 0
	for _, o := range w.Objects {
		switch {
		case o.Old == nil:
			delta++
		case o.New == nil:
			delta--
		}
	}
	if delta == 0 {
		return nil
	}
	if _, err := w.HoldGate(ctx); err != nil {
		return err
	}
	all, err := w.List(ctx, counters)
	if err != nil {
		return err
	}
	for _, counter := range all {
		if err := count(ctx, w, counter, delta); err != nil {
			return err
		}
	}
	return nil
})

var errFull = errors.New("full")

func count(ctx context.Context, w *registry.Write, counter registry.Object, delta int) error {
	used, known := countOf(counter)
	if !known {
		all, err := w.List(ctx, widgets)
		if err != nil {
			return err
		}
		used = len(all)
	}
	var most int
	if err := json.Unmarshal(counter.Fields["spec"], &most); err != nil {
		return err
	}
	if delta > 0 && used+delta > most {
		return errFull
	}
	updated := counter.DeepCopy()
	updated.Fields["status"] = json.RawMessage(fmt.Sprint(used + delta))
	return w.Replace(counter, updated)
}

// countOf returns what a counter says, and whether it says anything.
func countOf(counter registry.Object) (int, bool) {
	var used int
	err := json.Unmarshal(counter.Fields["status"], &used)
	return used, err == nil
}

func counter(name string, most int) registry.Object {
	return registry.Object{
		Meta:   namespace.Meta{Name: name},
		Fields: map[string]json.RawMessage{"spec": json.RawMessage(fmt.Sprint(most))},
	}
}

// requireCounted holds every counter of a namespace that has counted against what
// there is, and returns how many have.
func (e *env) requireCounted(ns string, most int) int {
	e.t.Helper()
	list, err := e.content(widgets).List(e.ctx, ns, registry.ListOptions{})
	require.NoError(e.t, err)
	all, err := e.content(counters).List(e.ctx, ns, registry.ListOptions{})
	require.NoError(e.t, err)
	counted := 0
	for _, c := range all.Items {
		if used, known := countOf(c); known {
			counted++
			require.Equal(e.t, len(list.Items), used, "counter %s of %s", c.Name, ns)
			require.LessOrEqual(e.t, used, most)
		}
	}
	return counted
}

// faults is a plan by which so many of a hundred commits and reads go wrong.
func faults(seed uint64, of100 int) storetest.Plan {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 1))
	kinds := []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Conflict, storetest.Fail}
	return func(a storetest.Attempt) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch n := rnd.IntN(100); {
		case n >= of100:
			return storetest.Fault{}
		case a.Method == "commit":
			return storetest.Fault{Kind: kinds[rnd.IntN(len(kinds))]}
		case n < of100/4:
			return storetest.Fault{Kind: storetest.Fail}
		}
		return storetest.Fault{}
	}
}

// However many write, delete and sweep at once, and whatever the store does: what a
// link counts in the commits of others is exact.
func TestAdmissionCountsExactly(t *testing.T) {
	for _, of100 := range []int{0, 15} {
		t.Run(fmt.Sprint("faults=", of100), func(t *testing.T) {
			const writers, rounds, most = 16, 60, 25
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			s, err := memory.New(nil)
			require.NoError(t, err)
			plan := faults(seed, of100)
			var over atomic.Bool // what looks at the end meets no faults
			faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
				if over.Load() {
					return storetest.Fault{}
				}
				return plan(a)
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, faulty.Close()) })
			calm, e := admittedEnv(t, s, counting), admittedEnv(t, faulty, counting)
			calm.create("x")
			start := now(t, s)
			calm.put(counters, "x", counter("used", most))
			var made, refused atomic.Int64
			var running sync.WaitGroup
			for writer := range writers {
				rnd := rand.New(rand.NewPCG(seed, uint64(writer)+2))
				running.Go(func() {
					for range rounds {
						switch err := countedOperation(e, rnd); {
						case err == nil:
							made.Add(1)
						case errors.Is(err, errFull):
							refused.Add(1)
						}
					}
				})
			}
			running.Wait()
			over.Store(true)
			require.Equal(t, 1, calm.requireCounted("x", most))
			require.NotZero(t, made.Load())
			require.NotZero(t, refused.Load())
			require.NoError(t, registrytest.Audit(e.ctx, s, "registry", start, e.revision()))
			require.NoError(t, countedAtEveryRevision(t, s, start, calm.revision()))
			if of100 > 0 {
				require.Len(t, faulty.Injected(), 4, "every kind of fault must have struck")
			}
		})
	}
}

// countedOperation is one write of a client to the namespace x.
func countedOperation(e *env, rnd *rand.Rand) error {
	w := e.content(widgets)
	o := object(fmt.Sprint("o", rnd.IntN(40)))
	if rnd.IntN(3) == 0 {
		o.Finalizers = finalizer.NewSet("example.com/f")
	}
	var err error
	switch n := rnd.IntN(100); {
	case n < 60:
		_, err = w.Create(e.ctx, "x", o)
	case n < 63:
		_, err = w.Create(e.ctx, "x", registry.Object{Meta: namespace.Meta{GenerateName: "g-"}})
	case n < 80:
		o.Labels = map[string]string{"n": fmt.Sprint(n)}
		_, err = w.Update(e.ctx, "x", o) // may be what removes a marked one
	case n < 97:
		_, err = w.Delete(e.ctx, "x", o.Name, anyVersion)
	default:
		_, err = w.DeleteCollection(e.ctx, "x", labels(e.t, ""), fields(e.t, ""))
	}
	return err
}

// countedAtEveryRevision replays what was committed, and holds the counters that have
// counted against the widgets after each commit.
func countedAtEveryRevision(t *testing.T, s store.Store, after store.Position, until store.Revision) error {
	there := map[string]bool{}
	used := map[string]int{}
	for change, err := range s.Watch(t.Context(), "/registry/", after) {
		require.NoError(t, err)
		for _, event := range change.Events {
			if name, ok := strings.CutPrefix(event.Key, "/registry/widgets.example.com/x/"); ok {
				there[name] = true
				if event.Deleted {
					delete(there, name)
				}
			}
			if name, ok := strings.CutPrefix(event.Key, "/registry/counters.example.com/x/"); ok {
				delete(used, name)
				var c registry.Object
				if !event.Deleted {
					require.NoError(t, json.Unmarshal(event.Value, &c))
				}
				if n, known := countOf(c); known {
					used[name] = n
				}
			}
		}
		for name, n := range used {
			if n != len(there) {
				return fmt.Errorf("revision %d: counter %s says %d, there are %d", change.Position.Revision, name, n, len(there))
			}
		}
		if change.Position.Revision >= until {
			return nil
		}
	}
	return errors.New("the watch ended")
}

// A counter that comes into being while many create is never out of step, from the
// first commit that it counts: those that looked before there was one are told by
// the gate.
func TestAdmissionHasNoPhantoms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 30 {
		e := admittedEnv(t, nil, counting)
		e.create("x")
		start := now(t, e.store)
		var running sync.WaitGroup
		for writer := range 8 {
			rnd := rand.New(rand.NewPCG(seed, uint64(100*round+writer)))
			running.Go(func() {
				for i := range 12 {
					name := fmt.Sprintf("o-%d-%d", writer, i)
					if _, err := e.content(widgets).Create(e.ctx, "x", object(name)); err != nil {
						t.Errorf("create: %v", err)
					}
					if rnd.IntN(3) == 0 {
						if _, err := e.content(widgets).Delete(e.ctx, "x", name, anyVersion); err != nil {
							t.Errorf("delete: %v", err)
						}
					}
				}
			})
		}
		for i := range 2 {
			running.Go(func() {
				if _, err := e.content(counters).Create(e.ctx, "x", counter(fmt.Sprint("c", i), 1000)); err != nil {
					t.Errorf("counter: %v", err)
				}
			})
		}
		running.Wait()
		e.put(widgets, "x", object("last"))
		require.Equal(t, 2, e.requireCounted("x", 1000))
		require.NoError(t, countedAtEveryRevision(t, e.store, start, e.revision()))
	}
}
