package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// lasting is a watch with some events that ends a while after it was opened.
func lasting(d time.Duration, events ...watch.Event) watch.Interface {
	return &lastingWatch{scriptedWatch: scripted(true, events...).(*scriptedWatch), lasts: d}
}

type lastingWatch struct {
	*scriptedWatch
	lasts  time.Duration
	opened sync.Once
}

func (w *lastingWatch) ResultChan() <-chan watch.Event {
	w.opened.Do(func() { time.AfterFunc(w.lasts, w.Stop) })
	return w.events
}

// When the server ends a watch, the next one continues from its position.
func TestWatchIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []any{listed("10", dying("a", "u", "9")), listed("15"), listed("15"), listed("17")},
			watches: []any{
				lasting(shortWatch, event(watch.Modified, dying("a", "u", "11"))),
				lasting(shortWatch, bookmark("15")),
				lasting(shortWatch, event(watch.Modified, dying("a", "u", "16")), event(watch.Deleted, dying("a", "u", "17"))),
			},
		}
		err := s.hears(t, s.namespaces(), "", terminatingEvent("a", "u", ""), syncedEvent("10"), syncedEvent("15"), removedEvent("a", "u", "17"))
		require.ErrorIs(t, err, errEnough)
		var from []string
		for _, o := range s.watched {
			from = append(from, o.ResourceVersion)
		}
		require.Equal(t, []string{"10", "11", "15", "17"}, from)
		require.Len(t, s.listed, 3) // the list, and a read beside each watch after the first
		require.Equal(t, []metav1.ListOptions{{Limit: 1}, {Limit: 1}}, s.listed[1:])
	})
}

// A server that was restored from a backup accepts a watch from the future and stays silent until
// it has reached it. Terminations in between would never be reported.
func TestServerIsRestored(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"", "10"} {
		synctest.Test(t, func(t *testing.T) {
			silent := scripted(true).(*scriptedWatch)
			s := &script{
				lists:   []any{listed("10"), listed("9")},
				watches: []any{lasting(time.Minute, bookmark("20")), silent},
			}
			want := []namespace.Event{syncedEvent("10"), syncedEvent("20")}
			if after != "" {
				s.lists = []any{listed("10"), listed("10"), listed("10"), listed("9")}
			}
			began := time.Now()
			err := s.hears(t, s.namespaces(), after, want...)
			require.ErrorIs(t, err, namespace.ErrGone)
			require.ErrorContains(t, err, "earlier resource version")
			require.Equal(t, time.Minute+shortWatch, time.Since(began))
			require.True(t, silent.over)
		})
	}
}

// A server that ends every watch at once must not cause a hot loop, even if each watch brings an
// event. It may end a quiet watch after a while.
func TestShortWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []any{listed("10")}, watches: []any{scripted(false), scripted(false)}}
		require.ErrorIs(t, s.hears(t, s.namespaces(), "", syncedEvent("10")), errShortWatch)
		require.Len(t, s.watched, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []any{listed("10")}, watches: []any{lasting(shortWatch)}}
		require.ErrorIs(t, s.hears(t, s.namespaces(), "", syncedEvent("10")), errEnough)
		require.Len(t, s.watched, 2)
	})
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []any{listed("10"), listed("11"), listed("12"), listed("13"), listed("14")},
			watches: []any{
				scripted(false, bookmark("11")), lasting(shortWatch, bookmark("12")), // the second makes up for the first
				scripted(false, event(watch.Added, dying("a", "u", "13"))), scripted(false, bookmark("14")), scripted(false, bookmark("15")),
			},
		}
		err := s.hears(t, s.namespaces(), "", syncedEvent("10"), syncedEvent("11"), syncedEvent("12"), terminatingEvent("a", "u", "13"), syncedEvent("14"))
		require.ErrorIs(t, err, errShortWatch)
	})
}

// Whatever a server does to watches, a controller that follows it sends requests at a bearable
// rate, even if each round was synced and made progress.
func TestNoHotLoopOfRounds(t *testing.T) {
	t.Parallel()
	const minute, mostPerRound = 60, 6
	ended := func(events ...watch.Event) func(string) (watch.Interface, error) {
		return func(string) (watch.Interface, error) { return scripted(false, events...), nil }
	}
	failed := func(err error) func(string) (watch.Interface, error) {
		return func(string) (watch.Interface, error) { return nil, err }
	}
	expired := apierrors.NewResourceExpired("too old")
	idle := func(int) string { return "10" }
	busy := func(requests int) string { return strconv.Itoa(10 + requests) }
	for name, c := range map[string]struct {
		version func(requests int) string
		open    func(version string) (watch.Interface, error)
	}{
		"ended":              {idle, ended()},
		"ended, busy server": {busy, ended()},
		"ended, no versions": {func(int) string { return "" }, ended()},
		"ended after an event": {busy, func(version string) (watch.Interface, error) {
			return scripted(false, bookmark(version)), nil
		}},
		"expired":           {idle, ended(statusEvent(expired))},
		"broken":            {idle, ended(statusEvent(apierrors.NewInternalError(errEnough)))},
		"opening expired":   {idle, failed(expired)},
		"opening forbidden": {idle, failed(apierrors.NewForbidden(theNamespaces, "", errEnough))},
		"opening fails":     {idle, failed(errEnough)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				roundTrip := func() { requests++; time.Sleep(5 * time.Millisecond) }
				n := namespacesOver(&fakeClient{
					list: func(context.Context, metav1.ListOptions) (*corev1.NamespaceList, error) {
						roundTrip()
						return listed(c.version(requests)), nil
					},
					open: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						roundTrip()
						return c.open(c.version(requests))
					},
				})
				nothing, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, nil }}.Content()}}, nil)
				require.NoError(t, err)
				follows, err := controller.New(n, nothing, namespace.Party{Finalizer: "kubernetes"}, nil)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), minute*time.Second)
				defer cancel()
				_ = follows.Run(ctx) // ends with ctx
				require.LessOrEqual(t, requests, minute*mostPerRound)
				require.Greater(t, requests, 10, "the controller gave up")
			})
		})
	}
}

