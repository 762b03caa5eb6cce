package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

var (
	kubernetes = namespace.Party{Finalizer: finalizer.Kubernetes}
	origin     = namespace.Party{Finalizer: "openshift.com/origin"}
)

// world contains a host and fake content of several types.
type world struct {
	host    *controllertest.Host
	fakes   []*contenttest.Fake
	deleter *deleter.Composed
}

// newWorld returns a world with n types of content. If shape is set, it returns the options
// of the i-th type.
func newWorld(t testing.TB, n int, shape func(i int) contenttest.FakeOptions) *world {
	t.Helper()
	w := &world{host: new(controllertest.Host)}
	var sources []deleter.Source
	for i := range n {
		var opts contenttest.FakeOptions
		if shape != nil {
			opts = shape(i)
		}
		fake := contenttest.NewFake(&opts)
		w.fakes = append(w.fakes, fake)
		sources = append(sources, deleter.Source{Resource: resource(i), Content: fake, Final: true})
	}
	var err error
	w.deleter, err = deleter.New(sources, nil)
	require.NoError(t, err)
	return w
}

func resource(i int) namespace.ResourceType {
	return namespace.ResourceType{Name: fmt.Sprintf("things%03d", i), Group: "example.com"}
}

// latency returns options for content whose calls each take d.
func latency(d time.Duration) func(int) contenttest.FakeOptions {
	return func(int) contenttest.FakeOptions { return contenttest.FakeOptions{Latency: d} }
}

// create adds an Active namespace and returns its future deletion target.
func (w *world) create(t testing.TB, name string, finalizers ...finalizer.Name) deleter.Target {
	t.Helper()
	ns, err := w.host.Create(t.Context(), namespace.Namespace{
		Meta: namespace.Meta{Name: name}, Spec: namespace.Spec{Finalizers: finalizer.NewSet(finalizers...)},
	})
	require.NoError(t, err)
	return deleter.Target{Namespace: name, UID: ns.UID, DeletedAt: time.Now()}
}

func (w *world) delete(t testing.TB, name string) {
	t.Helper()
	_, err := w.host.Delete(t.Context(), name)
	require.NoError(t, err)
}

// setFinalizers replaces spec.finalizers of the stored namespace.
func (w *world) setFinalizers(t testing.TB, name string, finalizers ...finalizer.Name) {
	t.Helper()
	ns, err := w.host.Get(t.Context(), name)
	require.NoError(t, err)
	ns.Spec.Finalizers = finalizer.NewSet(finalizers...)
	_, err = w.host.Finalize(t.Context(), ns)
	require.NoError(t, err)
}

func (w *world) gone(name string) bool {
	_, err := w.host.Get(context.Background(), name)
	return err != nil
}

// calls returns the number of calls to all content.
func (w *world) calls(ops ...deleter.Op) int {
	n := 0
	for _, f := range w.fakes {
		n += f.Calls(ops...)
	}
	return n
}

// moment is one call of a hook.
type moment struct {
	at      time.Duration
	what    string
	ref     namespace.Ref
	outcome pass.Outcome
	reason  controller.Reason
	delay   time.Duration
	err     error
}

// diary records calls of hooks.
type diary struct {
	mu      sync.Mutex
	began   time.Time
	moments []moment
	removed map[namespace.Ref]chan struct{}
}

func newDiary() *diary {
	return &diary{began: time.Now(), removed: map[namespace.Ref]chan struct{}{}}
}

func (d *diary) add(m moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m.at = time.Since(d.began)
	d.moments = append(d.moments, m)
}

func (d *diary) hooks() []controller.Hooks {
	return []controller.Hooks{{
		Queued: func(ref namespace.Ref) { d.add(moment{what: "queued", ref: ref}) },
		PassStarted: func(ctx context.Context, ref namespace.Ref) context.Context {
			d.add(moment{what: "started", ref: ref})
			return ctx
		},
		PassEnded: func(_ context.Context, ref namespace.Ref, result pass.Result, err error, _ time.Duration) {
			d.add(moment{what: "ended", ref: ref, outcome: result.Outcome, err: err})
		},
		Retried: func(ref namespace.Ref, delay time.Duration, reason controller.Reason) {
			d.add(moment{what: "retried", ref: ref, delay: delay, reason: reason})
		},
		Finalized: func(ref namespace.Ref) { d.add(moment{what: "finalized", ref: ref}) },
		Removed:   func(ref namespace.Ref) { d.add(moment{what: "removed", ref: ref}) },
	}}
}

// of returns the moments of one kind. If name is not empty, it returns only moments of that
// namespace.
func (d *diary) of(what, name string) []moment {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []moment
	for _, m := range d.moments {
		if m.what == what && (name == "" || m.ref.Name == name) {
			list = append(list, m)
		}
	}
	return list
}

// story returns the moments of one namespace, in order.
func (d *diary) story(name string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for _, m := range d.moments {
		if m.ref.Name != name {
			continue
		}
		what := m.what
		if m.outcome != 0 {
			what += " " + m.outcome.String()
		}
		if m.reason != "" {
			what += " " + string(m.reason)
		}
		list = append(list, what)
	}
	return list
}

// run runs a controller until the end of the test or a call of stop. stop returns after Run
// has returned.
func run(t testing.TB, namespaces controller.Namespaces, d deleter.Deleter, party namespace.Party, opts controller.Options) (stop func()) {
	t.Helper()
	c, err := controller.New(namespaces, d, party, &opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// names returns prefix-0 to prefix-(n-1).
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return list
}

// deleterFunc adapts a function to a Deleter.
type deleterFunc func(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error)

func (f deleterFunc) Delete(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
	return f(ctx, target, previous)
}

// failing returns options for content that always fails for the given namespaces.
func failing(err error, d time.Duration, of func(i int) bool, names ...string) func(int) contenttest.FakeOptions {
	slices.Sort(names)
	return func(i int) contenttest.FakeOptions {
		opts := contenttest.FakeOptions{Latency: d}
		if of(i) {
			opts.Fault = func(_ context.Context, call contenttest.Call) error {
				if _, ok := slices.BinarySearch(names, call.Target.Namespace); ok {
					return err
				}
				return nil
			}
		}
		return opts
	}
}

// journal is an in-memory log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
