package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// chatty is a store that fails every operation while *err is not nil.
type chatty struct {
	store.Store
	err *error
}

const gossip = "dial tcp 10.1.2.3:5432: user=owner password authentication failed"

func (s chatty) Get(ctx context.Context, key string) (store.Entry, error) {
	if *s.err != nil {
		return store.Entry{}, *s.err
	}
	return s.Store.Get(ctx, key)
}

func (s chatty) List(ctx context.Context, q store.Query) (store.Page, error) {
	if *s.err != nil {
		return store.Page{}, *s.err
	}
	return s.Store.List(ctx, q)
}

func (s chatty) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if *s.err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, *s.err)
	}
	return s.Store.Commit(ctx, txn)
}

// TestErrorsOfTheStoreStayInTheLog checks that the server logs errors of the store with the
// user of the request, and does not send them to the client.
func TestErrorsOfTheStoreStayInTheLog(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	var failing error
	var log lines
	e := newEnvOver(t, chatty{s, &failing}, &apiserver.Options{Logger: log.logger(), Authenticate: byHeader})
	e.namespace("x")
	require.Equal(t, http.StatusCreated, e.do("POST", configmapsOfX, `{"metadata":{"name":"first"}}`).Code) // the registry caches the type record
	failing = fmt.Errorf("%s", gossip)
	defer func() { failing = nil }()
	for i, tt := range []struct{ method, target, body, want string }{
		{"GET", "/api/v1/namespaces/x", "", "the log of the server has the details"},
		{"GET", "/api/v1/namespaces", "", "the log of the server has the details"},
		{"GET", "/api/v1/namespaces?watch=true", "", "the log of the server has the details"},
		{"GET", configmapsOfX + "?watch=true&resourceVersion=0", "", "the log of the server has the details"},
		{"DELETE", "/api/v1/namespaces/x", "", "the log of the server has the details"},
		{"POST", configmapsOfX, `{"metadata":{"name":"a"}}`, "read the object back to see whether it was written"},
	} {
		user := fmt.Sprintf("user%d", i)
		a := e.do(tt.method, tt.target, tt.body, "User", user)
		require.Equal(t, http.StatusInternalServerError, a.Code, a.Body)
		require.Equal(t, "InternalError", a.text("reason"))
		require.True(t, strings.HasPrefix(a.text("message"), "Internal error occurred: "), a.Body)
		require.Contains(t, a.text("message"), tt.want)
		for _, part := range []string{"dial", "10.1.2.3", "owner"} {
			require.NotContains(t, a.Body, part)
		}
		require.Contains(t, log.with("request failed"), "user="+user)
		require.Contains(t, log.with("user="+user), "10.1.2.3")
	}
}

// TestWatchWithBrokenBody checks that a watch request with a malformed body is answered 400 and
// not logged as an error of the server.
func TestWatchWithBrokenBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := newWire(t, &apiserver.Options{Logger: log.logger()})
		c, from := w.connect()
		say(t, c, "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
		require.Empty(t, log.with("level=ERROR"))
	})
}

// TestAccessLogClipsMethods checks that a long method is truncated in the log.
func TestAccessLogClipsMethods(t *testing.T) {
	var log lines
	e := newEnv(t, &apiserver.Options{Logger: log.logger()})
	long := strings.Repeat("M", 10_000)
	require.Equal(t, http.StatusNotFound, e.do(long, "/nowhere", "").Code)
	require.Equal(t, http.StatusMethodNotAllowed, e.do(long, "/api/v1/namespaces", "").Code)
	require.Contains(t, log.with("msg=request"), "code=405")
	for line := range strings.Lines(log.with("msg=request")) {
		require.Less(t, len(line), 1000)
	}
}
