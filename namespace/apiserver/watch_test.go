package apiserver_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/store"
)

const configmapsOfX = "/api/v1/namespaces/x/configmaps"

// put creates a configmap in namespace x and returns its resource version.
func (e *env) put(name, value string) string {
	e.t.Helper()
	body := `{"metadata":{"name":"` + name + `","labels":{"v":"` + value + `"}},"data":{"v":"` + value + `"}}`
	if e.do("GET", configmapsOfX+"/"+name, "").Code == http.StatusOK {
		return e.must(http.StatusOK, "PUT", configmapsOfX+"/"+name, body).text("metadata", "resourceVersion")
	}
	return e.must(http.StatusCreated, "POST", configmapsOfX, body).text("metadata", "resourceVersion")
}

func (e *env) remove(name string) {
	e.t.Helper()
	e.must(http.StatusOK, "DELETE", configmapsOfX+"/"+name, "")
}

// revision is the present one.
func (e *env) revision() int {
	e.t.Helper()
	n, err := strconv.Atoi(e.must(http.StatusOK, "GET", "/api/v1/namespaces?limit=1", "").text("metadata", "resourceVersion"))
	require.NoError(e.t, err)
	return n
}

// compact forgets all that was before now.
func (e *env) compact() error {
	e.t.Helper()
	return e.store.(store.Compactor).Compact(e.t.Context(), store.Revision(e.revision()))
}

// Where a watch begins: with the state, unless a version is given, or the client
// says that it does not want it.
func TestWatchBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		w.put("a", "1")
		version := w.put("b", "1")
		w.put("a", "2")
		for _, query := range []string{"", "&resourceVersion=0", "&resourceVersion=", "&resourceVersion=0&allowWatchBookmarks=true"} {
			x := w.watch(configmapsOfX + "?watch=true" + query)
			x.expect("ADDED a 2", "ADDED b 1")
			x.end()
		}
		resumed := w.watch(configmapsOfX + "?watch=1&resourceVersion=" + version)
		resumed.expect("MODIFIED a 2")
		now := w.watch(configmapsOfX + "?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		document := w.watch("/api/v1/watch/namespaces/x/configmaps/b")
		document.expect("ADDED b 1")
		all := w.watch("/api/v1/watch/configmaps?resourceVersion=" + version)
		all.expect("MODIFIED a 2")
		namespaces := w.watch("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dx")
		namespaces.expect("ADDED x")
		one := w.watch("/api/v1/watch/namespaces/x?resourceVersion=" + version)

		w.put("b", "2")
		w.remove("a")
		w.namespace("y")
		w.must(http.StatusOK, "DELETE", "/api/v1/namespaces/x", "")
		resumed.expect("MODIFIED b 2", "DELETED a 2")
		now.expect("MODIFIED b 2", "DELETED a 2")
		document.expect("MODIFIED b 2")
		all.expect("MODIFIED b 2", "DELETED a 2")
		namespaces.expect("MODIFIED x")
		one.expect("MODIFIED x")
		for _, x := range []*watching{resumed, now, document, all, namespaces, one} {
			x.end()
		}
	})
}

// The header is there as soon as the watch stands, whether something happens or
// not.
func TestWatchHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		start := time.Now()
		x := w.watch(configmapsOfX + "?watch=true")
		require.Zero(t, time.Since(start))
		require.Equal(t, "application/json", x.answer.Header.Get("Content-Type"))
		require.Equal(t, []string{"chunked"}, x.answer.TransferEncoding)
		require.Equal(t, "no-cache, private", x.answer.Header.Get("Cache-Control"))
		x.end()
	})
}

// A body with a watch does not hide that the client leaves.
func TestWatchWithBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := newWire(t, &apiserver.Options{Logger: log.logger()})
		w.namespace("x")
		c, from := w.connect()
		say(t, c, "GET "+configmapsOfX+"?watch=true HTTP/1.1\r\nHost: localhost\r\nUser-Agent: odd\r\nContent-Length: 300000\r\n\r\n"+strings.Repeat(" ", 300000))
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Contains(t, log.with("agent=odd"), "verb=watch")
	})
}

// A watch may be asked for by a program, without a connection, and without a body
// at all.
func TestWatchWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost/api/v1/namespaces?watch=true&timeoutSeconds=5", nil)
		require.NoError(t, err)
		a := e.send(r)
		require.Equal(t, http.StatusOK, a.Code)
		require.Contains(t, a.Body, `{"type":"ADDED","object":{`)
	})
}

func TestWatchSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		w.put("a", "1")
		w.put("b", "2")
		labels := w.watch(configmapsOfX + "?watch=true&labelSelector=v%3D1")
		fields := w.watch(configmapsOfX + "?watch=true&fieldSelector=metadata.name%3Db")
		labels.expect("ADDED a 1")
		fields.expect("ADDED b 2")
		w.put("b", "1")
		w.put("a", "2")
		w.put("b", "1") // changes nothing
		w.remove("b")
		labels.expect("ADDED b 1", "DELETED a 1", "DELETED b 1")
		fields.expect("MODIFIED b 1", "DELETED b 1")
		labels.end()
		fields.end()
	})
}

// A watch list ends its state with a bookmark, from which a client that resumes
// misses nothing.
func TestWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		for i := range 3 {
			w.put(fmt.Sprint("o", i), "1")
		}
		const list = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		for _, version := range []string{"", "&resourceVersion=0", "&resourceVersion=2"} {
			x := w.watch(configmapsOfX + list + "&allowWatchBookmarks=true" + version)
			x.expect("ADDED o0 1", "ADDED o1 1", "ADDED o2 1")
			mark := x.must()
			require.Equal(t, "BOOKMARK", mark.Type)
			require.Equal(t, map[string]string{"k8s.io/initial-events-end": "true"}, mark.Object.Metadata.Annotations)
			require.Equal(t, "ConfigMap", mark.Object.Kind)
			require.Equal(t, fmt.Sprint(w.revision()), mark.Object.Metadata.ResourceVersion)
			w.put("o1", "2")
			x.expect("MODIFIED o1 2")
			x.end()
			resumed := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + mark.Object.Metadata.ResourceVersion)
			resumed.expect("MODIFIED o1 2")
			resumed.end()
			w.put("o1", "1")
		}
		quiet := w.watch(configmapsOfX + list)
		quiet.expect("ADDED o0 1", "ADDED o1 1", "ADDED o2 1")
		w.put("o1", "2")
		quiet.expect("MODIFIED o1 2") // it did not ask for bookmarks
		quiet.end()
	})
}

// The state is sent a page at a time, and nothing of what happens meanwhile is
// lost or comes twice.
func TestWatchLargeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		const objects = 1203
		for i := range objects {
			w.must(http.StatusCreated, "POST", configmapsOfX, fmt.Sprintf(`{"metadata":{"name":"o%04d"}}`, i))
		}
		for _, headers := range [][]string{nil, {"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}} {
			x := w.watch(configmapsOfX+"?watch=true", headers...)
			for i := range objects {
				if i == objects/2 { // the server waits for the client within the state
					w.put("o0000", fmt.Sprint(len(headers)))
					w.put("o1202", fmt.Sprint(len(headers)))
				}
				require.Equal(t, fmt.Sprintf("ADDED o%04d", i), x.must().String()[:11])
			}
			e := x.must()
			require.Equal(t, "MODIFIED o0000", e.Type+" "+e.Object.Metadata.Name)
			e = x.must()
			require.Equal(t, "MODIFIED o1202", e.Type+" "+e.Object.Metadata.Name)
			x.end()
		}
	})
}

func TestWatchBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		quiet := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + fmt.Sprint(w.revision()) + "&timeoutSeconds=600")
		x := w.watch(configmapsOfX + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=600")
		start := time.Now()
		time.Sleep(30 * time.Second)
		w.namespace("y") // somewhere else
		mark := x.must()
		require.Equal(t, "BOOKMARK", mark.Type)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, fmt.Sprint(w.revision()), mark.Object.Metadata.ResourceVersion)
		require.Empty(t, mark.Object.Metadata.Annotations)
		last := x.must()
		require.Equal(t, "BOOKMARK", last.Type, "nothing has happened since, but the time is almost up")
		require.Equal(t, 598*time.Second, time.Since(start))
		require.Equal(t, mark.Object.Metadata.ResourceVersion, last.Object.Metadata.ResourceVersion)
		x.clean()
		require.Equal(t, 600*time.Second, time.Since(start))
		quiet.clean()
		require.Equal(t, 600*time.Second, time.Since(start))
	})
}

func TestWatchTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Limits: apiserver.Limits{WatchTimeout: time.Hour}})
		w.namespace("x")
		start := time.Now()
		x := w.watch(configmapsOfX + "?watch=true")
		x.clean()
		require.GreaterOrEqual(t, time.Since(start), time.Hour)
		require.Less(t, time.Since(start), 2*time.Hour)
		start = time.Now()
		x = w.watch(configmapsOfX + "?watch=true&timeoutSeconds=1&allowWatchBookmarks=true")
		require.Equal(t, "BOOKMARK", x.must().Type)
		require.Equal(t, 750*time.Millisecond, time.Since(start))
		x.clean()
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A version that is too old is an event of a watch that stands; one that is not
// there yet is waited for, and then refused.
func TestWatchVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		old := w.put("a", "1")
		w.put("a", "2")
		w.put("a", "3")
		require.NoError(t, w.compact())
		for _, query := range []string{"", "&allowWatchBookmarks=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"} {
			x := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + old + query)
			e := x.must()
			require.Equal(t, "ERROR", e.Type)
			require.Equal(t, "Status", e.Object.Kind)
			require.Equal(t, http.StatusGone, e.Object.Code)
			require.Equal(t, "Expired", e.Object.Reason)
			require.Equal(t, fmt.Sprintf("too old resource version: %s (%d)", old, w.revision()), e.Object.Message)
			x.clean()
		}
		for _, ahead := range []int{1, 100} {
			start := time.Now()
			future := strconv.Itoa(w.revision() + ahead)
			for _, query := range []string{"", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"} {
				a := w.do("GET", configmapsOfX+"?watch=true&resourceVersion="+future+query, "")
				a.status(http.StatusGatewayTimeout, fmt.Sprintf(`{"reason":"Timeout","message":"Timeout: Too large resource version: %s, current: %d",
					"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}`, future, w.revision()))
			}
			require.GreaterOrEqual(t, time.Since(start), 6*time.Second)
			require.Less(t, time.Since(start), 7*time.Second)
		}

		soon := strconv.Itoa(w.revision() + 1)
		time.AfterFunc(time.Second, func() { w.put("a", "4"); w.put("a", "5") })
		x := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + soon)
		x.expect("MODIFIED a 5")
		x.end()
	})
}

func TestWatchBadInput(t *testing.T) {
	w := newEnv(t, nil)
	w.namespace("x")
	for target, want := range map[string]string{
		configmapsOfX + "?watch=true&resourceVersion=x":                                                   `400 invalid resource version "x"`,
		configmapsOfX + "?watch=true&resourceVersion=-1":                                                  `400 invalid resource version "-1"`,
		configmapsOfX + "?watch=true&sendInitialEvents=true":                                              `422 sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`,
		configmapsOfX + "?watch=true&resourceVersionMatch=NotOlderThan":                                   `422 resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`,
		configmapsOfX + "?watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1": `422 sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`,
		configmapsOfX + "?watch=true&fieldSelector=spec.x%3D1":                                            `400 field label not supported: spec.x`,
		configmapsOfX + "?watch=true&labelSelector=%3D%3D":                                                `400 `,
		configmapsOfX + "?watch=true&timeoutSeconds=-1":                                                   `400 timeoutSeconds`,
		configmapsOfX + "?watch=true&timeoutSeconds=x":                                                    `400 timeoutSeconds`,
		configmapsOfX + "?watch=maybe":                                                                    `400 watch`,
		"/api/v1/watch/namespaces/x/unknown":                                                              `404 `,
		"/api/v1/watch/namespaces/x/configmaps/a/status":                                                  `404 `,
		"/api/v1/watch/namespaces/x/configmaps/a%2Fb?fieldSelector=a%3D%3D":                               `400 `,
	} {
		a := w.do("GET", target, "")
		require.Equal(t, want[:3], fmt.Sprint(a.Code), "%s: %s", target, a.Body)
		require.Contains(t, a.text("message"), want[4:])
	}
	a := w.do("GET", configmapsOfX+"?watch=true", "", "Connection", "Upgrade", "Upgrade", "websocket")
	require.Equal(t, 400, a.Code)
	require.Equal(t, "watches over WebSocket are not offered: send a plain GET", a.text("message"))
	a = w.do("GET", configmapsOfX+"?watch=true", "", "Accept", "image/png")
	require.Equal(t, http.StatusNotAcceptable, a.Code)
}
