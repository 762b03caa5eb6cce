package document

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	form := func(names ...string) *Form { return NewForm(names[0], nil, names...) }
	forms := []*Form{form("a/b"), form("c/d"), form("application/x.v1.0+protobuf", "application/x@v1.0+protobuf"), form("e/f;g=x;v=y;as=Z")}
	for header, want := range map[string]int{
		"": 0, " , ": 0, "*/*": 0, "*": 0, "c/*": 1, "a/b": 0, "a/b;q=0.5, C/D": 1, "a/b;q=0,c/d": 1, "a/b;q=x,c/d;q=NaN,c/d": 1, "nonsense": -1,
		"application/x@v1.0+protobuf;q=0.9,a/b;q=0.1": 2, "e/f": -1, "e/f;g=x;v=y;as=Z": 3, "e/f;g=x;v=y;as=Y": -1,
		strings.Repeat("x/y,", 10_000) + "c/d": 1,
	} {
		var wanted *Form
		if want >= 0 {
			wanted = forms[want]
		}
		require.Same(t, wanted, choose(header, forms), header[:min(len(header), 50)])
	}
}

func ask(method string, headers map[string]string, forms ...*Form) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if err := Serve(w, r, forms...); err != nil {
		panic(err)
	}
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

func TestFailuresWriteNothing(t *testing.T) {
	broken := errors.New("no")
	failing := NewForm(JSON, func() ([]byte, error) { return nil, broken })
	for _, test := range []struct {
		accept string
		form   *Form
		want   error
	}{
		{"text/html", fixed(JSON, "{}"), codec.ErrNotAcceptable},
		{"application/json;q=0", fixed(JSON, "{}"), codec.ErrNotAcceptable},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", fixed(JSON, "{}"), codec.ErrNotAcceptable},
		{"", failing, broken},
	} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.Header.Set("Accept", test.accept)
		require.ErrorIs(t, Serve(w, r, test.form), test.want)
		require.Empty(t, w.Body.String())
		require.Empty(t, w.Header().Get("ETag"))
	}
}
