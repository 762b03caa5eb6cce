package kubernetes_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The types of a world, in the order of their indices.
var (
	pods    = namespace.ResourceType{Name: "pods"}
	configs = namespace.ResourceType{Name: "configmaps"}
	widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}
)

const (
	ofPods = iota
	ofConfigs
	ofWidgets
)

// world is a simulated API server of three types whose discovery can be disturbed.
type world struct {
	*simulated.API
	cluster *kubernetes.Cluster

	mu       sync.Mutex
	hidden   map[namespace.ResourceType]bool                // types that discovery does not show
	failed   error                                          // the error of discovery, in addition to its result
	extra    []*metav1.APIResourceList                      // further types that discovery shows
	requests func(context.Context, simulated.Request) error // before each request for content
}

func newWorld(tb testing.TB, version string, opts kubernetes.Options) *world {
	tb.Helper()
	w := &world{hidden: map[namespace.ResourceType]bool{}}
	types := make([]simulated.Type, 3)
	for i, r := range []namespace.ResourceType{pods, configs, widgets} {
		types[i].GroupVersionResource = schema.GroupVersionResource{Group: r.Group, Version: "v1", Resource: r.Name}
	}
	w.API = simulated.New(simulated.Options{Types: types, GitVersion: version, Before: w.before})
	w.restart(tb, opts)
	return w
}

// restart replaces the cluster by one without any knowledge.
func (w *world) restart(tb testing.TB, opts kubernetes.Options) {
	tb.Helper()
	var err error
	w.cluster, err = kubernetes.New(kubernetes.Clients{
		Namespaces: w.API.Namespaces(), Metadata: w.API.Metadata(), Resources: w.resources, Version: w.API.Version,
	}, &opts)
	require.NoError(tb, err)
}

// set changes the world between requests.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) before(ctx context.Context, r simulated.Request) error {
	w.mu.Lock()
	requests := w.requests
	w.mu.Unlock()
	if requests == nil {
		return nil
	}
	return requests(ctx, r)
}

func (w *world) resources(ctx context.Context) ([]*metav1.APIResourceList, error) {
	lists, err := w.API.Resources(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	shown := w.extra
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		part := &metav1.APIResourceList{GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			if !w.hidden[namespace.ResourceType{Group: gv.Group, Name: r.Name}] {
				part.APIResources = append(part.APIResources, r)
			}
		}
		shown = append(shown, part)
	}
	return shown, w.failed
}

// discoveries returns the number of discoveries. Each takes two requests.
func (w *world) discoveries() int { return w.Requests(simulated.Discover) / 2 }

func (w *world) create(tb testing.TB, name string) {
	tb.Helper()
	_, err := w.Namespaces().Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(tb, err)
}

func (w *world) put(tb testing.TB, name string, of int, objects ...simulated.Object) {
	tb.Helper()
	require.True(tb, w.Put(name, of, objects...))
}

func (w *world) delete(tb testing.TB, name string) {
	tb.Helper()
	require.NoError(tb, w.Namespaces().Delete(tb.Context(), name, metav1.DeleteOptions{}))
}

// pass runs one pass of the party kubernetes.
func (w *world) pass(tb testing.TB, name string, previous deleter.Report) (pass.Result, error) {
	tb.Helper()
	return pass.Run(tb.Context(), w.cluster.Namespaces(), w.cluster.Deleter(), owner, pass.Request{Name: name, Previous: previous})
}

// removed requires that a pass removes the namespace.
func (w *world) removed(tb testing.TB, name string, previous deleter.Report) {
	tb.Helper()
	result, err := w.pass(tb, name, previous)
	require.NoError(tb, err)
	require.Equal(tb, pass.Removed, result.Outcome)
}

// waits requires that a pass succeeds without removing the namespace.
func (w *world) waits(tb testing.TB, name string, previous deleter.Report) deleter.Report {
	tb.Helper()
	result, err := w.pass(tb, name, previous)
	require.NoError(tb, err)
	require.Equal(tb, pass.Waiting, result.Outcome)
	return result.Report.Compact()
}

// fails requires that a pass fails and does not remove the namespace.
func (w *world) fails(tb testing.TB, name string, previous deleter.Report) (deleter.Report, error) {
	tb.Helper()
	result, err := w.pass(tb, name, previous)
	require.Error(tb, err)
	require.Equal(tb, pass.Failed, result.Outcome)
	require.True(tb, result.Namespace.Spec.Finalizers.Has(owner.Finalizer))
	return result.Report.Compact(), err
}

// messages returns the messages of the five conditions.
func messages(tb testing.TB, ns namespace.Namespace) (all []string) {
	tb.Helper()
	conditions := slices.DeleteFunc(slices.Clone(ns.Status.Conditions), func(c phase.Condition) bool { return c.Type == phase.ContentLastSeen })
	require.Len(tb, conditions, 5)
	for _, c := range conditions {
		all = append(all, string(c.Type)+" "+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return all
}
