package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

// Two candidates share a lease: the second leads after the first has released it.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	h := plan{}.start(t)
	clients := h.typed(t, mediaProtobuf)
	first := candidate(t, clients, "first")
	firstCtx, letGo := context.WithCancel(t.Context())
	defer letGo()
	secondCtx, end := context.WithCancel(t.Context())
	defer end()
	var group sync.WaitGroup
	defer group.Wait()
	defer letGo()
	defer end()
	group.Go(func() { first.elector.Run(firstCtx) })
	<-first.leads

	second := candidate(t, clients, "second")
	group.Go(func() { second.elector.Run(secondCtx) })
	require.Equal(t, "first", <-second.leader, "the second sees who leads")
	select {
	case <-second.leads:
		t.Fatal("two lead")
	default:
	}
	letGo()
	<-second.leads
	lease, err := clients.CoordinationV1().Leases("default").Get(t.Context(), "leader", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "second", *lease.Spec.HolderIdentity)
	require.EqualValues(t, 1, *lease.Spec.LeaseTransitions)
}

type runner struct {
	elector *leaderelection.LeaderElector
	leads   chan struct{}
	leader  chan string
}

func candidate(t *testing.T, clients *kubernetes.Clientset, identity string) runner {
	t.Helper()
	r := runner{leads: make(chan struct{}), leader: make(chan string, 16)}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "default", "leader", clients.CoreV1(), clients.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity})
	require.NoError(t, err)
	r.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   30 * time.Second, // a slow machine must not lose it
		RenewDeadline:   20 * time.Second,
		RetryPeriod:     100 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(r.leads) },
			OnStoppedLeading: func() {},
			OnNewLeader:      func(identity string) { r.leader <- identity },
		},
	})
	require.NoError(t, err)
	return r
}

// Conflicting updates with retries are all counted.
func TestRetryOnConflict(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 20
	h := plan{}.start(t)
	maps := h.typed(t, mediaProtobuf).CoreV1().ConfigMaps("default")
	_, err := maps.Create(t.Context(), newConfigMap("counter", map[string]string{"n": "0"}), metav1.CreateOptions{})
	require.NoError(t, err)
	patient := wait.Backoff{Steps: writers * each * 4, Duration: time.Millisecond, Jitter: 1}
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			for range each {
				err := retry.RetryOnConflict(patient, func() error {
					c, err := maps.Get(t.Context(), "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(c.Data["n"])
					if err != nil {
						return err
					}
					c.Data["n"] = strconv.Itoa(n + 1)
					_, err = maps.Update(t.Context(), c, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	c, err := maps.Get(t.Context(), "counter", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(writers*each), c.Data["n"])
}

// Typed clients can use server-side apply: ownership of fields, conflicts between owners, and
// extraction of the owned fields.
func TestServerSideApply(t *testing.T) {
	eachMedia(t, func(t *testing.T, h *host, clients *kubernetes.Clientset) {
		ctx, maps := t.Context(), clients.CoreV1().ConfigMaps("default")
		one := applycorev1.ConfigMap("owned", "default").WithData(map[string]string{"colour": "red"})
		_, err := maps.Apply(ctx, one, metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		two := applycorev1.ConfigMap("owned", "default").WithData(map[string]string{"colour": "blue", "shape": "round"})
		_, err = maps.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two"})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.True(t, apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "%v", err)
		applied, err := maps.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two", Force: true})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"colour": "blue", "shape": "round"}, applied.Data)

		owned, err := applycorev1.ExtractConfigMap(applied, "two")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"colour": "blue", "shape": "round"}, owned.Data)
		owned, err = applycorev1.ExtractConfigMap(applied, "one")
		require.NoError(t, err)
		require.Empty(t, owned.Data)

		// A field that its owner no longer applies is removed.
		two = applycorev1.ConfigMap("owned", "default").WithData(map[string]string{"colour": "blue"})
		applied, err = maps.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two"})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"colour": "blue"}, applied.Data)

		// An apply to a namespace does not change its finalizers (rule R4).
		ns, err := clients.CoreV1().Namespaces().Apply(ctx, applycorev1.Namespace("applied").WithLabels(map[string]string{"team": "a"}), metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		require.Len(t, ns.Spec.Finalizers, 1)
		text, err := json.Marshal(ns.ManagedFields)
		require.NoError(t, err)
		require.Contains(t, string(text), `"f:team"`)
	})
}
