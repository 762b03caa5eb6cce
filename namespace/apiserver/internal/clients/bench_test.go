package clients

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// The time from client-go's DELETE to the removal of a namespace with 500 configmaps and 50
// widgets from the store.
func BenchmarkDeleteNamespace(b *testing.B) {
	for _, kind := range []string{"memory", "bolt"} {
		b.Run(kind, func(b *testing.B) {
			removed := make(chan string, 1)
			p := plan{removed: func(ref namespace.Ref) { removed <- ref.Name }}
			if kind == "bolt" {
				p.file = filepath.Join(b.TempDir(), "bench.db")
			}
			h := p.start(b)
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprintf("ns-%d", i)
				b.StopTimer()
				h.fillForBench(b, name)
				namespaces := h.typed(b, mediaProtobuf).CoreV1().Namespaces()
				b.StartTimer()
				require.NoError(b, namespaces.Delete(b.Context(), name, metav1.DeleteOptions{}))
				require.Equal(b, name, <-removed)
			}
		})
	}
}

func (h *host) fillForBench(b *testing.B, name string) {
	b.Helper()
	clients := h.typed(b, mediaProtobuf)
	client, err := dynamic.NewForConfig(h.config())
	require.NoError(b, err)
	_, err = clients.CoreV1().Namespaces().Create(b.Context(), newNamespace(name), metav1.CreateOptions{})
	require.NoError(b, err)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range 500 {
		group.Go(func() error {
			_, err := clients.CoreV1().ConfigMaps(name).Create(b.Context(), newConfigMap(fmt.Sprintf("c%d", i), map[string]string{"a": "b"}), metav1.CreateOptions{})
			return err
		})
	}
	for i := range 50 {
		group.Go(func() error {
			_, err := client.Resource(widgetResource).Namespace(name).Create(b.Context(), newWidget(fmt.Sprintf("w%d", i), 1), metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(b, group.Wait())
}
