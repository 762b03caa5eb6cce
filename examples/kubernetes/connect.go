package main

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection finds the API server as kubectl does, and in a pod by its service
// account. Nothing is asked of it yet.
func (c config) connection() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	var overrides clientcmd.ConfigOverrides
	overrides.ClusterInfo.Server = c.server
	connection, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no API server is known: name one by --kubeconfig or --server, or run in a pod of it")
	case err != nil && c.kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	case err != nil:
		return nil, err
	}
	connection.QPS, connection.Burst = float32(c.qps), c.burst
	connection.UserAgent = "nslifecycle/" + string(c.finalizer)
	if !c.verbose {
		connection.WarningHandler = rest.NoWarnings{} // such as that a type is deprecated: it is listed all the same
	}
	return connection, nil
}

// counted counts the requests that go through it.
type counted struct {
	next  http.RoundTripper
	count func(method, code string)
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	code := "none"
	if err == nil {
		code = fmt.Sprint(answer.StatusCode)
	}
	c.count(r.Method, code)
	return answer, err
}

// WrappedRoundTripper lets client-go reach what is beneath.
func (c counted) WrappedRoundTripper() http.RoundTripper { return c.next }
