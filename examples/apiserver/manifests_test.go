package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pieces sends each written text to the test.
type pieces chan string

func (p pieces) Write(text []byte) (int, error) {
	p <- string(text)
	return len(text), nil
}

// until returns the last submatch of the first piece that matches pattern.
func (p pieces) until(t *testing.T, pattern string) string {
	t.Helper()
	for {
		select {
		case piece := <-p:
			if found := regexp.MustCompile(pattern).FindStringSubmatch(piece); found != nil {
				return found[len(found)-1]
			}
		case <-t.Context().Done():
			t.Fatalf("nothing matched %s", pattern)
		}
	}
}

// The program serves the objects of a directory and of a URL in the node's namespace.
func TestManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "greeting.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata: {text: hello}\n"), 0o600))
	before := time.Now().Add(-time.Minute) // the file must not look recently written
	require.NoError(t, os.Chtimes(file, before, before))
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"away"},"data":{"text":"far"}}`)
	}))
	t.Cleanup(away.Close)
	refused := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refused.Close)

	ctx, stop := context.WithCancel(t.Context())
	said, logged, ended := make(pieces, 100), make(pieces, 100), make(chan error, 1)
	with := func(address, user string) string {
		return "http://" + user + "@" + address[len("http://"):] + "/manifests"
	}
	go func() {
		ended <- run(ctx, said, logged, []string{"--store", "memory", "--listen", "127.0.0.1:0", "--node", "node-7",
			"--manifests", dir, "--manifests", with(away.URL, "me:secret"), "--manifests", with(refused.URL, "me:secret")})
	}()
	address := said.until(t, "serving on (.*)\n")
	for applied, failed := 0, 0; applied < 2 || failed < 1; {
		piece := <-logged
		require.NotContains(t, piece, "secret")
		if regexp.MustCompile(`manifests were applied.*namespace=node-7.*created=1`).MatchString(piece) {
			applied++
		}
		if regexp.MustCompile(`manifests cannot be applied.*404`).MatchString(piece) {
			failed++
		}
	}
	for name, text := range map[string]string{"greeting": "hello", "away": "far"} {
		answer, err := http.Get(address + "/api/v1/namespaces/node-7/configmaps/" + name)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Contains(t, string(body), `"text":"`+text+`"`)
	}
	stop()
	require.NoError(t, <-ended)
}
