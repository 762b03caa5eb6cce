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

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// witness is content that remembers what it has shown of its objects since a listing to
// the end last showed none. Any of its calls may fail.
type witness struct {
	*contenttest.Fake
	mu    sync.Mutex
	r     *rand.Rand
	ill   int // of ten calls so many fail
	shown int
	round int // shown in the listing under way
}

func (w *witness) fails() error {
	if w.r.IntN(10) < w.ill {
		return errBoom
	}
	return nil
}

func (w *witness) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fails(); err != nil {
		return deleter.Page{}, err
	}
	page, err := w.Fake.List(ctx, target, limit, next)
	if err != nil {
		return page, err
	}
	if next == "" {
		w.round = 0
	}
	w.round += len(page.Items)
	w.shown = max(w.shown, w.round)
	if page.Next == "" {
		w.shown = w.round
	}
	return page, nil
}

func (w *witness) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fails(); err != nil {
		return err
	}
	return w.Fake.Delete(ctx, target, name, uid)
}

func (w *witness) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fails(); err != nil {
		return 0, false, err
	}
	n, more, err := w.Fake.DeleteCollection(ctx, target)
	w.shown = max(w.shown, n)
	return n, more, err
}

// counting is a witness that empties itself, some objects in each call.
type counting struct{ *witness }

func (w counting) Empty(ctx context.Context, target deleter.Target) (deleter.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fails(); err != nil {
		return deleter.Result{}, err
	}
	n, more, err := w.Fake.DeleteCollection(ctx, target)
	result := deleter.Result{Deleted: max(n, 0), More: more}
	if !more {
		result.Remaining = len(w.Names(target))
	}
	w.shown = result.Remaining
	if more {
		w.shown = 1 // of which the result has no count
	}
	return result, err
}

// waivedWorld is a random acyclic set of sources that fail now and then.
type waivedWorld struct {
	sources   []deleter.Source
	witnesses map[namespace.ResourceType]*witness
}

func newWaivedWorld(r *rand.Rand) *waivedWorld {
	w := &waivedWorld{witnesses: map[namespace.ResourceType]*witness{}}
	for i := range 1 + r.IntN(8) {
		f := contenttest.NewFake(&contenttest.FakeOptions{Uncounted: r.IntN(4) == 0, Batch: r.IntN(3)})
		for j := range r.IntN(4) {
			o := contenttest.Object{Name: fmt.Sprint("o", j)}
			if r.IntN(3) == 0 {
				o.Finalizers = []string{"example.com/hold"}
			}
			f.Put(target(), o)
		}
		one := &witness{Fake: f, r: rand.New(rand.NewPCG(r.Uint64(), 0)), ill: r.IntN(10)}
		s := source(fmt.Sprint("t", i), one)
		s.Final = r.IntN(2) == 0
		switch r.IntN(4) {
		case 0:
			s.Content = plain{one}
		case 1:
			s.Content = counting{one}
		}
		for j := range i {
			if r.IntN(4) == 0 {
				s.After = append(s.After, w.sources[j].Resource)
			}
		}
		w.sources = append(w.sources, s)
		w.witnesses[s.Resource] = one
	}
	return w
}

func (w *waivedWorld) check(t *testing.T, target deleter.Target, report deleter.Report) {
	waived := map[namespace.ResourceType]bool{}
	for _, err := range report.Waived {
		var of *deleter.SourceError
		require.ErrorAs(t, err, &of)
		require.ErrorIs(t, err, errBoom)
		require.Contains(t, target.Waived, of.Resource.String())
		require.Zero(t, w.witnesses[of.Resource].shown, "%v is waived, but has shown objects", of.Resource)
		require.NotContains(t, report.Clean, of.Resource)
		waived[of.Resource] = true
	}
	results := map[namespace.ResourceType]deleter.Result{}
	for _, result := range report.Results {
		results[result.Resource] = result
	}
	for _, s := range w.sources {
		clean := slices.Contains(report.Clean, s.Resource)
		if clean || results[s.Resource].Empty() && !waived[s.Resource] {
			require.Empty(t, w.witnesses[s.Resource].Names(target), "%v counts as empty", s.Resource)
		}
		if result, called := results[s.Resource]; !called || result.Waiting {
			continue
		}
		for _, before := range s.After {
			result, called := results[before]
			require.True(t, !called || result.Empty(), "%v was called before %v was empty or waived", s.Resource, before)
		}
	}
}

// runWaived runs passes over a random world with random waivers. They never hide an object
// that was seen, make no type clean, and start no source before the types in After are empty.
func runWaived(t *testing.T, seed uint64) (waived int) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWaivedWorld(r)
	d := compose(t, &deleter.Options{Parallelism: 1 + r.IntN(4), PageSize: 1 + r.IntN(2)}, w.sources...)
	var report deleter.Report
	for range 6 {
		target := target()
		for _, s := range w.sources {
			if r.IntN(2) == 0 {
				target.Waived = append(target.Waived, s.Resource.String())
			}
		}
		var err error
		report, err = d.Delete(t.Context(), target, report)
		w.check(t, target, report)
		waived += len(report.Waived)
		require.True(t, err == nil || errors.Is(err, errBoom))
		switch r.IntN(4) {
		case 0:
			report = report.Compact()
		case 1: // a pass that was cut short loses nothing
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			report, err = d.Delete(ended, target, report)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, report.Waived)
		}
		if one := w.sources[r.IntN(len(w.sources))]; r.IntN(2) == 0 {
			w.witnesses[one.Resource].Release(target, "o0")
		}
	}
	return waived
}

func TestR7_RandomWaivers(t *testing.T) {
	first, worlds, waived := rand.Uint64(), uint64(1000), 0
	if testing.Short() {
		worlds = 100
	}
	for seed := first; seed != first+worlds; seed++ {
		waived += runWaived(t, seed)
	}
	require.NotZero(t, waived, "nothing was ever waived")
}

func FuzzWaivers(f *testing.F) {
	f.Add(uint64(0))
	f.Fuzz(func(t *testing.T, seed uint64) { runWaived(t, seed) })
}
