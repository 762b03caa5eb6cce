package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	ours  corev1.FinalizerName = "example.com/agent"
	stock corev1.FinalizerName = "kubernetes"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// Two agents finalize a namespace: one as a second party, one in place of the stock controller.
func TestStory(t *testing.T) {
	t.Parallel()
	s, ctx := newScene(t, "--controller=false"), t.Context()
	var story strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&story, format+"\n", args...) }
	show := func(ns *corev1.Namespace) {
		say("    %q: finalizers %q, phase %s", ns.Name, ns.Spec.Finalizers, ns.Status.Phase)
	}
	agent := s.agent(t, "--finalizer", string(ours), "--identity", "agent-1")
	for _, line := range []string{"finalizing", "competes", "leading", "watching"} {
		say("agent: %s", masked(agent.until(t, line)))
	}

	say("a user creates a namespace, and objects of 6 of the 68 types")
	text, err := os.ReadFile("development.json")
	require.NoError(t, err)
	var ns *corev1.Namespace
	require.NoError(t, json.Unmarshal(text, &ns))
	ns, err = s.core.Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	require.NoError(t, err)
	show(ns)
	kinds := []string{"configmaps", "secrets", "t001", "t030", "t060", "widgets"}
	for _, kind := range kinds {
		for _, name := range []string{"a", "b"} {
			s.put(t, ns.Name, kind+"/"+name)
		}
	}
	s.put(t, ns.Name, "configmaps/kept", "example.com/keep")
	say("    %d objects", len(s.left(t, ns.Name, kinds...)))

	say("the user deletes the namespace")
	show(s.remove(t, ns.Name))
	say("agent: %s", agent.until(t, "waiting"))
	say("    left: %v", s.left(t, ns.Name, kinds...))
	ns, err = s.core.Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
	require.NoError(t, err)
	story.WriteString(conditions(ns))

	say("the finalizer of the last object is removed")
	s.release(t, ns.Name, "configmaps/kept")
	say("agent: %s", agent.until(t, "finalizer removed"))
	ns, err = s.core.Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
	require.NoError(t, err)
	show(ns)

	say("another agent takes the place of the stock controller")
	second := s.agent(t, "--identity", "agent-2")
	say("second agent: %s", masked(second.until(t, "finalizing")))
	say("second agent: %s", second.until(t, "namespace removed"))
	say("agent: %s", agent.until(t, "namespace removed"))
	_, err = s.core.Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
	say("    %v", err)
	golden(t, "story.txt", story.String())
	stop(t, agent)
	stop(t, second)
}

// The agent works beside a stock controller: the namespace is removed after both have finalized it.
func TestBesideTheStockController(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	agent := s.agent(t, "--finalizer", string(ours))
	agent.until(t, "watching")
	for i := range 5 {
		name := fmt.Sprint("n", i)
		s.create(t, name, []corev1.FinalizerName{ours, stock}, "configmaps/a", "t001/a", "t060/a")
		s.await(t, name, s.remove(t, name).ResourceVersion, gone)
		agent.until(t, fmt.Sprintf("%q: empty, (last )?finalizer removed", name))
	}
	stop(t, agent)
}

// In place of the stock controller the agent writes the same five conditions.
func TestInThePlaceOfTheStockController(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	agent := s.agent(t)
	agent.until(t, "watching")
	s.create(t, "a", nil, "configmaps/a", "t001/a", "t060/a")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	ns := s.remove(t, "a")
	agent.until(t, `"a": waiting for configmaps \(1 left, held by example.com/keep\)`)
	held, err := s.core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	golden(t, "conditions.txt", conditions(held))
	s.release(t, "a", "configmaps/kept")
	s.await(t, "a", ns.ResourceVersion, gone)
	agent.until(t, `"a": empty, last finalizer removed, namespace removed`)
	stop(t, agent)
}

// An agent that is killed in mid-pass and restarted finishes the work.
func TestKilledInMidPass(t *testing.T) {
	t.Parallel()
	const types, objects, allowed = 60, 3, 40
	s := newScene(t, "--controller=false")
	var kinds []string
	s.create(t, "a", nil)
	for i := range types {
		kind := fmt.Sprintf("t%03d", i+1)
		kinds = append(kinds, kind)
		for j := range objects {
			s.put(t, "a", fmt.Sprint(kind, "/o", j))
		}
	}
	f, deletions := newFront(t, s), newGate(allowed)
	f.meet(deletions.pass)
	agent := s.agent(t, "--server", f.address, "--one-by-one", "--lease-duration", "2s")
	agent.until(t, "watching")
	ns := s.remove(t, "a")
	<-deletions.shut // about as many were forwarded
	agent.kill()
	left := len(s.left(t, "a", kinds...))
	require.Less(t, left, types*objects, "some are deleted")
	require.GreaterOrEqual(t, left, types*objects-allowed, "some are not")
	f.meet(nil)
	agent = s.agent(t, "--server", f.address, "--lease-duration", "2s")
	agent.until(t, "standing by") // until the lease of the killed agent expires
	s.await(t, "a", ns.ResourceVersion, gone)
	require.NotContains(t, agent.output(), "retrying")
	stop(t, agent)
}

