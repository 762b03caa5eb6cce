package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
)

// Of two replicas one works. When it is killed, or leaves, the other takes over what
// was begun.
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
	first.until(t, `"a": waits for`)
	require.NotContains(t, second.said(), `"a"`)

	first.kill()
	second.until(t, "leading")
	second.until(t, `"a": waits for`)

	third := replica("third")
	third.until(t, "standing by: second leads")
	second.stop(t)
	third.until(t, "leading")
	s.release(t, "a", "configmaps/kept")
	s.await(t, "a", ns.ResourceVersion, gone)
	third.until(t, `"a": is empty, finalized`)
	third.stop(t)
}

// A leader that loses the lease stops, and stands for it again.
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
	first.until(t, "the lease cannot be had, will try again: ")
	first.until(t, "the lease is lost: stopped, standing for it again")
	second := s.agent(t, "--identity", "second", "--lease-duration", "2s")
	second.until(t, "leading")
	s.create(t, "a", nil, "t001/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	second.until(t, `"a": is empty, finalized`)
	require.NotContains(t, first.said(), `"a"`)
	f.meet(nil)
	first.again(t, "^leading|standing by: second leads", 2)
	second.stop(t)
	first.again(t, "leading", 2)
	first.stop(t)
}

// A lease that could not be renewed once, and is not lost, is held again.
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
	agent.until(t, "the lease cannot be had, will try again: .*not now")
	agent.until(t, "the lease is held again|the lease is lost")
	agent.stop(t)
}

// Without an election any number works, and safely.
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
		a.stop(t)
		require.NotContains(t, a.said(), "lead")
	}
}

// A replica that leaves gives the lease up.
func TestLeaseGivenUp(t *testing.T) {
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
	agent.stop(t)
	require.Empty(t, holder())
}
