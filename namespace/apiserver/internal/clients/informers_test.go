package clients

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// recorder records the requests of a client and may answer some itself.
type recorder struct {
	next   http.RoundTripper
	refuse func(*http.Request) bool // answered 422 as by a server that does not know the parameter

	mu   sync.Mutex
	said []string
}

func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	r.next = next
	return r
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	kind := "list"
	if q.URL.Query().Get("watch") == "true" {
		kind = "watch"
	}
	if q.URL.Query().Get("sendInitialEvents") == "true" {
		kind = "watch list"
	}
	r.mu.Lock()
	r.said = append(r.said, kind)
	r.mu.Unlock()
	if r.refuse == nil || !r.refuse(q) {
		return r.next.RoundTrip(q)
	}
	text := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"sendInitialEvents is forbidden","reason":"Invalid","code":422}`
	return &http.Response{
		StatusCode: http.StatusUnprocessableEntity, Status: "422 Unprocessable Entity", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(text))), Request: q,
	}, nil
}

func (r *recorder) first() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[:min(len(r.said), 2)]
}

// An informer of client-go needs no list if a watch begins with the existing objects. If the
// server rejects such a watch, the informer lists and watches.
func TestWatchList(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse func(*http.Request) bool
		want   string
	}{
		"served":  {nil, "watch list"},
		"refused": {func(q *http.Request) bool { return q.URL.Query().Has("sendInitialEvents") }, "watch list, list"},
	} {
		for _, client := range []string{"json", "protobuf", "dynamic", "metadata"} {
			t.Run(name+"/"+client, func(t *testing.T) {
				t.Parallel()
				h := plan{}.start(t)
				for i := range 30 {
					_, err := h.typed(t, mediaJSON).CoreV1().ConfigMaps("default").Create(t.Context(), newConfigMap(fmt.Sprintf("c%02d", i), nil), metav1.CreateOptions{})
					require.NoError(t, err)
				}
				r := &recorder{refuse: tt.refuse}
				c := h.config()
				c.WrapTransport = r.wrap
				informer := newInformer(t, client, c)
				var group sync.WaitGroup
				defer group.Wait()
				stop := make(chan struct{})
				defer close(stop)
				group.Go(func() { informer.Run(stop) })
				require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced))
				require.Len(t, informer.GetStore().List(), 30)
				first := r.first()
				if tt.refuse == nil {
					first = first[:1]
				}
				require.Equal(t, tt.want, strings.Join(first, ", "))
			})
		}
	}
}

// newInformer returns an informer of configmaps.
func newInformer(t *testing.T, client string, c *rest.Config) cache.SharedIndexInformer {
	t.Helper()
	switch client {
	case "dynamic":
		d, err := dynamic.NewForConfig(c)
		require.NoError(t, err)
		return dynamicinformer.NewDynamicSharedInformerFactory(d, 0).ForResource(configMapResource).Informer()
	case "metadata":
		m, err := metadata.NewForConfig(c)
		require.NoError(t, err)
		return metadatainformer.NewSharedInformerFactory(m, 0).ForResource(configMapResource).Informer()
	}
	c.ContentType = mediaJSON
	if client == "protobuf" {
		c.ContentType = mediaProtobuf
	}
	k, err := kubernetes.NewForConfig(c)
	require.NoError(t, err)
	return informers.NewSharedInformerFactory(k, 0).Core().V1().ConfigMaps().Informer()
}
