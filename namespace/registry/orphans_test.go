package registry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// Creating, terminating, emptying, removing and making again, all at once, by many:
// nothing breaks a rule at any revision, and nothing is left.
func TestR6_Orphans(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	orphans(t, s, 200, 3)
}

func TestR6_OrphansOnAFile(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	orphans(t, s, 200, 2)
}

// orphans lets 16 creators race the termination of spaces, cycles times over, while
// passes that are late go on for incarnations of before.
func orphans(t *testing.T, s store.Store, spaces, cycles int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	e := newEnvOver(t, s)
	e.create("first")
	start := now(t, s)
	tickets := make(chan struct{}, 64) // each is one attempt to create an object
	invite := func(n int) {
		for range n {
			tickets <- struct{}{}
		}
	}
	var created, refused atomic.Int64
	var creators, terminators, stale sync.WaitGroup
	past := make(chan namespace.Namespace, spaces*cycles)
	for range 2 {
		stale.Go(func() { latePasses(e, past) })
	}
	for creator := range 16 {
		rnd := rand.New(rand.NewPCG(seed, uint64(creator)))
		creators.Go(func() {
			w := e.content([]namespace.ResourceType{widgets, configmaps}[creator%2])
			i := 0
			for range tickets {
				i++
				_, err := w.Create(e.ctx, fmt.Sprint("n", rnd.IntN(spaces)), object(fmt.Sprintf("o-%d-%d", creator, i)))
				if err == nil {
					created.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	var names []string
	for i := range spaces {
		names = append(names, fmt.Sprint("n", i))
	}
	for part := range slices.Chunk(names, spaces/4) {
		terminators.Go(func() {
			lives := make([]namespace.Namespace, len(part))
			for range cycles {
				before := slices.Clone(lives)
				for i, name := range part {
					var err error
					if lives[i], err = e.Create(e.ctx, named(name)); err != nil {
						t.Error(err)
						return
					}
				}
				invite(8 * len(part))
				for i, n := range lives {
					invite(8)
					if before[i].UID != "" {
						past <- before[i]
					}
					lives[i] = e.end(n)
				}
			}
		})
	}
	terminators.Wait()
	close(tickets)
	creators.Wait()
	close(past)
	stale.Wait()
	t.Logf("%d objects created, %d refused", created.Load(), refused.Load())
	require.NotZero(t, created.Load())
	require.NotZero(t, refused.Load())
	for _, name := range names {
		require.False(t, e.has(name))
	}
	for _, resource := range []namespace.ResourceType{widgets, configmaps} {
		list, err := e.content(resource).List(e.ctx, "", registry.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
	}
	require.NoError(t, registrytest.Audit(e.ctx, s, "registry", start, e.revision()))
	require.Zero(t, deletedWhileActive(t, s, start, e.revision()), "objects that a pass for another incarnation deleted")
}

// latePasses empties namespaces that are gone: of those that have their names now
// nothing may be touched.
func latePasses(e *env, past <-chan namespace.Namespace) {
	for n := range past {
		_, _, err := e.source().DeleteCollection(e.ctx, targetOf(n))
		if !errors.Is(err, deleter.ErrIncarnation) {
			e.t.Errorf("a pass for a life of %s that is over: %v", n.Name, err)
		}
	}
}

// deletedWhileActive counts the objects that were deleted while the gate of their
// namespace was there, which nobody asked for.
func deletedWhileActive(t *testing.T, s store.Store, after store.Position, until store.Revision) int {
	touched, deleted := 0, 0
	gates := map[string]bool{}
	for change, err := range s.Watch(t.Context(), "/registry/", after) {
		require.NoError(t, err)
		for _, e := range change.Events {
			parts := strings.Split(e.Key, "/")
			switch {
			case parts[2] == ".gate":
				gates[parts[3]] = !e.Deleted
			case len(parts) == 5 && e.Deleted:
				deleted++
				if gates[parts[3]] {
					touched++
				}
			}
		}
		if change.Position.Revision >= until {
			break
		}
	}
	require.NotZero(t, deleted)
	return touched
}

// end ends the life of a namespace. A listing of a terminating namespace is final:
// once it is empty, the namespace is removed. It returns the namespace as it was last.
func (e *env) end(n namespace.Namespace) namespace.Namespace {
	name := n.Name
	n, err := e.Delete(e.ctx, name, namespace.Preconditions{UID: n.UID})
	if err != nil {
		e.t.Errorf("delete %s: %v", name, err)
		return n
	}
	sources, err := e.Sources()
	if err != nil {
		e.t.Error(err)
		return n
	}
	for _, source := range sources {
		if _, _, err := source.Content.(deleter.CollectionDeleter).DeleteCollection(e.ctx, targetOf(n)); err != nil {
			e.t.Errorf("empty %s: %v", name, err)
		}
		if page, err := source.Content.List(e.ctx, targetOf(n), 0, ""); err != nil || len(page.Items) > 0 {
			e.t.Errorf("%s has %d %s after it was emptied, error %v", name, len(page.Items), source.Resource, err)
		}
	}
	n.Spec.Finalizers = finalizer.Set{}
	if _, err := e.Finalize(e.ctx, n); err != nil {
		e.t.Errorf("finalize %s: %v", name, err)
	}
	return n
}
