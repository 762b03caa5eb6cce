package apiserver_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/store"
)

const configmapsOfX = "/api/v1/namespaces/x/configmaps"

// put creates or updates a configmap in namespace x and returns its resource version.
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

// revision returns the current revision of the store.
func (e *env) revision() int {
	e.t.Helper()
	n, err := strconv.Atoi(e.must(http.StatusOK, "GET", "/api/v1/namespaces?limit=1", "").text("metadata", "resourceVersion"))
	require.NoError(e.t, err)
	return n
}

// compact removes the history before the current revision.
func (e *env) compact() error {
	e.t.Helper()
	return e.store.(store.Compactor).Compact(e.t.Context(), store.Revision(e.revision()))
}

// TestWatchBegins checks the first events of a watch. A watch begins with the current state,
// unless the client sends a resource version or disables initial events.
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

// TestWatchHeader checks that the server sends the header of a watch at once, before any event.
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

// TestWatchWithBody checks that the server detects the disconnect of a client that has sent a
// body with its watch request.
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

// TestWatchWithoutConnection calls the handler directly for a watch with a nil body.
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
		w.put("b", "1") // no change, so no event
		w.remove("b")
		labels.expect("ADDED b 1", "DELETED a 1", "DELETED b 1")
		fields.expect("MODIFIED b 1", "DELETED b 1")
		labels.end()
		fields.end()
	})
}

// TestWatchList checks that a watch list ends its initial state with a bookmark, and that a watch
// from the version of the bookmark misses no event.
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
		quiet.expect("MODIFIED o1 2") // no bookmark before it: the client did not ask for bookmarks
		quiet.end()
	})
}

