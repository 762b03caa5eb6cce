//go:build unix

package agent

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
)

// reserve binds an address that refuses connections until listen is called.
func reserve(t *testing.T) (address string, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	socket := os.NewFile(uintptr(fd), "reserved")
	t.Cleanup(func() { _ = socket.Close() }) // listen uses a copy
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

// The agent waits for a server that is not up yet.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"elected": {"--lease-duration", "2s"}, "alone": {"--leader-elect=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "--controller=false")
			address, listen := reserve(t)
			agent := s.agent(t, append(flags, "--server", "http://"+address)...)
			agent.until(t, `retrying: .*connection refused.* \(no server listens at this address: .*\)`)
			f := &front{methods: map[string]int{}}
			f.lead(t, s)
			f.open(t, listen())
			agent.until(t, "watching")
			s.create(t, "a", nil, "t001/a")
			s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
			require.Equal(t, 1, strings.Count(agent.output(), "refused"), "reported once")
			stop(t, agent)
		})
	}
}

// The agent continues after the server goes away in mid-pass, behind a load balancer that answers
// 502, and comes back.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	s := newScene(t, "--data", kept, "--controller=false")
	f, deletions := newFront(t, s), newGate(20)
	f.meet(deletions.pass)
	agent := s.agent(t, "--server", f.address, "--leader-elect=false")
	agent.until(t, "watching")
	var objects []string
	for i := range 60 {
		objects = append(objects, fmt.Sprintf("t%03d/a", i+1))
	}
	s.create(t, "a", nil, objects...)
	ns := s.remove(t, "a")
	<-deletions.shut
	s.server.kill()
	f.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no server is available", http.StatusBadGateway)
		return false
	})
	f.cut()
	agent.until(t, "cannot watch namespaces, retrying: ")
	agent.until(t, `"a": failed, retrying: `)
	s.start(t, "--data", kept, "--controller=false")
	f.lead(t, s)
	f.meet(nil)
	agent.nth(t, "watching", 2)
	s.await(t, "a", ns.ResourceVersion, gone)
	agent.until(t, `"a": empty, last finalizer removed, namespace removed`)
	stop(t, agent)
}

// The agent recovers from a proxy that answers with HTML.
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
			code, fault := p.exit()
			require.Equal(t, 1, code)
			require.Contains(t, fault, "(the server is not an API server, or a proxy answers for it: check its address)")

			agent := s.agent(t, append(tt.flags, "--server", f.address)...)
			agent.until(t, `retrying: .*not an API server`)
			f.meet(nil)
			agent.until(t, "watching")
			s.create(t, "a", nil, "t001/a")
			ns := s.remove(t, "a")
			s.await(t, "a", ns.ResourceVersion, gone)
			stop(t, agent)
		})
	}
}

// Empty discovery fails closed.
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
	agent.until(t, "watching")
	s.create(t, "a", nil, "t001/a")
	ns := s.remove(t, "a")
	agent.until(t, `"a": failed, retrying: .*discovery found no resource types`)
	require.Equal(t, []string{"t001/a"}, s.left(t, "a", "t001"))
	f.meet(nil)
	s.await(t, "a", ns.ResourceVersion, gone)
	stop(t, agent)
}

// The agent reports wrong credentials, certificates and addresses with advice, and retries.
func TestWrongConnection(t *testing.T) {
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
			"an unknown token",
			[]string{"--kubeconfig", config(func(k *api.Config) { k.AuthInfos["admin"].Token = "guess" })},
			"the API server rejects the credentials",
		},
		{
			"a user without permissions", []string{"--kubeconfig", s.user(t, "nobody")},
			`User "nobody" cannot .*grant this permission to the agent's user`,
		},
		{
			"an unknown certificate",
			[]string{"--kubeconfig", config(func(k *api.Config) { k.Clusters["nslifecycle"].CertificateAuthorityData = nil })},
			"x509: .*the kubeconfig does not trust the server's certificate",
		},
		{"plain HTTP to TLS", []string{"--server", strings.Replace(s.connection.Host, "https:", "http:", 1)}, "the server speaks TLS: use https:// in its address"},
		{"TLS to plain HTTP", []string{"--server", strings.Replace(plain.connection.Host, "http:", "https:", 1)}, "the server speaks plain HTTP: use http:// in its address"},
		{"no such host", []string{"--server", "http://nowhere.invalid"}, "no such host"},
	} {
		for mode, flags := range map[string][]string{"elected": nil, "alone": {"--leader-elect=false"}} {
			t.Run(tt.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				agent := startAgent(t, append(append([]string{"--listen", ""}, tt.args...), flags...)...)
				agent.until(t, "retrying: .*"+tt.want)
				stop(t, agent)
			})
		}
		t.Run(tt.name+", dry run", func(t *testing.T) {
			t.Parallel()
			p := startAgent(t, append([]string{"--dry-run"}, tt.args...)...)
			code, fault := p.exit()
			require.Equal(t, 1, code)
			require.Regexp(t, tt.want, fault)
		})
	}
}

// The agent waits for the namespace of its lease.
func TestMissingLeaseNamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	agent := s.agent(t, "--lease-namespace", "later", "--lease-duration", "2s")
	agent.until(t, `namespaces "later" not found \(create this namespace, or set another one with --lease-namespace\)`)
	_, err := s.core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	agent.until(t, "watching")
	stop(t, agent)
}

// The agent survives the loss of every first response.
func TestLostResponses(t *testing.T) {
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
	agent.until(t, "watching")
	s.create(t, "a", nil, "configmaps/a", "t001/a", "t060/a")
	s.await(t, "a", s.remove(t, "a").ResourceVersion, gone)
	stop(t, agent)
}
