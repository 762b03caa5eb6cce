package main

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/websites"
)

// A page of another web site reads nothing of the agent; one of a name that is allowed does.
func TestOtherWebSites(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	agent := s.agent(t, "--debug-pages", "--hosts", "console.example")
	agent.Until(t, "watching")
	address, err := url.Parse(pages(t, agent))
	require.NoError(t, err)
	attempts := []websites.Attempt{
		{Method: "GET", Path: "/healthz"}, {Method: "GET", Path: "/metrics"}, {Method: "GET", Path: pagesPath + "?format=json"},
		{Kind: "events", Path: pagesPath + "?format=events"},
	}
	answers := websites.Visit(t, address.Host, "console.example", attempts)
	answers.RequireRefused(t, attempts)
	for i, a := range answers.Allowed {
		require.Equal(t, http.StatusOK, a.Status, attempts[i])
	}
	stop(t, agent)
}
