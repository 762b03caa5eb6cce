package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
)

// large creates n configmaps of 768 KiB in namespace x.
func (w *wire) large(n int) {
	w.t.Helper()
	for i := range n {
		w.must(http.StatusCreated, "POST", configmapsOfX, `{"metadata":{"name":"`+string(rune('a'+i))+`"},"data":{"v":"`+strings.Repeat("x", 768<<10)+`"}}`)
	}
}

// TestSlowReaderOfAList checks that a client that reads more slowly than Limits.Rate loses its
// connection, so that its slot becomes free. A client that reads at the rate gets the whole
// answer.
func TestSlowReaderOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := newWire(t, &apiserver.Options{Logger: log.logger(), Limits: apiserver.Limits{Reads: 1, QueueTimeout: time.Second, Stall: 8 * time.Second}})
		w.namespace("x")
		w.large(3)
		for i, tt := range []struct {
			bytes int64
			every time.Duration
			whole bool
		}{
			{256 << 10, 6 * time.Second, false}, // each pause is shorter than Stall
			{1 << 10, 100 * time.Millisecond, false},
			{128 << 10, time.Second, true}, // exactly Rate
		} {
			for j, target := range []string{configmapsOfX, configmapsOfX + "?watch=true&timeoutSeconds=3600"} {
				agent := fmt.Sprintf("slow-%d-%d", i, j)
				c, from := w.connect()
				say(t, c, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\nUser-Agent: "+agent+"\r\n\r\n")
				answer, err := http.ReadResponse(from, nil)
				require.NoError(t, err)
				start := time.Now()
				busy := w.do("GET", configmapsOfX+"/a", "").Code
				require.Equal(t, http.StatusTooManyRequests, busy, "it has the only slot")
				var taken int64
				for err == nil && taken < 2<<20 {
					var n int64
					n, err = io.CopyN(io.Discard, answer.Body, tt.bytes)
					taken += n
					time.Sleep(tt.every)
				}
				if tt.whole {
					require.NoError(t, err, agent)
				} else {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF, agent)
					require.Less(t, time.Since(start), time.Minute)
				}
				require.NoError(t, c.Close())
				synctest.Wait()
				if !tt.whole {
					require.Contains(t, log.with("agent="+agent), `reason="the client takes too little"`)
				}
				w.must(http.StatusOK, "GET", configmapsOfX+"/a", "")
			}
		}
	})
}

// TestStateOfWatchesHasASlot checks that a watch occupies a read slot while the server sends the
// initial state. A watch from a resource version needs no slot.
func TestStateOfWatchesHasASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := holdingAuthorizer{"/api/v1/namespaces/x", make(chan struct{})}
		w := newWire(t, &apiserver.Options{Authorizer: hold, Limits: apiserver.Limits{Reads: 1}})
		w.namespace("x")
		version := w.put("a", "1")
		code := make(chan int, 1)
		go func() { code <- w.do("GET", hold.path, "").Code }()
		synctest.Wait()
		start := time.Now()
		resumed := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + version)
		now := w.watch(configmapsOfX + "?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		require.Zero(t, time.Since(start))
		a := w.do("GET", configmapsOfX+"?watch=true", "")
		a.status(http.StatusTooManyRequests, `{"reason":"TooManyRequests","message":"Too many requests, please try again later.","details":{"retryAfterSeconds":1}}`)
		require.Equal(t, 5*time.Second, time.Since(start))
		close(hold.open)
		require.Equal(t, http.StatusOK, <-code)

		open := []*watching{resumed, now}
		for range 20 {
			x := w.watch(configmapsOfX + "?watch=true")
			x.expect("ADDED a 1")
			open = append(open, x)
		}
		w.must(http.StatusOK, "GET", configmapsOfX, "")
		for _, x := range open {
			x.end()
		}
	})
}
