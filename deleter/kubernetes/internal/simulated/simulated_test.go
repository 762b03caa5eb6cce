package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func create(t *testing.T, a *simulated.API, name string) *corev1.Namespace {
	t.Helper()
	ns, err := a.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns
}

// things returns a client of the i-th type in a namespace.
func things(i int, a *simulated.API, namespace string) metadata.ResourceInterface {
	return a.Metadata().Resource(simulated.Types(i + 1)[i].GroupVersionResource).Namespace(namespace)
}

func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	e, ok := <-w.ResultChan()
	if !ok {
		return "end"
	}
	o, ok := e.Object.(metav1.Object)
	require.True(t, ok)
	return fmt.Sprintf("%s %s", e.Type, o.GetName())
}

func TestNamespaces(t *testing.T) {
	ctx, a := t.Context(), simulated.New(simulated.Options{})
	list, err := a.Namespaces().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	all, err := a.Namespaces().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	some := metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "status.phase=Terminating"}

	made := create(t, a, "n")
	require.Equal(t, []corev1.FinalizerName{"kubernetes"}, made.Spec.Finalizers)
	_, err = a.Namespaces().Create(ctx, made, metav1.CreateOptions{})
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	require.NoError(t, a.Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
	_, err = a.Namespaces().Finalize(ctx, made, metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)

	ns, err := a.Namespaces().Get(ctx, "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.NamespaceTerminating, ns.Status.Phase)
	ns.Status.Conditions = []corev1.NamespaceCondition{{Type: "X"}}
	ns.Spec.Finalizers = nil
	ns, err = a.Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Len(t, ns.Spec.Finalizers, 1, "only the status is written")
	found, err := a.Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Terminating"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]corev1.Namespace{*ns}, found.Items))

	ns.Spec.Finalizers = nil
	_, err = a.Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = a.Namespaces().Get(ctx, "n", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	for _, e := range []string{"ADDED n", "MODIFIED n", "MODIFIED n", "DELETED n"} {
		require.Equal(t, e, next(t, all))
	}
	terminating, err := a.Namespaces().Watch(ctx, some)
	require.NoError(t, err)
	for _, e := range []string{"ADDED n", "MODIFIED n", "DELETED n"} {
		require.Equal(t, e, next(t, terminating))
	}
	all.Stop()
	require.Equal(t, "end", next(t, all))
	all.Stop()
}

func TestContent(t *testing.T) {
	ctx, a := t.Context(), simulated.New(simulated.Options{Types: simulated.Types(3)})
	require.False(t, a.Put("n", 0, simulated.Object{Name: "x"}))
	create(t, a, "n")
	require.True(t, a.Put("n", 1, simulated.Object{Name: "b"}, simulated.Object{Name: "c", Finalizers: []string{"f"}}, simulated.Object{Name: "a"}))

	page, err := things(1, a, "n").List(ctx, metav1.ListOptions{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{page.Items[0].Name, page.Items[1].Name})
	require.EqualValues(t, 1, *page.RemainingItemCount)
	rest, err := things(1, a, "n").List(ctx, metav1.ListOptions{Limit: 2, Continue: page.Continue})
	require.NoError(t, err)
	require.Equal(t, "c", rest.Items[0].Name)
	require.Empty(t, rest.Continue)
	changes, err := things(1, a, "n").Watch(ctx, metav1.ListOptions{ResourceVersion: page.ResourceVersion})
	require.NoError(t, err)

	other := types.UID("other")
	err = things(1, a, "n").Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.ErrorContains(t, err, "UID in precondition")
	require.NoError(t, things(1, a, "n").Delete(ctx, "a", metav1.DeleteOptions{}))
	err = things(1, a, "n").Delete(ctx, "a", metav1.DeleteOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	for range 2 {
		require.NoError(t, things(1, a, "n").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	}
	require.Equal(t, 1, a.Objects("n"))
	c, err := things(1, a, "n").Get(ctx, "c", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, c.DeletionTimestamp)
	a.Release("n", 1, "c")
	for _, e := range []string{"DELETED a", "DELETED b", "MODIFIED c", "DELETED c"} {
		require.Equal(t, e, next(t, changes))
	}
	require.Zero(t, a.Objects("n"))

	_, err = things(1, a, "n").Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	_, err = things(5, a, "n").List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = things(2, a, "none").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, a := t.Context(), simulated.New(simulated.Options{Types: simulated.Types(2), Latency: time.Second})
		began := time.Now()
		create(t, a, "n")
		require.Equal(t, time.Second, time.Since(began))
		a.Put("n", 0,
			simulated.Object{Name: "graceful", Grace: 30 * time.Second},
			simulated.Object{Name: "held", Finalizers: []string{"f"}, Held: time.Minute},
			simulated.Object{Name: "stuck", Finalizers: []string{"f"}, Grace: time.Second})
		require.NoError(t, things(0, a, "n").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		began = time.Now()
		o, err := things(0, a, "n").Get(ctx, "graceful", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, began.Add(30*time.Second), o.DeletionTimestamp.Time)
		require.EqualValues(t, 30, *o.DeletionGracePeriodSeconds)
		for _, left := range []int{3, 2, 1, 1} {
			require.Equal(t, left, a.Objects("n"))
			time.Sleep(29*time.Second + 600*time.Millisecond)
		}

		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, err = things(0, a, "n").List(short, metav1.ListOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w, err := things(0, a, "n").Watch(t.Context(), metav1.ListOptions{ResourceVersion: o.ResourceVersion})
		require.NoError(t, err)
		w.Stop()
		within, end := context.WithCancel(ctx)
		w, err = things(0, a, "elsewhere").Watch(within, metav1.ListOptions{})
		require.NoError(t, err)
		end()
		require.Equal(t, "end", next(t, w))
	})
}

func TestRequestsAndFailures(t *testing.T) {
	ctx, broken := t.Context(), errors.New("broken")
	types := simulated.Types(41)
	types[2].Verbs = []string{"list", "delete"}
	a := simulated.New(simulated.Options{Types: types, GitVersion: "v1.36.0", Before: func(_ context.Context, r simulated.Request) error {
		if r == (simulated.Request{Verb: simulated.List, Resource: namespace.ResourceType{Group: "g0.example.com", Name: "things001"}, Namespace: "n"}) {
			return broken
		}
		return nil
	}})
	create(t, a, "n")
	_, err := things(1, a, "n").List(ctx, metav1.ListOptions{})
	require.ErrorIs(t, err, broken)
	_, err = things(0, a, "n").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	err = things(2, a, "n").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	require.True(t, apierrors.IsMethodNotSupported(err), "%v", err)

	lists, err := a.Resources(ctx)
	require.NoError(t, err)
	n := 0
	for _, l := range lists {
		_, err := schema.ParseGroupVersion(l.GroupVersion)
		require.NoError(t, err)
		n += len(l.APIResources)
	}
	require.Equal(t, []int{4, 41}, []int{len(lists), n})
	info, err := a.Version(ctx)
	require.NoError(t, err)
	require.Equal(t, "v1.36.0", info.GitVersion)

	require.Equal(t, 7, a.Requests())
	require.Equal(t, 2, a.Requests(simulated.List))
	require.Equal(t, 1, a.RequestsFor(simulated.Namespaces))
	require.Equal(t, 1, a.RequestsFor(namespace.ResourceType{Name: "pods"}, simulated.Get, simulated.List))
	require.Equal(t, 3, a.Requests(simulated.Discover, simulated.Version))
	a.ResetRequests()
	require.Zero(t, a.Requests())
}

// A watcher that does not read is ended and delays no other client. It can resume until its
// position is forgotten.
func TestSlowWatcher(t *testing.T) {
	ctx, a := t.Context(), simulated.New(simulated.Options{Types: simulated.Types(1)})
	made := create(t, a, "n")
	w, err := things(0, a, "n").Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	require.NoError(t, err)
	const many = 5000
	for i := range many {
		a.Put("n", 0, simulated.Object{Name: fmt.Sprintf("x%04d", i)})
	}
	seen := 0
	for range w.ResultChan() {
		seen++
	}
	require.Less(t, seen, many)
	w.Stop()
	_, err = things(0, a, "n").Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
}

func TestParallel(t *testing.T) {
	ctx, a := t.Context(), simulated.New(simulated.Options{Types: simulated.Types(8)})
	var group sync.WaitGroup
	for n := range 8 {
		name := fmt.Sprint("n", n)
		create(t, a, name)
		for i := range 8 {
			group.Go(func() {
				w, err := things(i, a, name).Watch(ctx, metav1.ListOptions{ResourceVersion: "1000000"})
				if err != nil {
					t.Error(err)
					return
				}
				defer w.Stop()
				for o := range 10 {
					a.Put(name, i, simulated.Object{Name: fmt.Sprint(o), Finalizers: []string{"f"}})
					a.Release(name, i, fmt.Sprint(o))
				}
				if err := things(i, a, name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	for n := range 8 {
		require.Zero(t, a.Objects(fmt.Sprint("n", n)))
	}
	require.Equal(t, 8+2*64, a.Requests())
}
