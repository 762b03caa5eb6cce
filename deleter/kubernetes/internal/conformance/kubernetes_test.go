package conformance

import (
	"cmp"
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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// realServer is Kubernetes' own API server; see the module kubeapiserver beside this package. It
// takes seconds to start, so all tests share one and use different namespaces. It has no
// controllers: the test is the namespace controller.
var realServer = sync.OnceValues(startKubernetes)

// process is the process of the server.
var process struct {
	dir   string
	alive io.Closer     // its standard input; it ends when that is closed
	ended chan struct{} // closed when it has ended
}

func TestMain(m *testing.M) {
	code := m.Run()
	if process.alive != nil {
		_ = process.alive.Close()
		<-process.ended
	}
	if process.dir != "" {
		_ = os.RemoveAll(process.dir)
	}
	os.Exit(code)
}

// realKubernetes returns a configuration of the user "admin" or "guest".
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

// startKubernetes starts the server. Another process may take its free port first, so it tries
// three times.
func startKubernetes() (address string, err error) {
	if process.dir, err = os.MkdirTemp("", "kubeapiserver-"); err != nil {
		return "", err
	}
	for range 3 {
		if address, err = startOnce(); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return address, err
}

func startOnce() (address string, err error) {
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
	alive, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeoutCause(context.Background(), 3*time.Minute, errors.New("the Kubernetes API server does not come up"))
	defer cancel()
	ctx, over := context.WithCancelCause(ctx)
	go func() {
		over(fmt.Errorf("the Kubernetes API server ended: %w", cmp.Or(cmd.Wait(), errors.New("without an error"))))
		close(ended)
	}()
	address = "https://127.0.0.1:" + port
	if err := ready(ctx, address); err != nil {
		_ = alive.Close()
		<-ended
		said, _ := os.ReadFile(log.Name()) // for the error message
		return "", fmt.Errorf("%w; it said:\n%s", err, said[max(0, len(said)-4000):])
	}
	process.alive, process.ended = alive, ended
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

// ready waits until the server serves everything that the tests need.
func ready(ctx context.Context, address string) error {
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
