package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A page of another web site in a browser on the machine can neither change nor read
// anything. A page of an allowed host name can do both.
func TestOtherWebSites(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--store", "memory", "--controller=false", "--hosts", "console.example")
	core := as(t, p.kubeconfig, "")
	_, err := core.Namespaces().Create(t.Context(), newNamespace("victim"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, api, _ := strings.Cut(p.Until(t, "^serving on "), "http://")
	const all, victim = "/api/v1/namespaces", "/api/v1/namespaces/victim"
	attempts := []attempt{
		{Method: "POST", Path: all, Kind: "text", Body: `{"metadata":{"name":"text"}}`},
		{Method: "POST", Path: all, Kind: "untyped", Body: `{"metadata":{"name":"untyped"}}`},
		{Method: "POST", Path: all, Kind: "form", Body: `{"metadata":{"name":"form","annotations":{"a":"|"}}}`},
		{Method: "POST", Path: all, Kind: "json", Body: `{"metadata":{"name":"json"}}`},
		{Method: "POST", Path: victim + "/secrets", Kind: "untyped", Body: `{"metadata":{"name":"planted"}}`},
		{Method: "POST", Path: victim + "/finalize", Kind: "untyped", Body: `{"metadata":{"name":"victim"},"spec":{"finalizers":[]}}`},
		{Method: "GET", Path: all},
		{Method: "DELETE", Path: victim},
	}
	before, err := core.Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	answers := visit(t, api, "console.example", attempts)
	answers.requireRefused(t, attempts)
	var codes []int
	for _, a := range answers.Allowed {
		codes = append(codes, a.Status)
	}
	require.Equal(t, []int{415, 415, 0, 201, 415, 415, 200, 200}, codes)
	after, err := core.Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, ns := range after.Items {
		names = append(names, ns.Name)
		if ns.Name == "victim" {
			require.Equal(t, before.Items[len(before.Items)-1].Spec, ns.Spec, "it was finalized")
		}
	}
	require.Equal(t, []string{"default", "json", "kube-public", "kube-system", "victim"}, names, "only what the allowed page made")
	secrets, err := core.Secrets("victim").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, secrets.Items)

	_, pages, _ := strings.Cut(p.pages, "http://")
	pages, _, _ = strings.Cut(pages, "/")
	attempts = []attempt{
		{Method: "GET", Path: debugPath}, {Method: "GET", Path: debugPath + "?format=json"}, {Kind: "events", Path: debugPath + "?format=events"},
	}
	answers = visit(t, pages, "console.example", attempts)
	answers.requireRefused(t, attempts)
	for i, a := range answers.Allowed {
		require.Equal(t, http.StatusOK, a.Status, attempts[i])
	}
	require.Contains(t, answers.Allowed[1].Text, "victim")
	p.end(t)
}
