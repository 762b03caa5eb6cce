package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	cluster "github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// BenchmarkKubernetes measures from DELETE to removal of a namespace with 500 config
// maps on Kubernetes' own API server, with this library's controller and, where
// NSLIFECYCLE_KUBECONTROLLERMANAGER names that program, with the stock one.
func BenchmarkKubernetes(b *testing.B) {
	config := realKubernetes(b, "admin")
	objects := 500
	if testing.Short() {
		objects = 10
	}
	for _, c := range []struct {
		name string
		run  func(*testing.B, context.Context) error
	}{
		{"wait", with(config, nil)},
		{"quietTwice", with(config, &cluster.Options{QuietTwice: true})},
		{"stock", stock(config)},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.name == "stock" && os.Getenv("NSLIFECYCLE_KUBECONTROLLERMANAGER") == "" {
				b.Skip("NSLIFECYCLE_KUBECONTROLLERMANAGER names no kube-controller-manager")
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- c.run(b, ctx) }()
			deletions(b, config, objects)
			stop()
			require.NoError(b, <-ended)
		})
	}
}

func with(config *rest.Config, o *cluster.Options) func(*testing.B, context.Context) error {
	return func(b *testing.B, ctx context.Context) error {
		c, err := cluster.ForConfig(config, o)
		if err != nil {
			return err
		}
		emptier, err := controller.New(c.Namespaces(), c.Deleter(), namespace.Party{Finalizer: finalizer.Kubernetes}, nil)
		if err != nil {
			return err
		}
		return emptier.Run(ctx)
	}
}

// stock runs the stock namespace controller, without limits of the client.
func stock(config *rest.Config) func(*testing.B, context.Context) error {
	return func(b *testing.B, ctx context.Context) error {
		file := filepath.Join(b.TempDir(), "kubeconfig")
		err := clientcmd.WriteToFile(clientcmdapi.Config{
			Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, InsecureSkipTLSVerify: true}},
			AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
			Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
			CurrentContext: "x",
		}, file)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, os.Getenv("NSLIFECYCLE_KUBECONTROLLERMANAGER"), "--kubeconfig", file,
			"--controllers", "namespace-controller", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=10000", "--kube-api-burst=10000")
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return nil // it was made to end
		}
		return fmt.Errorf("kube-controller-manager: %w\n%s", err, out)
	}
}

// deletions measures deletions of namespaces with objects in them, one after another.
func deletions(b *testing.B, config *rest.Config, objects int) {
	client, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	var sum time.Duration
	for i := 0; b.Loop(); i++ {
		ns, err := client.CoreV1().Namespaces().Create(b.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
		require.NoError(b, err)
		for j := range objects {
			_, err := client.CoreV1().ConfigMaps(ns.Name).Create(b.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", j)}}, metav1.CreateOptions{})
			require.NoError(b, err)
		}
		events, err := client.CoreV1().Namespaces().Watch(b.Context(), metav1.ListOptions{
			ResourceVersion: ns.ResourceVersion, FieldSelector: "metadata.name=" + ns.Name,
		})
		require.NoError(b, err)
		began := time.Now()
		require.NoError(b, client.CoreV1().Namespaces().Delete(b.Context(), ns.Name, metav1.DeleteOptions{}))
		for e := range events.ResultChan() {
			if e.Type == watch.Deleted {
				break
			}
		}
		events.Stop()
		sum += time.Since(began)
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/deletion")
	b.ReportMetric(0, "ns/op") // creation is not what is measured
}
