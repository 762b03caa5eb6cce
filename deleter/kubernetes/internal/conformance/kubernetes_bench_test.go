package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	cluster "github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// BenchmarkKubernetes measures from DELETE to removal of a namespace with 500 config maps on
// Kubernetes' own API server, with this library's controller and, if
// NSLIFECYCLE_KUBECONTROLLERMANAGER names that program, with the stock controller.
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
			running, stop := context.WithCancel(b.Context())
			defer stop()
			ctx, fail := context.WithCancelCause(b.Context())
			defer fail(nil)
			ended := make(chan error, 1)
			go func() {
				err := c.run(b, running)
				fail(fmt.Errorf("the controller has ended: %v", err))
				ended <- err
			}()
			err := deletions(ctx, b, config, objects)
			stop()
			require.NoError(b, <-ended)
			require.NoError(b, err)
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

// stock runs the stock namespace controller without client limits.
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
			return nil // the benchmark ended it
		}
		return fmt.Errorf("kube-controller-manager: %w\n%s", err, out)
	}
}

// deletions measures deletions of namespaces with objects, one after another.
func deletions(ctx context.Context, b *testing.B, config *rest.Config, objects int) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var sum time.Duration
	for b.Loop() {
		ns, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for j := range objects {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", j)}}
			if _, err := client.CoreV1().ConfigMaps(ns.Name).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		took, err := deletion(ctx, client.CoreV1().Namespaces(), ns)
		if err != nil {
			return err
		}
		sum += took
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/deletion")
	b.ReportMetric(0, "ns/op") // the creation is not measured
	return nil
}

// deletion returns the time from DELETE to the removal of a namespace.
func deletion(ctx context.Context, client corev1client.NamespaceInterface, ns *corev1.Namespace) (time.Duration, error) {
	events, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: ns.ResourceVersion, FieldSelector: "metadata.name=" + ns.Name})
	if err != nil {
		return 0, err
	}
	defer events.Stop()
	began := time.Now()
	if err := client.Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	for e := range events.ResultChan() {
		switch e.Type {
		case watch.Deleted:
			return time.Since(began), nil
		case watch.Error:
			return 0, apierrors.FromObject(e.Object)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return 0, errors.New("the watch ended before the namespace was removed")
}
