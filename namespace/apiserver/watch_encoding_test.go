package apiserver_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Only the first event of a Table has the columns. Watchers share the others.
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

// readFrame reads one event of a watch in protobuf.
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

		// A custom kind has no protobuf form: JSON, if that will do.
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