// The delay after a watch that ended too soon ends with the context of the caller, and with its
// cause.
func TestDelayAfterAShortWatch(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	for after, want := range map[time.Duration]error{time.Hour: errShortWatch, shortWatch / 4: stopped} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			defer time.AfterFunc(after, func() { cancel(stopped) }).Stop()
			w := lasting(shortWatch / 8)
			s := &script{lists: []any{listed("10")}, watches: []any{w}}
			began := time.Now()
			_, err := hear(ctx, s.namespaces(), "")
			require.Equal(t, want, err)
			require.Equal(t, min(after, shortWatch), time.Since(began))
		})
	}
}

// A watch that the server accepts and never answers is abandoned, over a real client too.
func TestSilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") != "" {
				<-r.Context().Done()
				return true
			}
			l := listed("10")
			l.Kind, l.APIVersion = "NamespaceList", "v1"
			answerJSON(w, http.StatusOK, l)
			return true
		}
		began := time.Now()
		events, err := hear(t.Context(), namespacesOver(a.spaces), "")
		require.ErrorIs(t, err, errTimeout)
		require.Equal(t, requestTimeout, time.Since(began))
		require.Equal(t, []namespace.Event{syncedEvent("10")}, events)
	})
}

// A watch that has been answered may be silent from then on.
func TestAnsweredWatchMayBeSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []any{listed("10")}, watches: []any{lasting(2 * requestTimeout)}}
		began := time.Now()
		require.ErrorIs(t, s.hears(t, s.namespaces(), "", syncedEvent("10")), errEnough)
		require.Equal(t, 2*requestTimeout+shortWatch, time.Since(began)) // the next one fails as it begins
	})
}

// A server may accept a selector in a list and refuse it in a watch. The client then opens the
// watch without the selector, and does so from then on if that succeeds.
func TestSelectorIsRefusedInWatchesOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []any{listed("10", dying("a", "u", "9")), listed("12")},
			watches: []any{refusedSelector, scripted(false,
				event(watch.Modified, named("n", "o", "11")),
				event(watch.Deleted, dying("a", "u", "12")),
			)},
		}
		n := s.namespaces()
		err := s.hears(t, n, "", terminatingEvent("a", "u", ""), syncedEvent("10"), removedEvent("a", "u", "12"))
		require.ErrorIs(t, err, errEnough)
		require.Len(t, s.watched, 3)
		require.Equal(t, []string{terminatingSelector, "", ""},
			[]string{s.watched[0].FieldSelector, s.watched[1].FieldSelector, s.watched[2].FieldSelector})
		require.Equal(t, "10", s.watched[1].ResourceVersion)
		require.ErrorIs(t, s.hears(t, n, "", syncedEvent("12")), errEnough)
		require.Equal(t, "", s.listed[1].FieldSelector)
	})
}

// A 400 for another reason, for example from a proxy, does not change that.
func TestSelectorIsNotTheCauseInWatches(t *testing.T) {
	t.Parallel()
	page := apierrors.NewGenericServerResponse(http.StatusBadRequest, "get", theNamespaces, "", "<html>400 Bad Request</html>", 0, true)
	quiet := scripted(false)
	for _, c := range []struct {
		name    string
		lists   []any
		watches []any
		kind    error
		asked   int // number of watches
	}{
		{"refused without it, too", []any{listed("10")}, []any{refusedSelector, refusedSelector, quiet}, namespace.ErrBadRequest, 2},
		{"failed without it", []any{listed("10")}, []any{refusedSelector, errEnough, quiet}, namespace.ErrBadRequest, 2},
		{"a page", []any{listed("10")}, []any{page, quiet}, nil, 1},
		{"a page instead of a list", []any{page, listed("10")}, nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{lists: c.lists, watches: c.watches}
				n := s.namespaces()
				_, err := hear(t.Context(), n, "")
				require.Equal(t, c.kind, kindOf(t, err), err)
				require.True(t, apierrors.IsBadRequest(err), err)
				require.Len(t, s.watched, c.asked)
				require.False(t, n.all.Load())
			})
		})
	}
}
