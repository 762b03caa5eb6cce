package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// realServer is Kubernetes' own API server, see the module kubeapiserver beside this
// one. It takes seconds to start, so that all tests share one, each with namespaces of
// its own. It has no controllers: whoever tests is the namespace controller.
var realServer = sync.OnceValues(startKubernetes)

// process is the server's, once it was started.
var process struct {
	dir   string
	cmd   *exec.Cmd
	alive io.Closer // its standard input: when that ends, it ends
}

func TestMain(m *testing.M) {
	code := m.Run()
	if process.cmd != nil {
		_ = process.alive.Close()
		_ = process.cmd.Wait() // it was made to end
	}
	if process.dir != "" {
		_ = os.RemoveAll(process.dir)
	}
	os.Exit(code)
}

// realKubernetes returns how to reach the server as somebody, who is "admin" or "guest".
func realKubernetes(t testing.TB, who string) *rest.Config {
	t.Helper()
	if os.Getenv("NSLIFECYCLE_KUBEAPISERVER") == "" {
		const how = "no Kubernetes API server: go build -C deleter/kubernetes/internal/kubeapiserver -o /tmp/kubeapiserver . " +
			"(it takes minutes), and set NSLIFECYCLE_KUBEAPISERVER to that path"
		if os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") != "" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	address, err := realServer()
	require.NoError(t, err)
	return &rest.Config{Host: address, BearerToken: who, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func startKubernetes() (address string, err error) {
	if process.dir, err = os.MkdirTemp("", "kubeapiserver-"); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(process.dir, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(os.Getenv("NSLIFECYCLE_KUBEAPISERVER"), process.dir, port)
	cmd.Stdout, cmd.Stderr = log, log
	if process.alive, err = cmd.StdinPipe(); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	process.cmd = cmd
	address = "https://127.0.0.1:" + port
	if err := ready(address); err != nil {
		said, _ := os.ReadFile(log.Name()) // the more, the better
		return "", fmt.Errorf("%w; it said:\n%s", err, said[max(0, len(said)-4000):])
	}
	return address, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	return port, l.Close()
}

// ready waits until the server serves all that it is to.
func ready(address string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 3*time.Minute, errors.New("the Kubernetes API server does not come up"))
	defer cancel()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: address, BearerToken: "admin", QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return err
	}
	for {
		var code int
		client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
		if code == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
