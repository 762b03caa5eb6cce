package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// onTheWire serves lists with one terminating namespace at revision 10, and watches with w.
func onTheWire(t testing.TB, list, w http.HandlerFunc) *Namespaces {
	t.Helper()
	if list == nil {
		list = func(w http.ResponseWriter, _ *http.Request) {
			l := listed("10", dying("a", "u", "9"))
			l.Kind, l.APIVersion = "NamespaceList", "v1"
			answerJSON(w, 200, l)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			list(out, r)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusOK)
		out.(http.Flusher).Flush()
		w(out, r)
	}))
	t.Cleanup(s.Close)
	return over(t, &rest.Config{Host: s.URL, QPS: -1})
}

// send writes an event.
func send(w io.Writer, what watch.EventType, object any) {
	if k, ok := object.(*corev1.Namespace); ok {
		k.Kind, k.APIVersion = "Namespace", "v1"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"type": what, "object": object})
	w.(http.Flusher).Flush()
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// If a server sends anything but a watch of namespaces, the watch ends, with an error that says so
// where possible. It never panics and never yields a wrong event.
func TestWatchOnTheWire(t *testing.T) {
	t.Parallel()
	expired := apierrors.NewResourceExpired("too old").ErrStatus
	expired.Kind, expired.APIVersion = "Status", "v1"
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
			hang(w, r)
		}
	}
	for _, c := range []struct {
		name  string
		watch http.HandlerFunc
		kind  error
		says  string
	}{
		{name: "expired", watch: func(w http.ResponseWriter, r *http.Request) { send(w, watch.Error, expired); hang(w, r) }, kind: namespace.ErrGone, says: "too old"},
		{name: "no JSON", watch: raw("<html>"), says: "decod"},
		{name: "no event", watch: raw(`[]`), says: "decod"},
		{name: "no type", watch: raw(`{}`), says: "decod"},
		{name: "an unknown type", watch: raw(`{"type":"EXPLODED","object":{"kind":"Namespace","apiVersion":"v1"}}`), says: "decod"},
		{name: "no object", watch: raw(`{"type":"ADDED"}`), says: "decod"},
		{name: "an object without a kind", watch: raw(`{"type":"ADDED","object":{}}`), says: "decod"},
		{name: "another kind", watch: raw(`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"}}`), says: "*v1.ConfigMap"},
		{name: "an error without a status", watch: raw(`{"type":"ERROR","object":{"kind":"Namespace","apiVersion":"v1"}}`), says: "unexpected object"},
		{name: "cut off at once", watch: noAnswer, says: "as soon as it began"},
		{name: "ended at once", watch: func(http.ResponseWriter, *http.Request) {}, says: "as soon as it began"},
		{name: "half an event", watch: func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"type":"ADD`); noAnswer(w, r) }, says: "as soon as it began"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := onTheWire(t, nil, c.watch)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			events, err := hear(ctx, n, "")
			require.Equal(t, []namespace.Event{terminatingEvent("a", "u", ""), syncedEvent("10")}, events)
			require.Equal(t, c.kind, kindOf(t, err), err)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// If web pages answer a watch, the error says so.
func TestWatchOfPages(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(answerText(200, "text/html", "<!DOCTYPE html>"))
	t.Cleanup(s.Close)
	n := over(t, &rest.Config{Host: s.URL, QPS: -1})
	_, err := hear(t.Context(), n, "")
	require.ErrorContains(t, err, "web page")
	f := follower{Namespaces: n, position: "10", synced: true, known: map[string]knownNamespace{}}
	require.ErrorContains(t, f.watch(t.Context()), "web page")
}

// When a loop has ended, in any way, nothing of it runs any more.
func TestNoGoroutineIsLeft(t *testing.T) {
	// Not parallel: it looks at all goroutines.
	busy := func(w http.ResponseWriter, r *http.Request) {
		for version := range 100_000 {
			if r.Context().Err() != nil {
				return
			}
			send(w, watch.Bookmark, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ResourceVersion: string(rune('1' + version%9))}})
		}
	}
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		list, watch http.HandlerFunc
		breakAt     int           // ends the loop after this number of events
		after       time.Duration // ends ctx
		resume      string
	}{
		"break in the list":         {watch: hang, breakAt: 1},
		"break when synced":         {watch: hang, breakAt: 2},
		"break in the watch":        {watch: busy, breakAt: 5},
		"ended in a hanging list":   {list: hang, after: 20 * time.Millisecond},
		"ended in a hanging resume": {list: hang, after: 20 * time.Millisecond, resume: "10"},
		"ended in a silent watch":   {watch: hang, after: 20 * time.Millisecond},
		"ended in a busy watch":     {watch: busy, after: 20 * time.Millisecond},
		"ended by garbage":          {watch: answerText(200, "application/json", "{}"), after: time.Hour},
		"ended by the server":       {watch: func(http.ResponseWriter, *http.Request) {}, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			n := onTheWire(t, c.list, c.watch)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.after > 0 {
				defer time.AfterFunc(c.after, func() { cancel(stop) }).Stop()
			}
			seen := 0
			for _, err := range n.Terminating(ctx, c.resume) {
				if seen++; err != nil || seen == c.breakAt {
					break
				}
			}
			// The reader of the watch has delivered its last event and is about to return.
			require.Eventually(t, func() bool { return len(running("StreamWatcher", "kubernetes.(*follower)")) == 0 },
				10*time.Second, time.Millisecond, "%s", running("StreamWatcher", "kubernetes.(*follower)"))
		})
	}
}

// running returns the stacks of goroutines that contain one of names.
func running(names ...string) (stacks []string) {
	buffer := make([]byte, 1<<20)
	for len(buffer) == runtime.Stack(buffer, true) {
		buffer = make([]byte, 2*len(buffer))
	}
	buffer = buffer[:runtime.Stack(buffer, true)]
	for _, stack := range strings.Split(string(buffer), "\n\n") {
		for _, name := range names {
			if strings.Contains(stack, name) {
				stacks = append(stacks, stack)
			}
		}
	}
	return stacks
}
