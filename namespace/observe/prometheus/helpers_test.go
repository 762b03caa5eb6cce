package prometheus_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
)

const agent finalizer.Name = "example.com/agent"

// exported is a collector in a registry.
type exported struct {
	*prometheus.Collector
	registry *client.Registry
}

func export(t testing.TB, f finalizer.Name, opts *prometheus.Options) exported {
	t.Helper()
	c, err := prometheus.New(f, opts)
	require.NoError(t, err)
	r := client.NewPedanticRegistry() // it compares descriptions with collected metrics
	require.NoError(t, r.Register(c))
	return exported{c, r}
}

// text returns the scraped lines without comments, buckets and the label of the party.
func (e exported) text(t testing.TB) []string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, recorder.Code, recorder.Body.String())
	var lines []string
	for line := range strings.Lines(recorder.Body.String()) {
		if strings.HasPrefix(line, "#") || strings.Contains(line, "_bucket{") {
			continue
		}
		require.Contains(t, line, `finalizer="`)
		for _, party := range []string{`{finalizer="` + string(agent) + `"}`, `finalizer="` + string(agent) + `",`} {
			line = strings.ReplaceAll(line, party, "")
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// values returns the lines whose value is not zero.
func (e exported) values(t testing.TB) []string {
	t.Helper()
	var lines []string
	for _, line := range e.text(t) {
		if !strings.HasSuffix(line, " 0") {
			lines = append(lines, line)
		}
	}
	return lines
}

// of returns the lines of one metric.
func (e exported) of(t testing.TB, name string) []string {
	t.Helper()
	var lines []string
	for _, line := range e.text(t) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// world is a host and content of one type.
type world struct {
	*controllertest.Host
	content *contenttest.Fake
	deleter *deleter.Composed
}

var widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}

func newWorld(t testing.TB, opts *contenttest.FakeOptions) world {
	t.Helper()
	w := world{Host: new(controllertest.Host), content: contenttest.NewFake(opts)}
	var err error
	w.deleter, err = deleter.New([]deleter.Source{{Resource: widgets, Content: w.content, Final: true}}, nil)
	require.NoError(t, err)
	return w
}

// terminate creates a namespace with objects held by a finalizer, and deletes it.
func (w world) terminate(t testing.TB, name string, held ...string) deleter.Target {
	t.Helper()
	ns, err := w.Create(t.Context(), namespace.Namespace{
		Meta: namespace.Meta{Name: name}, Spec: namespace.Spec{Finalizers: finalizer.NewSet(agent)},
	})
	require.NoError(t, err)
	ns.Spec.Finalizers = finalizer.NewSet(agent) // no other party
	ns, err = w.Finalize(t.Context(), ns)
	require.NoError(t, err)
	target := deleter.Target{Namespace: name, UID: ns.UID, DeletedAt: time.Now()}
	for _, object := range held {
		w.content.Put(target, contenttest.Object{Name: object, Finalizers: []string{"example.com/f"}})
	}
	_, err = w.Delete(t.Context(), name)
	require.NoError(t, err)
	return target
}

// run runs a controller until it is stopped, or the test ends.
func (w world) run(t testing.TB, opts controller.Options) (stop func()) {
	t.Helper()
	c, err := controller.New(w, w.deleter, namespace.Party{Finalizer: agent}, &opts)
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
