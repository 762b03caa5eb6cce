package kubernetes

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// A read of the namespace that hangs, for a caller without a deadline, delays callers that share
// it or wait for the next one by at most the limit of one call.
func TestReadOfNamespaceIsBounded(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var reads atomic.Int32
			a := newAPI(t)
			c, err := New(Clients{
				Metadata:  a.content,
				Resources: func(context.Context) ([]*metav1.APIResourceList, error) { return nil, nil },
				Namespaces: &fakeClient{get: func(ctx context.Context) (*corev1.Namespace, error) {
					if reads.Add(1) == 1 {
						<-ctx.Done() // a dead connection
						return nil, ctx.Err()
					}
					return terminating("one"), nil
				}},
			}, &Options{Deleter: deleter.Options{CallTimeout: timeout}})
			require.NoError(t, err)
			if timeout == 0 {
				timeout = time.Minute
			}
			in, began := c.deleter.incarnations, time.Now()
			var group sync.WaitGroup
			group.Go(func() {
				err := in.confirmRecent(t.Context(), a.target)
				require.ErrorContains(t, err, "no response within "+timeout.String())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, deleter.ErrIncarnation)
			})
			synctest.Wait()
			for range 3 {
				group.Go(func() { require.NoError(t, in.confirmRecent(t.Context(), a.target)) })
			}
			group.Wait()
			require.Equal(t, timeout, time.Since(began))
		})
	}
}
