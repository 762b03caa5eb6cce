package openapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

func get(d *openapi.Documents, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	serve(d, w, r)
	return w
}

// serve answers errors in place of the server.
func serve(d *openapi.Documents, w http.ResponseWriter, r *http.Request) {
	if !d.Serves(r.URL.Path) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if err := d.Serve(w, r); err != nil {
		w.WriteHeader(http.StatusNotAcceptable)
	}
}

func TestServing(t *testing.T) {
	d := documents(t)
	w := get(d, "/openapi/v2")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	etag := w.Header().Get("ETag")
	require.NotEmpty(t, etag)
	require.Contains(t, w.Header().Values("Vary"), "Accept")
	require.Equal(t, http.StatusNotModified, get(d, "/openapi/v2", "If-None-Match", etag).Code)

	w = get(d, "/openapi/v2", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))

	w = get(d, "/openapi/v3/api/v1?hash=old")
	require.Equal(t, http.StatusMovedPermanently, w.Code)
	require.Equal(t, http.StatusOK, get(d, w.Header().Get("Location")).Code)

	w = get(d, "/openapi/v3/api/v1", "Accept", "text/plain")
	require.Equal(t, http.StatusNotAcceptable, w.Code)
	require.Equal(t, http.StatusNotFound, get(d, "/openapi/v3/apis/none/v1").Code)
	require.Equal(t, http.StatusNotFound, get(d, "/openapi").Code)
}

func FuzzServe(f *testing.F) {
	d := documents(f)
	f.Add("/openapi/v3/api/v1?hash=x", "application/json;q=0.5,*/*;q=0.1", "gzip")
	f.Add("/openapi/v3/../v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "")
	f.Fuzz(func(t *testing.T, path, accept, encoding string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		serve(d, w, r)
		require.Contains(t, []int{200, 301, 404, 406}, w.Code)
	})
}

// The first requests for a document may be concurrent.
func TestManyAskAtOnce(t *testing.T) {
	d, err := openapi.New([]kinds.Kind{kinds.ConfigMaps(), widgets(widgetSchema)})
	require.NoError(t, err)
	var wait sync.WaitGroup
	bodies := make([]string, 8)
	for i := range bodies {
		wait.Go(func() {
			for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/example.com/v1", "/openapi/v2"} {
				bodies[i] += get(d, path).Body.String()
			}
			d.Schemas()
		})
	}
	wait.Wait()
	for _, body := range bodies {
		require.Equal(t, bodies[0], body)
	}
}
