package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// health is the defect of a source in a random world.
type health int

const (
	nothing health = iota // it has no objects
	content               // it has some
	held                  // a finalizer holds one
	noList
	noDelete
	panicking
	kinds
)

// node is a source of a random world.
type node struct {
	name   string
	health health
	after  []int // direct
	before []int // all of them, transitively
	fake   *contenttest.Fake
	sick   error
	called bool
}

// world is a random acyclic set of sources with random troubles.
type world struct {
	mu    sync.Mutex
	nodes []*node
	early []string // sources called while something before them was not empty
}

func newWorld(r *rand.Rand) *world {
	w := &world{}
	for i := range 1 + r.IntN(12) {
		n := &node{name: fmt.Sprintf("type%02d", i), sick: fmt.Errorf("trouble of type%02d", i)}
		if r.IntN(2) == 0 {
			n.health = health(r.IntN(int(kinds)))
		} else {
			n.health = health(r.IntN(2))
		}
		for j := range i {
			if r.IntN(4) > 0 {
				continue
			}
			n.after = append(n.after, j)
			n.before = append(append(n.before, j), w.nodes[j].before...)
		}
		slices.Sort(n.before)
		n.before = slices.Compact(n.before)
		n.fake = contenttest.NewFake(&contenttest.FakeOptions{Fault: w.fault(n)})
		switch n.health {
		case nothing:
		case held:
			n.fake.Put(target(), contenttest.Object{Name: "held", Finalizers: []string{"example.com/hold"}}, contenttest.Object{Name: "x"})
		default:
			n.fake.PutMany(target(), "x", 1+r.IntN(5))
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// fault records calls that come too early, and injects the defects.
func (w *world) fault(n *node) func(context.Context, contenttest.Call) error {
	return func(_ context.Context, c contenttest.Call) error {
		w.mu.Lock()
		n.called = true
		for _, i := range n.before {
			if len(w.nodes[i].fake.Names(target())) > 0 {
				w.early = append(w.early, n.name)
			}
		}
		sick := n.health
		w.mu.Unlock()
		switch {
		case sick == noList && c.Op == list, sick == noDelete && (c.Op == del || c.Op == collection):
			return n.sick
		case sick == panicking:
			panic(n.sick)
		}
		return nil
	}
}

func (w *world) sources(r *rand.Rand) []deleter.Source {
	sources := make([]deleter.Source, len(w.nodes))
	for i, n := range w.nodes {
		sources[i] = source(n.name, n.fake)
		if r.IntN(3) == 0 {
			sources[i].Content = plain{n.fake}
		}
		sources[i].Final = r.IntN(2) == 0
		for _, j := range n.after {
			sources[i].After = append(sources[i].After, core(w.nodes[j].name))
		}
	}
	r.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
	return sources
}

// ok reports whether the node is empty after its visit.
func (n *node) ok() bool { return n.health == nothing || n.health == content }

// starts reports whether all nodes before the node are empty.
func (w *world) starts(n *node) bool {
	return !slices.ContainsFunc(n.before, func(i int) bool { return !w.nodes[i].ok() })
}

func (w *world) check(t *testing.T, report deleter.Report, err error) {
	require.Empty(t, w.early, "these were called before the types in After were empty")
	failed := 0
	for _, n := range w.nodes {
		started := w.starts(n)
		if n.ok() && started {
			require.Empty(t, n.fake.Names(target()), n.name)
			continue
		}
		one := result(t, report, n.name)
		require.False(t, one.Empty(), n.name)
		require.Equal(t, !started, one.Waiting, n.name)
		require.Equal(t, started, n.called, n.name)
		if started && n.health != held {
			failed++
			require.ErrorIs(t, one.Err, n.sick)
			require.ErrorIs(t, err, n.sick)
		}
		if started && n.health == held {
			require.Equal(t, []phase.Holder{{Finalizer: "example.com/hold", Objects: 1, Sample: []string{"held"}}}, one.Holders)
		} else {
			require.Empty(t, one.Holders, n.name)
		}
	}
	names := map[namespace.ResourceType]bool{}
	for _, one := range multierr.Errors(err) {
		var named *deleter.SourceError
		require.ErrorAs(t, one, &named)
		names[named.Resource] = true
	}
	require.Len(t, names, failed)
	require.True(t, slices.IsSortedFunc(report.Results, func(a, b deleter.Result) int { return a.Resource.Compare(b.Resource) }))
	require.True(t, slices.IsSortedFunc(report.Clean, namespace.ResourceType.Compare))
	sound := !slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.ok() })
	require.Equal(t, sound, report.Empty())
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.health == held {
			n.fake.Release(target(), "held")
		}
		n.health = content
	}
}

// runWorld runs passes over a random world. They keep the order, fail closed and report every
// source, and the first pass after the last defect finishes (rule R12).
func runWorld(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(r)
	d := compose(t, &deleter.Options{Parallelism: 1 + r.IntN(4), PageSize: 1 + r.IntN(3)}, w.sources(r)...)
	var report deleter.Report
	for range 3 {
		for _, n := range w.nodes {
			n.called = false
		}
		var err error
		report, err = d.Delete(t.Context(), target(), report)
		w.check(t, report, err)
		if r.IntN(2) == 0 {
			report = report.Compact()
		}
	}
	w.heal()
	report, err := d.Delete(t.Context(), target(), report)
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Empty(t, w.early)
}

func TestRandomWorlds(t *testing.T) {
	first := rand.Uint64()
	worlds := uint64(1000)
	if testing.Short() {
		worlds = 100
	}
	for seed := first; seed != first+worlds; seed++ {
		runWorld(t, seed)
	}
}

func FuzzWorlds(f *testing.F) {
	f.Add(uint64(0))
	f.Add(uint64(42))
	f.Fuzz(runWorld)
}

// FuzzCycles checks that sources are refused for a cycle only if there is one, and that the
// error lists a real one.
func FuzzCycles(f *testing.F) {
	f.Add([]byte{0x01, 0x12, 0x20})
	f.Add([]byte{0x01, 0x12, 0x23})
	f.Add([]byte{0x11})
	f.Fuzz(func(t *testing.T, edges []byte) {
		after := map[string][]string{}
		for _, e := range edges {
			a, b := fmt.Sprint("t", e>>4), fmt.Sprint("t", e&15)
			after[a] = append(after[a], b)
		}
		sources := make([]deleter.Source, 16)
		for i := range sources {
			name := fmt.Sprint("t", i)
			sources[i] = source(name, contenttest.NewFake(nil), after[name]...)
		}
		d, err := deleter.New(sources, nil)
		var cycle *deleter.CycleError
		if errors.As(err, &cycle) {
			require.ErrorIs(t, err, deleter.ErrInvalid)
			for i, r := range cycle.Cycle {
				next := cycle.Cycle[(i+1)%len(cycle.Cycle)]
				require.Contains(t, after[r.Name], next.Name, "%v does not come after %v: %v", r, next, err)
			}
			return
		}
		require.NoError(t, err)
		// Were there a cycle, its sources would never start.
		report, err := d.Delete(t.Context(), target(), deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
	})
}
