package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// happening is one line of a watch.
type happening struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// at returns an event of a kind about a pod, at a resource version.
func at(version, kind, name string) happening {
	p := pod(name)
	p.ResourceVersion = version
	return happening{kind, partial(p)}
}

// failed returns the event with which a watch fails.
func failed(code int32, reason metav1.StatusReason) happening {
	return happening{"ERROR", metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no",
	}}
}

// watches serves watches: the first with the first list, and so on. A watch with a nil list stays
// open until the client disconnects; others end after their last event.
func (a *api) watches(from *[]string, lists ...[]happening) {
	a.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		require.Equal(a.t, "true", r.URL.Query().Get("allowWatchBookmarks"))
		*from = append(*from, r.URL.Query().Get("resourceVersion"))
		n := len(*from) - 1
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		if n >= len(lists) || lists[n] == nil {
			<-r.Context().Done()
			return true
		}
		for _, h := range lists[n] {
			_ = json.NewEncoder(w).Encode(h)
		}
		return true
	}
}

func TestWait(t *testing.T) {
	gone := at("13", "DELETED", "a")
	changes := []happening{at("11", "ADDED", "b"), at("12", "MODIFIED", "b"), {"BOOKMARK", partial(metav1.ObjectMeta{ResourceVersion: "15"})}}
	for _, c := range []struct {
		what  string
		seen  string
		lists [][]happening
		from  []string // the resource versions at which watches began
		takes time.Duration
	}{
		{"something goes", "10", [][]happening{append(changes, gone)}, []string{"10"}, 0},
		{"something goes after the server ended the watch", "10", [][]happening{changes, {gone}}, []string{"10", "15"}, time.Second},
		{"the server ends each watch at once", "10", [][]happening{{}, {}, {}, {gone}}, []string{"10", "10", "10", "10"}, 3 * time.Second},
		{"the version is too old", "3", [][]happening{{failed(http.StatusGone, metav1.StatusReasonExpired)}}, []string{"3"}, 0},
		{"no version", "", [][]happening{{gone}}, []string{"10"}, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, pod("a"))
				var from []string
				a.watches(&from, c.lists...)
				began := time.Now()
				require.NoError(t, a.of(podsType, time.Hour).Wait(t.Context(), a.target, c.seen))
				require.Equal(t, c.from, from)
				require.Equal(t, c.takes, time.Since(began))
			})
		})
	}
}

// If a wait is impossible, the error says whether that is so everywhere, or here and now.
func TestWaitFails(t *testing.T) {
	for _, c := range []struct {
		what   string
		answer func(http.ResponseWriter)
		here   bool
		reason metav1.StatusReason
	}{
		{"not found", func(w http.ResponseWriter) { refuse(w, 404, metav1.StatusReasonNotFound, "no") }, true, metav1.StatusReasonNotFound},
		{"not allowed", func(w http.ResponseWriter) { refuse(w, 405, metav1.StatusReasonMethodNotAllowed, "no") }, true, metav1.StatusReasonMethodNotAllowed},
		{"forbidden", func(w http.ResponseWriter) { refuse(w, 403, metav1.StatusReasonForbidden, "no") }, false, metav1.StatusReasonForbidden},
		{"fails later", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(failed(http.StatusInternalServerError, metav1.StatusReasonInternalError))
		}, false, metav1.StatusReasonInternalError},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := newAPI(t, pod("a"))
			a.before = onPath("x/pods", c.answer)
			err := a.of(podsType, time.Hour).Wait(t.Context(), a.target, "10")
			require.Equal(t, c.reason, apierrors.ReasonForError(err), "%v", err)
			require.Equal(t, c.here, errors.Is(err, deleter.ErrNotSupportedHere))
			require.NotErrorIs(t, err, deleter.ErrNotSupported)
		})
	}
	t.Run("the version is refused at once", func(t *testing.T) {
		a := newAPI(t, pod("a"))
		a.before = onPath("x/pods", func(w http.ResponseWriter) { refuse(w, 410, metav1.StatusReasonGone, "no") })
		require.NoError(t, a.of(podsType, time.Hour).Wait(t.Context(), a.target, "10"), "a check is due")
	})
	t.Run("listings have no version", func(t *testing.T) {
		a := newAPI(t, pod("a"))
		a.before = onPath("x/pods", func(w http.ResponseWriter) {
			write(w, 200, metav1.PartialObjectMetadataList{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
				Items:    []metav1.PartialObjectMetadata{partial(pod("a"))},
			})
		})
		require.ErrorIs(t, a.of(podsType, time.Hour).Wait(t.Context(), a.target, ""), deleter.ErrNotSupportedHere)
	})
	t.Run("nothing is there", func(t *testing.T) {
		a := newAPI(t)
		require.NoError(t, a.of(podsType, time.Hour).Wait(t.Context(), a.target, ""), "a check is due")
	})
}

// The end of the context ends everything. In virtual time, a remaining goroutine would fail the
// test.
func TestWaitEndsWithItsContext(t *testing.T) {
	for what, list := range map[string][]happening{"while it watches": nil, "between two watches": {}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, pod("a"))
				var from []string
				a.watches(&from, list)
				stopped := errors.New("stopped")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second/2, func() { cancel(stopped) })
				began := time.Now()
				err := a.of(podsType, time.Hour).Wait(ctx, a.target, "10")
				require.ErrorIs(t, err, stopped)
				require.Equal(t, time.Second/2, time.Since(began))
			})
		})
	}
}

// A server that sends events all the time does not delay the end of a wait.
func TestWaitEndsDuringABusyWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, pod("a"))
		a.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			for kind := "DELETED"; r.Context().Err() == nil; kind = "MODIFIED" {
				if json.NewEncoder(w).Encode(at("11", kind, "a")) != nil {
					break
				}
				_ = http.NewResponseController(w).Flush()
			}
			return true
		}
		require.NoError(t, a.of(podsType, time.Hour).Wait(t.Context(), a.target, "10"))
	})
}

// stubborn is a watch that ignores its context and sends one more event after Stop.
type stubborn struct{ events, stopped chan watch.Event }

func (s stubborn) Stop()                          { close(s.stopped) }
func (s stubborn) ResultChan() <-chan watch.Event { return s.events }

func (s stubborn) run(first ...watch.Event) {
	for _, e := range first {
		s.events <- e
	}
	<-s.stopped
	s.events <- watch.Event{Type: watch.Modified, Object: &metav1.PartialObjectMetadata{}}
	close(s.events)
}

// No watch outlives the wait, however it behaves.
func TestWaitStopsItsWatch(t *testing.T) {
	gone := watch.Event{Type: watch.Deleted, Object: &metav1.PartialObjectMetadata{}}
	for what, events := range map[string][]watch.Event{"something goes": {gone}, "the context ends": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
				client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
					w := stubborn{events: make(chan watch.Event), stopped: make(chan watch.Event)}
					go w.run(events...)
					return true, w, nil
				})
				in := newIncarnations(nil, time.Hour)
				in.record(terminating("one"), time.Now())
				target := deleter.Target{Namespace: "x", UID: "one", DeletedAt: time.Now()}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := newContent(podsType, client, in, nil, false).(*content).Wait(ctx, target, "10")
				require.Equal(t, events == nil, errors.Is(err, context.DeadlineExceeded), "%v", err)
			})
		})
	}
}
