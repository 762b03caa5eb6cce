package apiserver_test

import (
	"context"
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

// slowStore takes a second for each read of configmaps, and counts those at once.
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

// Requests read from the store when there is memory for it, not before: objects of requests
// that wait would be in no account.
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
