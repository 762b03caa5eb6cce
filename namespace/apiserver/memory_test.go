package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// slowStore delays each read of configmaps by a second, and records the maximum of concurrent
// reads.
type slowStore struct {
	store.Store
	mu            sync.Mutex
	reading, most int
}

func (s *slowStore) read(key string) func() {
	if !strings.Contains(key, "configmaps") {
		return func() {}
	}
	s.mu.Lock()
	s.reading++
	s.most = max(s.most, s.reading)
	s.mu.Unlock()
	time.Sleep(time.Second)
	return func() {
		s.mu.Lock()
		s.reading--
		s.mu.Unlock()
	}
}

func (s *slowStore) Get(ctx context.Context, key string) (store.Entry, error) {
	defer s.read(key)()
	return s.Store.Get(ctx, key)
}

func (s *slowStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	defer s.read(q.Prefix)()
	return s.Store.List(ctx, q)
}

// TestReadsWaitForMemory checks that a request reserves memory before it reads from the store.
// Otherwise the objects of waiting requests would use memory that Limits.Memory does not count.
func TestReadsWaitForMemory(t *testing.T) {
	for target, accept := range map[string]string{
		configmapsOfX + "/a": "application/json", configmapsOfX: "application/json",
		configmapsOfX + "?limit=10": "application/yaml", configmapsOfX + "?watch=true&timeoutSeconds=1": "application/json",
	} {
		synctest.Test(t, func(t *testing.T) {
			inner, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, inner.Close()) })
			slow := &slowStore{Store: inner}
			e := newEnvOver(t, slow, &apiserver.Options{Limits: apiserver.Limits{Memory: 16 << 20}})
			e.namespace("x")
			e.must(http.StatusCreated, "POST", configmapsOfX, `{"metadata":{"name":"a"}}`)
			slow.most = 0
			var running sync.WaitGroup
			for range 4 {
				running.Go(func() {
					a := e.do("GET", target, "", "Accept", accept)
					require.Equal(t, http.StatusOK, a.Code, a.Body)
				})
			}
			running.Wait()
			require.Equal(t, 1, slow.most, "%s: a client has room for one", target)
		})
	}
}

// TestHeavyAnswersOfWrites checks writes whose answers need more memory than their bodies. An
// update or a patch is refused before the commit. A deletion succeeds and is answered with a
// Status instead of the object.
func TestHeavyAnswersOfWrites(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Memory: 16 << 20}})
	e.namespace("x")
	const widgets = "/apis/example.com/v1/namespaces/x/widgets"
	const heavy, yaml = widgets + "/heavy", "application/yaml"
	made := e.must(http.StatusCreated, "POST", widgets,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"heavy","finalizers":["example.com/f"]},"spec":{"x":[{}`+strings.Repeat(",{}", 8_000)+`]}}`)
	e.must(http.StatusRequestEntityTooLarge, "GET", heavy, "", "Accept", yaml)
	before := e.contents()
	const status = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"heavy"},"status":{"ready":true}}`
	e.must(http.StatusRequestEntityTooLarge, "PUT", heavy+"/status", status, "Accept", yaml)
	e.must(http.StatusRequestEntityTooLarge, "PATCH", heavy+"/status", `{"status":{"ready":true}}`, "Accept", yaml, "Content-Type", "application/merge-patch+json")
	require.Equal(t, before, e.contents())
	e.must(http.StatusOK, "PUT", heavy+"/status", status)
	deleted := e.must(http.StatusOK, "DELETE", heavy, "", "Accept", yaml)
	require.Contains(t, deleted.Body, "kind: Status\n")
	require.Contains(t, deleted.Body, made.text("metadata", "uid"))
	require.Equal(t, "Widget", e.must(http.StatusOK, "DELETE", heavy, "").text("kind"), "there is memory for it in JSON")
	e.must(http.StatusOK, "PATCH", heavy, `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
}

// TestHeavyOutcomesOfPatches checks that the server weighs the result of a JSON patch before it
// decodes the result. A small patch can copy a large value many times.
func TestHeavyOutcomesOfPatches(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Memory: 32 << 20}})
	e.namespace("x")
	const widgets = "/apis/example.com/v1/namespaces/x/widgets"
	e.must(http.StatusCreated, "POST", widgets,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"x":[{}`+strings.Repeat(",{}", 1_000)+`]}}`)
	before := e.contents()
	var copies []string
	for i := range 50 {
		copies = append(copies, fmt.Sprintf(`{"op":"copy","from":"/spec/x","path":"/spec/y%d"}`, i))
	}
	send := func(n int) answer {
		return e.do("PATCH", widgets+"/a", "["+strings.Join(copies[:n], ",")+"]", "Content-Type", "application/json-patch+json")
	}
	a := send(50)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.Code, a.Body[:min(len(a.Body), 200)])
	require.Contains(t, a.text("message"), "MiB of memory")
	require.Equal(t, before, e.contents())
	require.Equal(t, http.StatusOK, send(5).Code)
}
