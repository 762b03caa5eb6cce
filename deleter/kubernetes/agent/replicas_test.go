package agent

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
)

// One replica works at a time. When it is killed or stops, another takes over.
func TestElection(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	replica := func(name string) *process {
		return s.agent(t, "--identity", name, "--lease-duration", "4s")
	}
	first := replica("first")
	first.until(t, "leading")
	second := replica("second")
	second.until(t, "standing by: first leads")
	s.create(t, "a", nil, "t001/a")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	ns := s.remove(t, "a")
	first.until(t, `"a": waiting for`)
	require.NotContains(t, second.output(), `"a"`)

	first.kill()
	second.until(t, "leading")
	second.until(t, `"a": waiting for`)

	third := replica("third")
	third.until(t, "standing by: second leads")
	stop(t, second)
	third.until(t, "leading")
	s.release(t, "a", "configmaps/kept")
	s.await(t, "a", ns.ResourceVersion, gone)
	third.until(t, `"a": empty, (last )?finalizer removed`)
	stop(t, third)
}

// A leader that loses the lease stops working and competes for it again.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	first := s.agent(t, "--server", f.address, "--identity", "first", "--lease-duration", "2s")
	first.until(t, "watching")
	f.meet(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/leases") {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	first.until(t, "cannot get or renew the lease, retrying: ")
	first.until(t, "lost the lease: stopped work, competing for it again")
	second := s.agent(t, "--identity", "second", "--lease-duration", "2s")
	second.until(t, "leading")
	s.create(t, "a", nil, "t001/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	second.until(t, `"a": empty, (last )?finalizer removed`)
	require.NotContains(t, first.output(), `"a"`)
	f.meet(nil)
	first.nth(t, "^leading|standing by: second leads", 2)
	stop(t, second)
	first.nth(t, "leading", 2)
	stop(t, first)
}

// A leader survives one failed renewal.
func TestLeaseHeldAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	f := newFront(t, s)
	agent := s.agent(t, "--server", f.address, "--lease-duration", "5s")
	agent.until(t, "watching")
	var once sync.Once
	f.meet(func(w http.ResponseWriter, r *http.Request) (through bool) {
		through = true
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/") {
			once.Do(func() {
				through = false
				http.Error(w, "not now", http.StatusInternalServerError)
			})
		}
		return through
	})
	agent.until(t, "cannot get or renew the lease, retrying: .*not now")
	agent.until(t, "renewed the lease again|lost the lease")
	stop(t, agent)
}

// Several replicas without election duplicate work safely.
func TestWithoutElection(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	var agents []*process
	for range 2 {
		a := s.agent(t, "--leader-elect=false")
		a.until(t, "watching")
		agents = append(agents, a)
	}
	s.create(t, "a", nil, "t001/a", "configmaps/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	for _, a := range agents {
		stop(t, a)
		require.NotContains(t, a.output(), "lead")
	}
}

// A replica that stops releases the lease.
func TestLeaseReleased(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	holder := func() string {
		var lease coordination.Lease
		text, err := s.rest.Get().AbsPath("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trial").
			SetHeader("Accept", "application/json").DoRaw(t.Context())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &lease))
		require.NotNil(t, lease.Spec.HolderIdentity)
		return *lease.Spec.HolderIdentity
	}
	agent := s.agent(t, "--lease-name", "trial", "--identity", "first")
	agent.until(t, "watching")
	require.Equal(t, "first", holder())
	stop(t, agent)
	require.Empty(t, holder())
}
