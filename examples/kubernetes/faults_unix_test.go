//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

// reserve takes an address on which connections are refused until listen is called.
func reserve(t *testing.T) (address string, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	socket := os.NewFile(uintptr(fd), "reserved")
	t.Cleanup(func() { _ = socket.Close() }) // it is used through a copy, if at all
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	in, ok := name.(*syscall.SockaddrInet4)
	require.True(t, ok)
	return fmt.Sprintf("127.0.0.1:%d", in.Port), func() net.Listener {
		require.NoError(t, syscall.Listen(fd, syscall.SOMAXCONN))
		l, err := net.FileListener(socket)
		require.NoError(t, err)
		return l
	}
}

// A server that is not there yet is waited for.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"elected": {"--lease-duration", "2s"}, "alone": {"--leader-elect=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "--controller=false")
			address, listen := reserve(t)
			agent := s.agent(t, append(flags, "--server", "http://"+address)...)
			agent.Until(t, `will try again: .*connection refused.* \(nobody listens there: is the API server running, is that its address\?\)`)
			f := &front{methods: map[string]int{}}
			f.lead(t, s)
			f.open(t, listen())
			agent.Until(t, "watching")
			s.create(t, "a", nil, "t001/a")
			s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
			require.Equal(t, 1, strings.Count(agent.Said(), "refused"), "it is said once")
			stop(t, agent)
		})
	}
}

// A server that goes away in mid-pass, and comes back, finds the agent going on. What
// stands before it answers as load balancers do.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	s := newScene(t, "--data", kept, "--controller=false")
	f, deletions := newFront(t, s), newGate(20)
	f.meet(deletions.pass)
	agent := s.agent(t, "--server", f.address, "--leader-elect=false")
	agent.Until(t, "watching")
	var objects []string
	for i := range 60 {
		objects = append(objects, fmt.Sprintf("t%03d/a", i+1))
	}
	s.create(t, "a", nil, objects...)
	ns := s.remove(t, "a")
	<-deletions.shut
	s.server.Kill()
	f.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no server is available", http.StatusBadGateway)
		return false
	})
	f.cut()
	agent.Until(t, "namespaces cannot be watched, will try again: ")
	agent.Until(t, `"a": will try again: `)
	s.start(t, "--data", kept, "--controller=false")
	f.lead(t, s)
	f.meet(nil)
	agent.Again(t, "watching", 2)
	s.await(t, "a", ns.ResourceVersion, gone)
	agent.Until(t, `"a": is empty, finalized and with that removed`)
	stop(t, agent)
}

// What answers with HTML is no API server; when it is one again, all is well.
func TestHTML(t *testing.T) {
	t.Parallel()
	page := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			fmt.Fprint(w, "<!DOCTYPE html>\n<html><body>Please log in</body></html>\n")
			return false
		}
	}
	for _, tt := range []struct {
		name   string
		status int
		flags  []string
	}{
		{"elected", http.StatusOK, []string{"--lease-duration", "2s"}},
		{"alone", http.StatusOK, []string{"--leader-elect=false"}},
		{"elected, not found", http.StatusNotFound, []string{"--lease-duration", "2s"}},
		{"alone, not found", http.StatusNotFound, []string{"--leader-elect=false"}},
		{"alone, bad gateway", http.StatusBadGateway, []string{"--leader-elect=false"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "--controller=false")
			f := newFront(t, s)
			f.meet(page(tt.status))
			p := s.agent(t, "--dry-run", "--server", f.address)
			code, fault := p.Exit()
			require.Equal(t, 1, code)
			require.Contains(t, fault, "(that is no API server, or a proxy answers for it: see its address)")

			agent := s.agent(t, append(tt.flags, "--server", f.address)...)
			agent.Until(t, `will try again: .*that is no API server`)
			f.meet(nil)
			agent.Until(t, "watching")
			s.create(t, "a", nil, "t001/a")
			ns := s.remove(t, "a")
			s.await(t, "a", ns.ResourceVersion, gone)
			stop(t, agent)
		})
	}
}

