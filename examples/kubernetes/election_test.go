package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

// Of two replicas one works. When it is killed, or leaves, the other takes over what
// was begun.
func TestElection(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	replica := func(name string) *programs.Process {
		return s.agent(t, "--identity", name, "--lease-duration", "4s")
	}
	first := replica("first")
	first.Until(t, "leading")
	second := replica("second")
	second.Until(t, "standing by: first leads")
	s.create(t, "a", nil, "t001/a")
	s.put(t, "a", "configmaps/kept", "example.com/keep")
	ns := s.remove(t, "a")
	first.Until(t, `"a": waits for`)
	require.NotContains(t, second.Said(), `"a"`)

	first.Kill()
	second.Until(t, "leading")
	second.Until(t, `"a": waits for`)

	third := replica("third")
	third.Until(t, "standing by: second leads")
	stop(t, second)
	third.Until(t, "leading")
	s.release(t, "a", "configmaps/kept")
	s.await(t, "a", ns.ResourceVersion, gone)
	third.Until(t, `"a": is empty, finalized`)
	stop(t, third)
}

// A leader that loses the lease stops, and stands for it again.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	first := s.agent(t, "--server", f.address, "--identity", "first", "--lease-duration", "2s")
	first.Until(t, "watching")
	f.meet(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/leases") {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	first.Until(t, "the lease cannot be had, will try again: ")
	first.Until(t, "the lease is lost: stopped, standing for it again")
	second := s.agent(t, "--identity", "second", "--lease-duration", "2s")
	second.Until(t, "leading")
	s.create(t, "a", nil, "t001/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	second.Until(t, `"a": is empty, finalized`)
	require.NotContains(t, first.Said(), `"a"`)
	f.meet(nil)
	first.Again(t, "^leading|standing by: second leads", 2)
	stop(t, second)
	first.Again(t, "leading", 2)
	stop(t, first)
}

// A lease that could not be renewed once, and is not lost, is held again.
func TestLeaseHeldAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	f := newFront(t, s)
	agent := s.agent(t, "--server", f.address, "--lease-duration", "5s")
	agent.Until(t, "watching")
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
	agent.Until(t, "the lease cannot be had, will try again: .*not now")
	agent.Until(t, "the lease is held again|the lease is lost")
	stop(t, agent)
}

// Without an election any number works, and safely.
func TestWithoutElection(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	var agents []*programs.Process
	for range 2 {
		a := s.agent(t, "--leader-elect=false")
		a.Until(t, "watching")
		agents = append(agents, a)
	}
	s.create(t, "a", nil, "t001/a", "configmaps/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	for _, a := range agents {
		stop(t, a)
		require.NotContains(t, a.Said(), "lead")
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
	agent.Until(t, "watching")
	require.Equal(t, "first", holder())
	stop(t, agent)
	require.Empty(t, holder())
}
