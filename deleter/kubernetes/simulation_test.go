package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

var owner = namespace.Party{Finalizer: finalizer.Kubernetes}

// simulation is a cluster over a simulated API server.
type simulation struct {
	types   int
	api     *simulated.API
	cluster *kubernetes.Cluster
}

// simulate creates a cluster of n types. By default there is no wait after the discovery of a
// server without a version, because most tests are not about late content.
func simulate(tb testing.TB, n int, server simulated.Options, opts kubernetes.Options) *simulation {
	tb.Helper()
	server.Types = simulated.Types(n)
	if opts.Wait == 0 && server.GitVersion == "" {
		opts.Wait = -1
	}
	s := &simulation{types: n, api: simulated.New(server)}
	var err error
	s.cluster, err = kubernetes.New(kubernetes.Clients{
		Namespaces: s.api.Namespaces(), Metadata: s.api.Metadata(), Resources: s.api.Resources, Version: s.api.Version,
	}, &opts)
	require.NoError(tb, err)
	return s
}

// create creates an active namespace with some objects of each type.
func (s *simulation) create(tb testing.TB, name string, each int) {
	tb.Helper()
	_, err := s.api.Namespaces().Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(tb, err)
	for i := range s.types {
		for o := range each {
			s.api.Put(name, i, simulated.Object{Name: fmt.Sprint("object-", o)})
		}
	}
}

func (s *simulation) delete(tb testing.TB, name string) {
	tb.Helper()
	require.NoError(tb, s.api.Namespaces().Delete(tb.Context(), name, metav1.DeleteOptions{}))
}

// pass runs one pass over a namespace and returns its requests.
func (s *simulation) pass(tb testing.TB, name string, previous deleter.Report) (pass.Result, int, error) {
	tb.Helper()
	before := s.api.Requests()
	result, err := pass.Run(tb.Context(), s.cluster.Namespaces(), s.cluster.Deleter(), owner, pass.Request{Name: name, Previous: previous})
	return result, s.api.Requests() - before, err
}

// stockPass is one pass in the manner of the stock controller: sequential requests, and every type
// in every pass.
func stockPass(tb testing.TB, a *simulated.API, name string) {
	tb.Helper()
	ctx := tb.Context()
	ns, err := a.Namespaces().Get(ctx, name, metav1.GetOptions{})
	require.NoError(tb, err)
	types, err := a.Resources(ctx)
	require.NoError(tb, err)
	for _, list := range types {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(tb, err)
		for _, r := range list.APIResources {
			require.True(tb, slices.Contains([]string(r.Verbs), "deletecollection"))
			content := a.Metadata().Resource(gv.WithResource(r.Name)).Namespace(name)
			background := metav1.DeletePropagationBackground
			require.NoError(tb, content.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}))
			left, err := content.List(ctx, metav1.ListOptions{})
			require.NoError(tb, err)
			require.Empty(tb, left.Items)
		}
	}
	ns.Status.Conditions = stockConditions()
	ns, err = a.Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	require.NoError(tb, err)
	ns.Spec.Finalizers = nil
	_, err = a.Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	require.NoError(tb, err)
}

func stockConditions() []corev1.NamespaceCondition {
	var conditions []corev1.NamespaceCondition
	for _, name := range []corev1.NamespaceConditionType{
		corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure, corev1.NamespaceDeletionContentFailure,
		corev1.NamespaceContentRemaining, corev1.NamespaceFinalizersRemaining,
	} {
		conditions = append(conditions, corev1.NamespaceCondition{Type: name, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()})
	}
	return conditions
}

var errBroken = apierrors.NewInternalError(errors.New("broken"))

// failing makes one type fail permanently in namespaces whose names begin with "sick".
func failing(latency time.Duration) simulated.Options {
	broken := simulated.Types(60)[33].Resource
	return simulated.Options{Latency: latency, Before: func(_ context.Context, r simulated.Request) error {
		if r.Resource.Name == broken && strings.HasPrefix(r.Namespace, "sick") {
			return errBroken
		}
		return nil
	}}
}
