package hold_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var anything = namespace.Preconditions{}

// world is a registry with records of its hooks and its log.
type world struct {
	*registry.Registry
	t      testing.TB
	store  store.Store
	diary  diary
	log    strings.Builder
	logger *slog.Logger
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	return newWorldOver(t, s)
}

func newWorldOver(t testing.TB, s store.Store) *world {
	t.Helper()
	r, err := registry.New(s, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, s.Close())
	})
	w := &world{Registry: r, t: t, store: s}
	w.logger = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "uid" {
			return slog.Attr{}
		}
		return a
	}}))
	return w
}

// held creates a namespace that is on hold for so long.
func (w *world) held(name string, d time.Duration) namespace.Namespace {
	w.t.Helper()
	_, err := w.Create(w.t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}})
	require.NoError(w.t, err)
	return w.hold(name, d)
}

func (w *world) hold(name string, d time.Duration) namespace.Namespace {
	w.t.Helper()
	n, err := w.DeleteAfter(w.t.Context(), name, declare.Hold{Until: time.Now().Add(d), By: "ops"}, anything)
	require.NoError(w.t, err)
	return n
}

func (w *world) restore(name string) {
	w.t.Helper()
	_, err := w.Restore(w.t.Context(), name, anything)
	require.NoError(w.t, err)
}

func (w *world) phase(name string) phase.Phase {
	w.t.Helper()
	n, err := w.Get(w.t.Context(), name)
	require.NoError(w.t, err)
	return n.Phase()
}

// active requires that the namespaces are Active once everything has settled.
func (w *world) active(names ...string) {
	w.t.Helper()
	synctest.Wait()
	for _, name := range names {
		require.Equal(w.t, phase.Active, w.phase(name), name)
	}
}

func (w *world) terminating(names ...string) {
	w.t.Helper()
	synctest.Wait()
	for _, name := range names {
		require.Equal(w.t, phase.Terminating, w.phase(name), name)
	}
}

// run runs until the test ends or stop is called.
func (w *world) run(n hold.Namespaces, o hold.Options) (stop func()) {
	w.t.Helper()
	o.Hooks = w.diary.hooks()
	o.Logger = w.logger
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- hold.Run(ctx, n, &o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-ended)
	})
	w.t.Cleanup(func() {
		stop()
		require.NoError(w.t, registrytest.Check(context.WithoutCancel(w.t.Context()), w.store, "registry"))
	})
	return stop
}

// diary records the calls of the hooks.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns the calls since the last take.
func (d *diary) take() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	slices.Sort(lines)
	return lines
}

func (d *diary) hooks() hold.Hooks {
	return hold.Hooks{
		Deleted: func(ref namespace.Ref) { d.add("deleted %s", ref.Name) },
		Refused: func(ref namespace.Ref, err error) { d.add("refused %s: %v", ref.Name, err) },
		Failed:  func(ref namespace.Ref, err error) { d.add("failed %s: %v", ref.Name, err) },
		Lost:    func(err error) { d.add("lost: %v", err) },
	}
}

// counts counts names.
type counts struct {
	mu    sync.Mutex
	times map[string]int
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times == nil {
		c.times = map[string]int{}
	}
	c.times[name]++
}

func (c *counts) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times[name]
}

func (c *counts) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.times))
}

// intercepted are namespaces between which and Run a test stands. Nil is not asked.
type intercepted struct {
	hold.Namespaces
	get    func(ctx context.Context, name string) error
	got    func(name string)
	delete func(ctx context.Context, name string) error
	holds  func(after string) iter.Seq2[namespace.Event, error] // nil result: as it is
}

func (i *intercepted) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if i.get != nil {
		if err := i.get(ctx, name); err != nil {
			return namespace.Namespace{}, err
		}
	}
	n, err := i.Namespaces.Get(ctx, name)
	if i.got != nil {
		i.got(name)
	}
	return n, err
}

func (i *intercepted) Delete(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error) {
	if i.delete != nil {
		if err := i.delete(ctx, name); err != nil {
			return namespace.Namespace{}, err
		}
	}
	return i.Namespaces.Delete(ctx, name, only)
}

func (i *intercepted) Holds(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	if i.holds != nil {
		if other := i.holds(after); other != nil {
			return other
		}
	}
	return i.Namespaces.Holds(ctx, after)
}
