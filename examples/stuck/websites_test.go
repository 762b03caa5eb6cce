package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/examples/internal/websites"
)

// A page of another web site presses no button and reads nothing; one of a name that is
// allowed does.
func TestOtherWebSites(t *testing.T) {
	t.Parallel()
	p := programs.Self(t, "--listen", "127.0.0.1:0", "--hosts", "console.example")
	_, address, _ := strings.Cut(p.Until(t, "the museum is open"), "http://")
	attempts := []websites.Attempt{
		{Method: "GET", Path: "/"}, {Method: "GET", Path: "/debug/?format=json"}, {Kind: "events", Path: "/debug/?format=events"},
		{Method: "POST", Path: "/remedy/large", Kind: "form", Body: "a|b"},
		{Method: "POST", Path: "/remedy/unknown", Kind: "untyped"},
	}
	answers := websites.Visit(t, strings.TrimSuffix(address, "/"), "console.example", attempts)
	answers.RequireRefused(t, attempts)
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, 0, http.StatusNotFound} {
		require.Equal(t, want, answers.Allowed[i].Status, attempts[i])
	}
}