// TestWatchLargeState checks that a watch sends a state of several pages completely. Changes
// during the initial state are sent once, after it.
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
				if i == objects/2 { // the client is still reading the initial state
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
		w.namespace("y") // a write outside of the watched namespace
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

// TestWatchVersions checks watches from compacted and future versions. A compacted version causes
// an error event. The server waits for a future version, and then answers 504.
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

// churn makes random changes to a few configmaps, and returns the revision before the changes.
func (e *env) churn(random *rand.Rand, changes int) int {
	e.t.Helper()
	before := e.revision()
	for i := range changes {
		name := fmt.Sprint("o", random.IntN(4))
		exists := e.do("GET", configmapsOfX+"/"+name, "").Code == http.StatusOK
		if exists && random.IntN(3) == 0 {
			e.remove(name)
		} else {
			e.put(name, fmt.Sprintf("%d-%x", i, random.Uint32()))
		}
	}
	return before
}

// TestWatchResumesAtEveryVersion checks that a watch from any version sends every later event
// exactly once.
func TestWatchResumesAtEveryVersion(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		const changes = 40
		before := w.churn(rand.New(rand.NewPCG(seed, 1)), changes)
		target := func(version string) string { return configmapsOfX + "?watch=true&resourceVersion=" + version }
		read := func(version string, n int) (seen, versions []string) {
			x := w.watch(target(version))
			defer x.end()
			for range n {
				e := x.must()
				seen = append(seen, e.String())
				versions = append(versions, e.Object.Metadata.ResourceVersion)
			}
			return seen, versions
		}
		history, versions := read(fmt.Sprint(before), changes)
		for i, version := range versions {
			rest, _ := read(version, changes-i-1)
			require.Empty(t, cmp.Diff(history[i+1:], rest, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\n") })), "after %d", i)
		}
		random := rand.New(rand.NewPCG(seed, 2))
		var seen []string
		for at := fmt.Sprint(before); len(seen) < changes; {
			part, versions := read(at, 1+random.IntN(min(5, changes-len(seen))))
			seen = append(seen, part...)
			at = versions[len(versions)-1]
		}
		require.Empty(t, cmp.Diff(history, seen))
	})
}

// TestWatchResumesWithinACommit checks a client that has seen only a part of a commit of several
// objects. After it resumes, the server sends all events of that commit again.
func TestWatchResumesWithinACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		for i := range 3 {
			w.must(http.StatusCreated, "POST", configmapsOfX, fmt.Sprintf(`{"metadata":{"name":"o%d","finalizers":["example.com/hold"]}}`, i))
		}
		before := fmt.Sprint(w.revision())
		w.must(http.StatusOK, "DELETE", configmapsOfX, "")
		x := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + before)
		e := x.must()
		require.Equal(t, "MODIFIED o0", e.String())
		x.end()
		x = w.watch(configmapsOfX + "?watch=true&resourceVersion=" + e.Object.Metadata.ResourceVersion)
		x.expect("MODIFIED o0", "MODIFIED o1", "MODIFIED o2")
		x.end()
		for i := range 3 {
			w.must(http.StatusOK, "PATCH", fmt.Sprint(configmapsOfX, "/o", i), `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
		}
	})
}

// TestManyWatchers checks that all watchers get the same events, regardless of when they begin
// and which representation they request.
func TestManyWatchers(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		random := rand.New(rand.NewPCG(seed, 3))
		start := fmt.Sprint(w.revision())
		const rounds, each = 20, 5
		var all []*watching
		for range rounds {
			for _, accept := range []string{"application/json", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1"} {
				all = append(all, w.watch(configmapsOfX+"?watch=true&resourceVersion="+start, "Accept", accept))
			}
			w.churn(random, each)
		}
		var histories [3][]string
		for i, x := range all {
			var seen []string
			for range rounds * each {
				e := x.must()
				seen = append(seen, e.Type)
				if i%3 < 2 {
					seen = append(seen, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion)
				}
			}
			x.end()
			if histories[i%3] == nil {
				histories[i%3] = seen
			}
			require.Empty(t, cmp.Diff(histories[i%3], seen))
		}
		require.Equal(t, histories[0], histories[1])
	})
}

// TestWatchTable checks that only the first event of a Table watch has column definitions. The
// encoding of later events is shared between watchers.
func TestWatchTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		w.put("a", "1")
		const table = "application/json;as=Table;g=meta.k8s.io;v=v1"
		fresh := w.watch(configmapsOfX+"?watch=true&resourceVersion="+w.put("a", "2"), "Accept", table)
		state := w.watch(configmapsOfX+"?watch=true", "Accept", table)
		columns := func(x *watching) int {
			var e struct {
				Type   string
				Object metav1.Table
			}
			require.NoError(t, x.frames.Decode(&e))
			require.Equal(t, "Table", e.Object.Kind)
			require.Len(t, e.Object.Rows, 1)
			require.Equal(t, "a", e.Object.Rows[0].Cells[0])
			return len(e.Object.ColumnDefinitions)
		}
		require.Equal(t, 3, columns(state))
		w.put("a", "3")
		w.put("a", "4")
		for i, x := range []*watching{fresh, state} {
			first := columns(x)
			require.Equal(t, i == 0, first == 3)
			require.Zero(t, columns(x))
			x.end()
		}
	})
}

// readFrame reads one event of a protobuf watch, and returns its type and object.
func readFrame(t testing.TB, from io.Reader) (string, runtime.Unknown) {
	t.Helper()
	var size [4]byte
	_, err := io.ReadFull(from, size[:])
	require.NoError(t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(from, frame)
	require.NoError(t, err)
	var e metav1.WatchEvent
	require.NoError(t, e.Unmarshal(frame))
	require.Equal(t, "k8s\x00", string(e.Object.Raw[:4]))
	var object runtime.Unknown
	require.NoError(t, object.Unmarshal(e.Object.Raw[4:]))
	return e.Type, object
}

func TestWatchProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		old := w.put("a", "1")
		x := w.watch(configmapsOfX+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			"Accept", "application/vnd.kubernetes.protobuf,application/json")
		require.Equal(t, "application/vnd.kubernetes.protobuf;stream=watch", x.answer.Header.Get("Content-Type"))
		w.put("a", "2")
		for _, want := range []string{"ADDED 1", "BOOKMARK ", "MODIFIED 2"} {
			kind, object := readFrame(t, x.answer.Body)
			require.Equal(t, "ConfigMap", object.Kind)
			var c corev1.ConfigMap
			require.NoError(t, c.Unmarshal(object.Raw))
			require.Equal(t, want, kind+" "+c.Data["v"])
			require.Equal(t, kind == "BOOKMARK", c.Annotations["k8s.io/initial-events-end"] == "true")
			require.NotEmpty(t, c.ResourceVersion)
		}
		x.end()

		require.NoError(t, w.compact())
		x = w.watch(configmapsOfX+"?watch=true&resourceVersion="+old, "Accept", "application/vnd.kubernetes.protobuf")
		kind, object := readFrame(t, x.answer.Body)
		require.Equal(t, "ERROR Status", kind+" "+object.Kind)
		var status metav1.Status
		require.NoError(t, status.Unmarshal(object.Raw))
		require.Equal(t, int32(http.StatusGone), status.Code)
		_, err := x.answer.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		x.end()

		// Custom kinds have no protobuf form. The server sends JSON if the client accepts it.
		a := w.do("GET", "/apis/example.com/v1/namespaces/x/widgets?watch=true", "", "Accept", "application/vnd.kubernetes.protobuf")
		require.Equal(t, http.StatusNotAcceptable, a.Code)
		x = w.watch("/apis/example.com/v1/namespaces/x/widgets?watch=true", "Accept", "application/vnd.kubernetes.protobuf,application/json")
		w.must(http.StatusCreated, "POST", "/apis/example.com/v1/namespaces/x/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"a":1}}`)
		var e struct {
			Type   string
			Object struct{ Spec json.RawMessage }
		}
		require.NoError(t, x.frames.Decode(&e))
		require.Equal(t, `ADDED {"a":1}`, e.Type+" "+string(e.Object.Spec))
		x.end()
	})
}