// gate forwards some DELETEs, and holds all others until their clients disconnect.
type gate struct {
	shut chan struct{} // closed when it holds the first one

	mu   sync.Mutex
	left int
}

func newGate(allowed int) *gate { return &gate{shut: make(chan struct{}), left: allowed} }

func (g *gate) pass(_ http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodDelete {
		return true
	}
	g.mu.Lock()
	g.left--
	left := g.left
	g.mu.Unlock()
	if left >= 0 {
		return true
	}
	if left == -1 {
		close(g.shut)
	}
	_, _ = io.Copy(io.Discard, r.Body) // the server notices a disconnect only after the body
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// A dry run sends only GET requests.
func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	dry := func(flags ...string) *process {
		p := s.agent(t, append([]string{"--dry-run", "--finalizer", string(ours), "--server", f.address}, flags...)...)
		code, fault := p.exit()
		require.Zero(t, code, "%s%s", p.output(), fault)
		return p
	}
	require.Equal(t, "dry run: nothing is deleted or written\n"+
		"no terminating namespace holds finalizer example.com/agent\n", dry().output())

	s.create(t, "full", []corev1.FinalizerName{ours, stock}, "configmaps/a", "widgets/a", "t001/a")
	s.put(t, "full", "configmaps/kept", "example.com/keep")
	for i := range 7 {
		s.put(t, "full", fmt.Sprint("t002/o", i))
	}
	s.create(t, "bare", []corev1.FinalizerName{ours})
	s.create(t, "of-others", []corev1.FinalizerName{stock}, "configmaps/a")
	s.create(t, "alive", []corev1.FinalizerName{ours}, "configmaps/a")
	for _, name := range []string{"full", "bare", "of-others"} {
		s.remove(t, name)
	}
	state := func() string {
		var all strings.Builder
		for _, path := range []string{"/api/v1/namespaces", "/api/v1/configmaps", "/apis/example.com/v1/t002", "/apis/coordination.k8s.io/v1/leases"} {
			text, err := s.rest.Get().AbsPath(path).DoRaw(t.Context())
			require.NoError(t, err)
			fmt.Fprintf(&all, "%s\n%s\n", path, text)
		}
		return all.String()
	}
	before := state()
	golden(t, "dryrun.txt", dry().output())
	golden(t, "dryrun-only.txt", dry("--only", "configmaps,widgets.example.com", "--except", "widgets.example.com").output())
	require.Contains(t, dry("--only", "configmaps,widget.example.com").output(), "\nnote: there is no resource type widget.example.com\n")
	require.Empty(t, cmp.Diff(before, state()))
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.methods, 1)
	require.NotZero(t, f.methods[http.MethodGet])
}

// With --only the agent ignores other types.
func TestOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	agent := s.agent(t, "--finalizer", string(ours), "--only", "configmaps,t001.example.com",
		"--workers", "4", "--qps", "200", "--burst", "50")
	agent.until(t, "watching")
	s.create(t, "a", []corev1.FinalizerName{ours, stock}, "configmaps/a", "t001/a", "t002/a")
	s.remove(t, "a")
	agent.until(t, `"a": empty, finalizer removed; remaining finalizers: \["kubernetes"\]`)
	require.Equal(t, []string{"t002/a"}, s.left(t, "a", "configmaps", "t001", "t002"))
	stop(t, agent)
}

// A stock API server may admit creates based on a stale cache. The agent checks an empty namespace
// again for a while, or until a second check finds nothing either.
func TestWait(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	for name, flags := range map[string][]string{
		"a-second":    {"--wait", "1s"},
		"quiet-twice": {"--wait", "1h", "--quiet-twice"},
	} {
		t.Run(name, func(t *testing.T) {
			finalizer := "example.com/" + name
			agent := s.agent(t, append(flags, "--finalizer", finalizer)...)
			agent.until(t, "watching")
			s.create(t, name, []corev1.FinalizerName{corev1.FinalizerName(finalizer), stock}, "t001/a")
			s.remove(t, name)
			agent.until(t, `empty; checking again, since creates may be in flight`)
			agent.until(t, `empty, finalizer removed; remaining finalizers: \["kubernetes"\]`)
			stop(t, agent)
		})
	}
}

