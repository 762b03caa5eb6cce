package agent

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/namespace"
	why "github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// pages returns the URL of an agent's debug pages.
func pages(t *testing.T, agent *process) string {
	t.Helper()
	_, address, _ := strings.Cut(agent.until(t, "^debug pages at "), " at ")
	return address
}

// read decodes a debug page from JSON.
func read(t *testing.T, page string, into any) {
	t.Helper()
	answer, err := http.Get(page)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
}

type page struct{ Diagnosis why.Diagnosis }

// The leader's debug pages show its passes and need no additional permissions. The pages of a
// standby show only the namespace's status.
func TestDebugPages(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false",
		"--tokens", filepath.Join("testdata", "tokens.csv"), "--grants", filepath.Join("testdata", "grants.json"))
	flags := []string{"--kubeconfig", s.user(t, "agent"), "--finalizer", string(ours), "--except", "secrets", "--debug-pages"}
	leader := startAgent(t, append(flags, "--identity", "one")...)
	leader.until(t, "watching")
	second := startAgent(t, append(flags, "--identity", "two")...)
	second.until(t, "standing by")
	s.create(t, "a", []corev1.FinalizerName{ours, stock}, "t001/a")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	s.remove(t, "a")
	leader.until(t, "waiting")

	var leads, standsBy page
	read(t, pages(t, leader)+"?format=json&namespace=a", &leads)
	require.Equal(t, why.Held, leads.Diagnosis.Causes[0].Kind)
	require.Equal(t, []string{"kept"}, leads.Diagnosis.Objects[0].Sample)
	require.NotEmpty(t, leads.Diagnosis.Passes)
	read(t, pages(t, second)+"?format=json&namespace=a", &standsBy)
	require.Equal(t, why.Held, standsBy.Diagnosis.Causes[0].Kind)
	require.Equal(t, 1, standsBy.Diagnosis.Objects[0].Remaining)
	require.Empty(t, standsBy.Diagnosis.Passes)
	for _, agent := range []*process{leader, second} {
		var index struct {
			Terminating int
			Namespaces  []struct{ Name string }
			Notes       []string
		}
		read(t, pages(t, agent)+"?format=json", &index)
		require.Equal(t, 1, index.Terminating)
		require.Len(t, index.Namespaces, 1)
		require.Equal(t, "a", index.Namespaces[0].Name)
		require.Empty(t, index.Notes)
	}
	open, err := http.Get(pages(t, leader) + "?format=events") // as a browser does
	require.NoError(t, err)
	defer open.Body.Close()
	require.Equal(t, http.StatusOK, open.StatusCode)
	stop(t, leader)
	stop(t, second)
}

// A replica that lost the lead no longer shows its passes, which are out of date.
func TestExplainAfterTheLead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"},
			"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}`)
	}))
	t.Cleanup(server.Close)
	a, err := New(&rest.Config{Host: server.URL}, Config{})
	require.NoError(t, err)
	for _, h := range a.hooks() {
		h.PassEnded(t.Context(), namespace.Ref{Name: "a", UID: "u"}, pass.Result{Outcome: pass.Failed}, errors.New("lost"), time.Second)
	}
	for leading, passes := range map[bool]int{true: 1, false: 0} {
		a.leading.Store(leading)
		d, err := a.Explain(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, d.Passes, passes)
	}
}

// Debug pages show names of objects, so they are off by default.
func TestNoDebugPages(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	agent := s.agent(t)
	agent.until(t, "watching")
	address := strings.TrimPrefix(agent.until(t, "health and metrics at"), "health and metrics at ")
	answer, err := http.Get(address + pagesPath)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.NotContains(t, agent.output(), "debug pages")
	stop(t, agent)
}

// --explain sends only GET requests and needs no running agent.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	s.create(t, "a", []corev1.FinalizerName{ours, stock}, "t001/a", "t001/b")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	explained := func(name string, want int) string {
		p := s.agent(t, "--explain", name, "--server", f.address, "--finalizer", string(ours))
		code, fault := p.exit()
		require.Equal(t, want, code, "%s%s", p.output(), fault)
		return passing.ReplaceAllString(slow.ReplaceAllString(p.output(), ""), "...")
	}
	golden(t, "explain-active.txt", explained("a", 0))
	golden(t, "explain-unknown.txt", explained("b", 1))
	agent := s.agent(t, "--finalizer", string(ours))
	agent.until(t, "watching")
	s.remove(t, "a")
	agent.until(t, "waiting")
	stop(t, agent)
	ns, err := s.core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	golden(t, "explain-terminating.txt", explained("a", 0))
	after, err := s.core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, ns.ResourceVersion, after.ResourceVersion)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.methods, 1)
	require.NotZero(t, f.methods[http.MethodGet])
}

// passing matches text that differs between runs; slow appears after a second.
var (
	passing = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m)( \d+s)?\b|(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC|[0-9a-f]{8}-[0-9a-f-]{27}`)
	slow    = regexp.MustCompile(`, no fewer for [^\n]*`)
)
