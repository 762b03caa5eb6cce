package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzWatchQuery parses arbitrary paths and queries of watches. An invalid request fails with 400
// or 422. A valid one has a positive timeout. A path of one object selects that object by name.
func FuzzWatchQuery(f *testing.F) {
	for _, query := range []string{
		"", "watch=true&resourceVersion=5&timeoutSeconds=10&allowWatchBookmarks=1", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"labelSelector=a%3Db,c+in+(d)&fieldSelector=metadata.name!%3Dx", "timeoutSeconds=9223372036854775807", "watch=true&sendInitialEvents=&resourceVersion=0",
	} {
		f.Add("/api/v1/watch/namespaces/x", query)
		f.Add("/api/v1/watch/namespaces/x/configmaps/a%2C%3D%5Cb", query)
		f.Add("/apis/example.com/v1/watch/widgets", query)
	}
	s := &Server{options: Options{Limits: Limits{WatchTimeout: 1}}}
	f.Fuzz(func(t *testing.T, path, query string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path+"?"+query, nil)
		if err != nil {
			return
		}
		rt := routeOf(r)
		if rt.malformed || !rt.watches() {
			return
		}
		q, err := parseQuery(r.URL.RawQuery, rt)
		if err != nil {
			st := failure(err)
			require.Contains(t, []int32{http.StatusBadRequest, http.StatusUnprocessableEntity}, st.Code, "%v", err)
			return
		}
		req := &request{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), route: rt, query: q}
		require.Positive(t, s.watchTimeout(req))
		if q.begins() == fromVersion {
			require.NotContains(t, []string{"", "0"}, q.list.ResourceVersion)
		}
		if err := req.narrow(); err != nil {
			require.Equal(t, int32(http.StatusBadRequest), failure(err).Code)
			return
		}
		if rt.item {
			name, ok := req.query.list.Fields.Exactly("metadata.name")
			require.True(t, ok)
			require.Equal(t, rt.Name, name)
		}
	})
}