// A group whose discovery fails delays only namespaces that may have objects of it, and not other
// types. --except-groups ignores it.
func TestGroupThatIsDown(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	f.meet(func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/api", "/apis":
			r.Header.Set("Accept", "application/json") // not aggregated
		case "/apis/example.com/v1":
			http.Error(w, "the service is down", http.StatusServiceUnavailable)
			return false
		}
		return true
	})
	flags := []string{"--finalizer", string(ours), "--server", f.address, "--leader-elect=false"}
	agent := s.agent(t, flags...)
	agent.until(t, "watching")
	s.create(t, "a", []corev1.FinalizerName{ours, stock}, "configmaps/a", "t001/a")
	s.remove(t, "a")
	agent.until(t, `"a": failed, retrying: unable to retrieve the complete list of server APIs: example.com/v1: `)
	require.Equal(t, []string{"t001/a"}, s.left(t, "a", "configmaps", "t001"))
	ns, err := s.core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Contains(t, ns.Spec.Finalizers, ours)
	golden(t, "conditions-discovery.txt", conditions(ns))
	stop(t, agent)
	agent = s.agent(t, append(flags, "--except-groups", "example.com")...)
	agent.until(t, `"a": empty, (last )?finalizer removed`)
	require.Equal(t, []string{"t001/a"}, s.left(t, "a", "configmaps", "t001"))
	stop(t, agent)
}

// The endpoints tell what the agent does.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	agent := s.agent(t)
	address := strings.TrimPrefix(agent.until(t, "health and metrics at"), "health and metrics at ")
	get := func(path string) (int, string) {
		answer, err := http.Get(address + path)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	agent.until(t, "watching")
	for _, path := range []string{"/healthz", "/readyz"} {
		code, text := get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, "ok\n", text)
	}
	s.create(t, "a", nil)
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	ns := s.remove(t, "a")
	agent.until(t, "waiting")
	_, text := get("/metrics")
	for _, line := range []string{
		`nslifecycle_leader{finalizer="kubernetes"} 1`,
		`nslifecycle_watching{finalizer="kubernetes"} 1`,
		`namespace_terminating{finalizer="kubernetes",stage="DeletingContent"} 1`,
		`nslifecycle_remaining_objects{finalizer="kubernetes"} 1`,
		`namespace_passes_total{finalizer="kubernetes",outcome="removed"} 0`,
		`nslifecycle_api_requests_total{code="200",finalizer="kubernetes",method="DELETE"} `,
	} {
		require.Contains(t, text, "\n"+line)
	}
	s.release(t, "a", "configmaps/kept")
	s.await(t, "a", ns.ResourceVersion, gone)
	agent.until(t, `"a": empty`)
	_, text = get("/metrics")
	require.Contains(t, text, "\n"+`namespace_passes_total{finalizer="kubernetes",outcome="removed"} 1`)
	require.Contains(t, text, "\n"+`nslifecycle_remaining_objects{finalizer="kubernetes"} 0`)
	code, _ := get("/elsewhere")
	require.Equal(t, http.StatusNotFound, code)
	stop(t, agent)
}

// A missing permission for one type is reported; the agent deletes all other types.
func TestForbiddenOnOneType(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false",
		"--tokens", filepath.Join("testdata", "tokens.csv"), "--grants", filepath.Join("testdata", "grants.json"))
	s.create(t, "a", nil, "configmaps/a", "secrets/a", "t001/a", "t060/a")
	deleted := s.remove(t, "a")
	user := s.user(t, "agent")

	p := startAgent(t, "--kubeconfig", user, "--dry-run")
	code, fault := p.exit()
	require.Equal(t, 1, code)
	golden(t, "dryrun-forbidden.txt", p.output()+fault)

	agent := startAgent(t, "--kubeconfig", user)
	agent.until(t, `"a": failed, retrying: secrets: .*forbidden: User "agent" cannot .* \(grant this permission to the agent's user\)`)
	require.Equal(t, []string{"secrets/a"}, s.left(t, "a", "configmaps", "secrets", "t001", "t060"))
	first := s.await(t, "a", deleted.ResourceVersion, func(_ watch.EventType, ns *corev1.Namespace) bool { return len(ns.Status.Conditions) > 0 })
	golden(t, "conditions-forbidden.txt", conditions(first)) // after the first pass: later passes list before they delete
	require.NoError(t, s.core.Secrets("a").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	_, err := s.core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.False(t, apierrors.IsNotFound(err), "the agent cannot list secrets, so it must not conclude that none are left")
	stop(t, agent)
}
