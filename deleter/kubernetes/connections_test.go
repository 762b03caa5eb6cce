package kubernetes

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Over HTTP/1, where each concurrent request needs a connection, passes reuse connections.
func TestConnectionsAreKept(t *testing.T) {
	const many, rounds = 50, 5
	var together sync.WaitGroup
	var opened atomic.Int32
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
	answer := page(http.StatusOK, "application/json", list)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		together.Done()
		together.Wait()
		answer(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	clients, err := clientsFor(withClientDefaults(&rest.Config{Host: s.URL}), time.Minute)
	require.NoError(t, err)
	for range rounds {
		together.Add(many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				_, err := clients.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("n").List(t.Context(), metav1.ListOptions{})
				assert.NoError(t, err)
			})
		}
		all.Wait()
	}
	// A connection that is returned a little late causes one more.
	require.Less(t, int(opened.Load()), 2*many)
}

// The client keeps as many connections as a pass uses by default.
func TestConnectionsForAPass(t *testing.T) {
	config := &rest.Config{Host: "http://localhost"}
	require.NoError(t, withOwnTransport(config))
	kept := config.Transport.(*http.Transport)
	require.Equal(t, (*Options)(nil).withDefaults().Deleter.Parallelism, kept.MaxIdleConnsPerHost)
	require.Zero(t, kept.MaxIdleConns)
}
