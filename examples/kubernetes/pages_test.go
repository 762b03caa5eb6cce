package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
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

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/namespace"
	why "github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// pages returns where the debug pages of an agent are.
func pages(t *testing.T, agent *programs.Process) string {
	t.Helper()
	_, address, _ := strings.Cut(agent.Until(t, "^debug pages at "), " at ")
	return address
}

// read reads a debug page as data.
func read(t *testing.T, page string, into any) {
	t.Helper()
	answer, err := http.Get(page)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
}

type page struct{ Diagnosis why.Diagnosis }

// The debug pages tell what the agent sees, with no more permissions than its work
// needs. A replica that stands by tells what the namespace itself does.
func TestDebugPages(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false",
		"--tokens", filepath.Join("testdata", "tokens.csv"), "--grants", filepath.Join("testdata", "grants.json"))
	flags := []string{"--kubeconfig", s.user(t, "agent"), "--finalizer", string(ours), "--except", "secrets", "--debug-pages"}
	leader := programs.Self(t, append(flags, "--identity", "one")...)
	leader.Until(t, "watching")
	second := programs.Self(t, append(flags, "--identity", "two")...)
	second.Until(t, "standing by")
	s.create(t, "a", []corev1.FinalizerName{ours, stock}, "t001/a")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	s.remove(t, "a")
	leader.Until(t, "waits")

	var seen, told page
	read(t, pages(t, leader)+"?format=json&namespace=a", &seen)
	require.Equal(t, why.Held, seen.Diagnosis.Causes[0].Kind)
	require.Equal(t, []string{"kept"}, seen.Diagnosis.Objects[0].Sample)
	require.NotEmpty(t, seen.Diagnosis.Passes)
	read(t, pages(t, second)+"?format=json&namespace=a", &told)
	require.Equal(t, why.Held, told.Diagnosis.Causes[0].Kind)
	require.Equal(t, 1, told.Diagnosis.Objects[0].Remaining)
	require.Empty(t, told.Diagnosis.Passes)
	for _, agent := range []*programs.Process{leader, second} {
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
	open, err := http.Get(pages(t, leader) + "?format=events") // as a browser keeps it
	require.NoError(t, err)
	defer open.Body.Close()
	require.Equal(t, http.StatusOK, open.StatusCode)
	stop(t, leader)
	stop(t, second)
}

// What a replica saw while it led is not how things are when it does not any more.
func TestExplainAfterTheLead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"},
			"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}`)
	}))
	t.Cleanup(server.Close)
	c, err := parse([]string{"--server", server.URL}, io.Discard)
	require.NoError(t, err)
	a, err := newAgent(c, io.Discard, slog.New(slog.DiscardHandler))
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

// Who does not ask for debug pages has none: they tell the names of objects.
func TestNoDebugPages(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	agent := s.agent(t)
	agent.Until(t, "watching")
	address := strings.TrimPrefix(agent.Until(t, "health and metrics at"), "health and metrics at ")
	answer, err := http.Get(address + pagesPath)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.NotContains(t, agent.Said(), "debug pages")
	stop(t, agent)
}

// An explanation tells what keeps a namespace, sends nothing but GETs, and needs no
// agent that runs.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	s.create(t, "a", []corev1.FinalizerName{ours, stock}, "t001/a", "t001/b")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	explained := func(name string, want int) string {
		p := s.agent(t, "--explain", name, "--server", f.address, "--finalizer", string(ours))
		code, fault := p.Exit()
		require.Equal(t, want, code, "%s%s", p.Said(), fault)
		return passing.ReplaceAllString(slow.ReplaceAllString(p.Said(), ""), "...")
	}
	golden(t, "explain-active.txt", explained("a", 0))
	golden(t, "explain-unknown.txt", explained("b", 1))
	agent := s.agent(t, "--finalizer", string(ours))
	agent.Until(t, "watching")
	s.remove(t, "a")
	agent.Until(t, "waits")
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

// passing is what differs from run to run, and slow is said when a second has passed.
var (
	passing = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m)( \d+s)?\b|(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC|[0-9a-f]{8}-[0-9a-f-]{27}`)
	slow    = regexp.MustCompile(`, not less for [^\n]*`)
)
