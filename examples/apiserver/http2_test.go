package main

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// client-go uses HTTP/2 over HTTPS: lists and watches share one connection. When the program
// stops, it completes the responses of open watches.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := start(t, "--store", kindMemory, "--tokens", filepath.Join("testdata", "tokens.csv"))
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: s.kubeconfig}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: "admin"}).ClientConfig()
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(c)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	get := func(target string) *http.Response {
		answer, err := client.Get(c.Host + target)
		require.NoError(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, 2, answer.ProtoMajor)
		return answer
	}
	watch := get("/api/v1/namespaces?watch=true")
	list, err := io.ReadAll(get("/api/v1/namespaces").Body)
	require.NoError(t, err)
	require.Contains(t, string(list), "kube-system")
	s.stop(t)
	events, err := io.ReadAll(watch.Body)
	require.NoError(t, err, "the watch was cut off")
	require.Contains(t, string(events), "kube-system")
}
