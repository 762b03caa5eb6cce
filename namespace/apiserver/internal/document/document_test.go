package document

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		header string
		want   []string
	}{
		{"", []string{"*/*"}},
		{" , ", []string{"*/*"}},
		{"a/b", []string{"a/b"}},
		{"a/b;q=0.5, C/D", []string{"c/d", "a/b"}},
		{"a/b;q=0,c/d", []string{"c/d"}},
		{"a/b;q=x,c/d;q=NaN,e/f", []string{"e/f"}},
		{"nonsense", nil},
		{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.9,a/b;q=0.1", []string{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "a/b"}},
	} {
		var got []string
		for _, m := range Parse(test.header) {
			got = append(got, m.Type)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.header, diff)
		}
	}
	require.Len(t, Parse(strings.Repeat("a/b,", 10_000)), maxClauses)
}

func ask(method string, headers map[string]string, forms ...*Form) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	Serve(w, r, forms...)
	return w
}

func fixed(contentType, text string) *Form {
	return NewForm(contentType, func() ([]byte, error) { return []byte(text), nil })
}

func TestServe(t *testing.T) {
	plain, other := fixed(JSON, `{}`), fixed(Protobuf, "k8s")
	require.Equal(t, "{}", ask("GET", nil, plain, other).Body.String())
	w := ask("GET", map[string]string{"Accept": Protobuf}, plain, other)
	require.Equal(t, "k8s", w.Body.String())
	require.Equal(t, "3", w.Header().Get("Content-Length"))
	etag := w.Header().Get("ETag")
	for _, match := range []string{etag, `"x", ` + etag, "W/" + etag, "*"} {
		require.Equal(t, http.StatusNotModified, ask("GET", map[string]string{"Accept": Protobuf, "If-None-Match": match}, plain, other).Code, match)
	}
	require.Equal(t, http.StatusOK, ask("GET", map[string]string{"If-None-Match": etag}, plain, other).Code, "the ETag of another form")
	w = ask("HEAD", nil, plain)
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Body.String())
}

func TestGzip(t *testing.T) {
	text := strings.Repeat("text ", 1000)
	large, small := fixed(JSON, text), fixed(JSON, "{}")
	w := ask("GET", map[string]string{"Accept-Encoding": "br, gzip;q=0.8"}, large)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Less(t, w.Body.Len(), len(text)/10)
	unpacked, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	got, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
	for header, form := range map[string]*Form{"": large, "br": large, "gzip;q=0": large, "gzip;q=x": large, "gzip": small} {
		require.Empty(t, ask("GET", map[string]string{"Accept-Encoding": header}, form).Header().Get("Content-Encoding"), header)
	}
}

func TestBadInput(t *testing.T) {
	failing := NewForm(JSON, func() ([]byte, error) { return nil, errors.New("no") })
	for _, test := range []struct {
		method, accept string
		form           *Form
		code           int32
		reason         metav1.StatusReason
	}{
		{"POST", "", fixed(JSON, "{}"), 405, metav1.StatusReasonMethodNotAllowed},
		{"GET", "text/html", fixed(JSON, "{}"), 406, metav1.StatusReasonNotAcceptable},
		{"GET", "application/json;q=0", fixed(JSON, "{}"), 406, metav1.StatusReasonNotAcceptable},
		{"GET", "application/json;as=Table;v=v1;g=meta.k8s.io", fixed(JSON, "{}"), 406, metav1.StatusReasonNotAcceptable},
		{"GET", "", failing, 500, metav1.StatusReasonInternalError},
	} {
		w := ask(test.method, map[string]string{"Accept": test.accept}, test.form)
		var status metav1.Status
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
		require.EqualValues(t, test.code, w.Code)
		require.Equal(t, test.code, status.Code)
		require.Equal(t, test.reason, status.Reason)
		require.Equal(t, metav1.StatusFailure, status.Status)
		require.Empty(t, w.Header().Get("ETag"))
	}
}

// A failure is never kept as what it stands in for would be.
func TestFailuresAreNotKept(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Cache-Control", "public, immutable")
	w.Header().Set("Expires", "later")
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	Serve(w, r, fixed(JSON, "{}"))
	require.Empty(t, w.Header().Get("Cache-Control"))
	require.Empty(t, w.Header().Get("Expires"))
}

func FuzzParse(f *testing.F) {
	f.Add("application/json;q=0.5;as=Table, */*;q=0.1")
	f.Add("a@b/c;;q=;=,/;q=1e9")
	f.Fuzz(func(t *testing.T, header string) {
		last := 0.0
		for i, m := range Parse(header) {
			require.Contains(t, m.Type, "/")
			require.Greater(t, m.Q, 0.0)
			require.True(t, i == 0 || m.Q <= last)
			last = m.Q
		}
	})
}