// A discovery that shows nothing fails closed, and ends nothing.
func TestNothingDiscovered(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	f.meet(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api" && r.URL.Path != "/apis" {
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api" {
			fmt.Fprint(w, `{"kind":"APIVersions","versions":[]}`)
		} else {
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		}
		return false
	})
	agent := s.agent(t, "--server", f.address, "--leader-elect=false")
	agent.Until(t, "watching")
	s.create(t, "a", nil, "t001/a")
	ns := s.remove(t, "a")
	agent.Until(t, `"a": will try again: .*discovery found no resource types`)
	require.Equal(t, []string{"t001/a"}, s.left(t, "a", "t001"))
	f.meet(nil)
	s.await(t, "a", ns.ResourceVersion, gone)
	stop(t, agent)
}

// Credentials, certificates and addresses that are wrong are told, with what to do;
// the agent tries on.
func TestNotLetIn(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--tokens", filepath.Join("testdata", "tokens.csv"), "--grants", filepath.Join("testdata", "grants.json"))
	plain := newScene(t)
	config := func(change func(*api.Config)) string {
		k, err := clientcmd.LoadFromFile(s.kubeconfig)
		require.NoError(t, err)
		change(k)
		return s.write(t, k)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{
			"a token that nobody knows",
			[]string{"--kubeconfig", config(func(k *api.Config) { k.AuthInfos["admin"].Token = "guess" })},
			"the API server refuses the credentials",
		},
		{
			"a user who may do nothing", []string{"--kubeconfig", s.user(t, "nobody")},
			`User "nobody" cannot .*grant it to the user whom the agent runs as`,
		},
		{
			"a certificate of somebody else",
			[]string{"--kubeconfig", config(func(k *api.Config) { k.Clusters["nslifecycle"].CertificateAuthorityData = nil })},
			"x509: .*the server's certificate is not one that the kubeconfig trusts",
		},
		{"plain HTTP to TLS", []string{"--server", strings.Replace(s.connection.Host, "https:", "http:", 1)}, "the server speaks TLS: write https:// in its address"},
		{"TLS to plain HTTP", []string{"--server", strings.Replace(plain.connection.Host, "http:", "https:", 1)}, "the server speaks plain HTTP: write http:// in its address"},
		{"no such host", []string{"--server", "http://nowhere.invalid"}, "there is no such host"},
	} {
		for mode, flags := range map[string][]string{"elected": nil, "alone": {"--leader-elect=false"}} {
			t.Run(tt.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				agent := programs.Self(t, append(append([]string{"--listen", ""}, tt.args...), flags...)...)
				agent.Until(t, "will try again: .*"+tt.want)
				stop(t, agent) // it was there still
			})
		}
		t.Run(tt.name+", dry run", func(t *testing.T) {
			t.Parallel()
			p := programs.Self(t, append([]string{"--dry-run"}, tt.args...)...)
			code, fault := p.Exit()
			require.Equal(t, 1, code)
			require.Regexp(t, tt.want, fault)
		})
	}
}

// The namespace of the lease must be there.
func TestNoPlaceForTheLease(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	agent := s.agent(t, "--lease-namespace", "later", "--lease-duration", "2s")
	agent.Until(t, `namespaces "later" not found \(create that namespace, or name another by --lease-namespace\)`)
	_, err := s.core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	agent.Until(t, "watching")
	stop(t, agent)
}

// An answer that gets lost on the way is no reason to end.
func TestEveryAnswerIsLostOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--controller=false")
	f := newFront(t, s)
	var mu sync.Mutex
	seen := map[string]bool{}
	f.meet(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		key := r.Method + r.URL.Path
		if !seen[key] {
			seen[key] = true
			panic(http.ErrAbortHandler)
		}
		return true
	})
	agent := s.agent(t, "--server", f.address, "--lease-duration", "2s")
	agent.Until(t, "watching")
	s.create(t, "a", nil, "configmaps/a", "t001/a", "t060/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	stop(t, agent)
}
