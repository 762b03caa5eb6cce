package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// process is the program in its own process, with debug pages.
type process struct {
	*programs.Process
	kubeconfig string
	pages      string // address of the debug pages
}

func startProcess(t *testing.T, args ...string) process {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	args = append([]string{"--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0", "--write-kubeconfig", kubeconfig}, args...)
	p := programs.Self(t, args...)
	p.Until(t, "get namespaces")
	_, pages, found := strings.Cut(p.Until(t, "^debug pages on "), "on ")
	require.True(t, found)
	return process{p, kubeconfig, pages}
}

// end stops the process with SIGTERM and requires exit code 0.
func (p process) end(t *testing.T) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	code, fault := p.Exit()
	require.Zero(t, code, fault)
}

// page decodes the JSON of a namespace's debug page. If name is empty, it decodes the index.
func (p process) page(t *testing.T, name string, into any) {
	t.Helper()
	answer, err := http.Get(p.pages + "?format=json&namespace=" + url.QueryEscape(name))
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
}

// open subscribes to a debug page as a browser does, and waits until the page contains
// shows. The page stays open until the returned body is closed.
func (p process) open(t *testing.T, name, shows string) io.Closer {
	t.Helper()
	answer, err := http.Get(p.pages + "?format=events&namespace=" + url.QueryEscape(name))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), shows) {
			return answer.Body
		}
	}
	require.Fail(t, "the page was closed", "it does not show %q: %v", shows, lines.Err())
	return nil
}

// details is the debug page of one namespace. index is the page of all namespaces.
type details struct {
	Diagnosis explain.Diagnosis `json:"diagnosis"`
	Audit     []audit.Record    `json:"audit"`
}

type index struct {
	Active, Terminating, OnHold int
	Parties                     []parties.Party
}

// The debug pages show the controller's view, the announced parties and the declarations
// with their authors.
func TestDebugPages(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--store", kindMemory, "--tokens", filepath.Join("testdata", "tokens.csv"))
	core, ctx := as(t, p.kubeconfig, "admin"), t.Context()
	p.open(t, "", "party/kubernetes").Close() // wait until the controller has announced itself
	for _, name := range []string{"held", "waits"} {
		_, err := core.Namespaces().Create(ctx, newNamespace(name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	kept := newConfigMap("kept")
	kept.Finalizers = []string{"example.com/keep"}
	_, err := core.ConfigMaps("held").Create(ctx, kept, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, core.Namespaces().Delete(ctx, "held", metav1.DeleteOptions{}))
	patch := []byte(`{"metadata":{"annotations":{"` + declare.GraceAnnotation + `":"1h"}}}`)
	_, err = core.Namespaces().Patch(ctx, "waits", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, core.Namespaces().Delete(ctx, "waits", metav1.DeleteOptions{}))

	open := p.open(t, "held", "example.com/keep") // the page shows it only after a pass
	var held, waits details
	p.page(t, "held", &held)
	require.Equal(t, explain.Held, held.Diagnosis.Causes[0].Kind)
	require.Equal(t, []string{"kept"}, held.Diagnosis.Objects[0].Sample)
	require.NotEmpty(t, held.Diagnosis.Passes)
	require.True(t, held.Diagnosis.Holders[0].Alive, "the controller has announced itself")
	p.page(t, "waits", &waits)
	require.Equal(t, explain.OnHold, waits.Diagnosis.Causes[0].Kind)
	require.Len(t, waits.Audit, 2, "the grace, and the hold")
	require.Equal(t, "admin", waits.Audit[0].By)
	var all index
	p.page(t, "", &all)
	require.Equal(t, []int{4, 1, 1}, []int{all.Active, all.Terminating, all.OnHold}) // three namespaces are built in
	require.Len(t, all.Parties, 1)
	require.True(t, all.Parties[0].Alive)

	answer, err := http.Get(strings.TrimSuffix(p.pages, debugPath))
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, http.StatusNotFound, answer.StatusCode, "nothing else is there")
	p.end(t) // an open page does not delay the exit
	require.NoError(t, open.Close())
}

// At the end of a grace period the program deletes the namespace, even with
// --controller=false.
func TestHold(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"emptied here": nil, "emptied elsewhere": {"--controller=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, append(flags, "--store", kindMemory)...)
			core, ctx := s.as(t, ""), t.Context()
			ns := newNamespace("a")
			ns.Annotations = map[string]string{declare.GraceAnnotation: "1s"}
			ns, err := core.Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			require.NoError(t, err)
			w, err := core.Namespaces().Watch(ctx, metav1.ListOptions{ResourceVersion: ns.ResourceVersion})
			require.NoError(t, err)
			defer w.Stop()
			require.NoError(t, core.Namespaces().Delete(ctx, "a", metav1.DeleteOptions{}))
			held := (<-w.ResultChan()).Object.(metav1.Object)
			require.Contains(t, held.GetAnnotations(), declare.HoldAnnotation)
			require.Nil(t, held.GetDeletionTimestamp())
			deleted := <-w.ResultChan()
			require.NotNil(t, deleted.Object.(metav1.Object).GetDeletionTimestamp())
			for e := deleted; flags == nil && e.Type != watch.Deleted; {
				e = <-w.ResultChan()
				require.NotNil(t, e.Object, "the watch ended first")
			}
		})
	}
}

// The debug pages report the controller as missing if it ran in an earlier process and does
// not run now.
func TestMissingController(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startProcess(t, "--data", data)
	p.open(t, "", "party/kubernetes").Close()
	p.end(t)
	p = startProcess(t, "--data", data, "--controller=false")
	core := as(t, p.kubeconfig, "")
	_, err := core.Namespaces().Create(t.Context(), newNamespace("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, core.Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}))
	var a details
	p.page(t, "a", &a)
	require.Equal(t, explain.OwnerMissing, a.Diagnosis.Causes[0].Kind)
	require.NotZero(t, a.Diagnosis.Causes[0].Since)
	p.end(t)
}
