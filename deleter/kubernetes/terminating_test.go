package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// script has the answers to lists and watches, and records the requests. After its last watch it
// ends the loop of the caller with errEnough.
type script struct {
	lists   []any // *corev1.NamespaceList or error, in turn
	watches []any // watch.Interface or error, in turn

	listed, watched []metav1.ListOptions
}

func (s *script) namespaces() *Namespaces {
	return namespacesOver(&fakeClient{
		list: func(_ context.Context, o metav1.ListOptions) (*corev1.NamespaceList, error) {
			s.listed = append(s.listed, o)
			return next[*corev1.NamespaceList](&s.lists)
		},
		open: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.watched = append(s.watched, o)
			return next[watch.Interface](&s.watches)
		},
	})
}

func next[T any](answers *[]any) (none T, err error) {
	if len(*answers) == 0 {
		return none, errEnough
	}
	answer := (*answers)[0]
	*answers = (*answers)[1:]
	if err, failed := answer.(error); failed {
		return none, err
	}
	return answer.(T), nil
}

// hears runs a loop to its end, compares its events, and returns its error.
func (s *script) hears(t *testing.T, n *Namespaces, after string, want ...namespace.Event) error {
	t.Helper()
	events, err := hear(t.Context(), n, after)
	require.Empty(t, cmp.Diff(want, events), "%v", err)
	return err
}

// Status writes of any party are not reported, because passes would cause passes in a hot loop
// (kubernetes/kubernetes#38612). An added finalizer is reported; otherwise its party would not
// notice the namespace.
func TestWatchReportsOnlyNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := dying("a", "u", "12", "kubernetes")
		said.Status.Conditions = []corev1.NamespaceCondition{{Type: "NamespaceContentRemaining", Status: "True"}}
		s := &script{
			lists: []any{listed("10", dying("a", "u", "9", "kubernetes"), named("odd", "o", "3"))},
			watches: []any{scripted(false,
				event(watch.Modified, dying("a", "u", "11", "kubernetes")),
				event(watch.Modified, said),
				event(watch.Modified, dying("a", "u", "13", "kubernetes", "example.com/late")),
				event(watch.Modified, dying("a", "u", "14", "example.com/late")),
				event(watch.Modified, dying("a", "u", "15", "example.com/late", "kubernetes")),
				event(watch.Added, dying("b", "v", "16", "kubernetes")),
				event(watch.Added, named("active", "w", "17", "kubernetes")),
				event(watch.Deleted, named("active", "w", "18", "kubernetes")),
				event(watch.Deleted, dying("a", "another", "19")),
				event(watch.Deleted, dying("a", "u", "20")),
				event(watch.Deleted, dying("a", "u", "21")),
			)},
		}
		err := s.hears(t, s.namespaces(), "",
			terminatingEvent("a", "u", ""), syncedEvent("10"),
			terminatingEvent("a", "u", "13"), terminatingEvent("a", "u", "15"), terminatingEvent("b", "v", "16"), removedEvent("a", "u", "20"))
		require.ErrorIs(t, err, errEnough)
		require.Equal(t, []metav1.ListOptions{{FieldSelector: "status.phase=Terminating", Limit: 500}}, s.listed)
		require.Len(t, s.watched, 2)
		for i, version := range []string{"10", "21"} { // unreported changes are behind a token too
			o := s.watched[i]
			require.GreaterOrEqual(t, *o.TimeoutSeconds, int64(300))
			require.LessOrEqual(t, *o.TimeoutSeconds, int64(600))
			o.TimeoutSeconds = nil
			require.Equal(t, metav1.ListOptions{FieldSelector: "status.phase=Terminating", ResourceVersion: version, AllowWatchBookmarks: true}, o)
		}
	})
}

// Another incarnation of a name means that the previous one is gone. The first of the two events
// has no token, because a watch cannot resume between them.
func TestR8_WatchDistinguishesIncarnations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []any{listed("10", dying("a", "u", "9"), dying("b", "v", "9"), dying("c", "w", "9"))},
			watches: []any{scripted(false,
				event(watch.Added, dying("a", "u2", "11")),
				event(watch.Modified, named("b", "v2", "12")),
				event(watch.Modified, dying("b", "v2", "13")),
				event(watch.Modified, named("c", "w", "14")), // for example after a restore from a backup
			)},
		}
		n := s.namespaces()
		n.incarnations.record(dying("c", "w", "9"), time.Now())
		read := incarnationKey{"c", "w"}
		require.NotZero(t, n.incarnations.known[read].terminatingAt)
		err := s.hears(t, n, "",
			terminatingEvent("a", "u", ""), terminatingEvent("b", "v", ""), terminatingEvent("c", "w", ""), syncedEvent("10"),
			removedEvent("a", "u", ""), terminatingEvent("a", "u2", "11"),
			removedEvent("b", "v", "12"), terminatingEvent("b", "v2", "13"),
			removedEvent("c", "w", "14"))
		require.ErrorIs(t, err, errEnough)
		// An event starts the wait for late creates. It describes the past, so no request may rely
		// on it. A removal voids earlier reads.
		listed := n.incarnations.known[incarnationKey{"a", "u2"}]
		require.NotZero(t, listed.first)
		require.Zero(t, listed.terminatingAt)
		require.Zero(t, n.incarnations.known[read].terminatingAt)
	})
}

func TestWatchListsInPages(t *testing.T) {
	t.Parallel()
	first := listed("10", dying("a", "u", "9"))
	first.Continue = "more"
	t.Run("all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{lists: []any{first, listed("10", dying("b", "v", "8"))}}
			err := s.hears(t, s.namespaces(), "", terminatingEvent("a", "u", ""), terminatingEvent("b", "v", ""), syncedEvent("10"))
			require.ErrorIs(t, err, errEnough)
			require.Equal(t, "more", s.listed[1].Continue)
			require.Equal(t, terminatingSelector, s.listed[1].FieldSelector)
		})
	})
	t.Run("expired", func(t *testing.T) {
		s := &script{lists: []any{first, apierrors.NewResourceExpired("continue too old")}}
		require.ErrorIs(t, s.hears(t, s.namespaces(), "", terminatingEvent("a", "u", "")), namespace.ErrGone)
	})
	t.Run("repeated", func(t *testing.T) {
		s := &script{lists: []any{first, first, first}}
		err := s.hears(t, s.namespaces(), "", terminatingEvent("a", "u", ""), terminatingEvent("a", "u", ""))
		require.ErrorContains(t, err, "repeats a page")
	})
	t.Run("resumed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{lists: []any{listed("12"), first, listed("10", dying("b", "v", "8"))}, watches: []any{errEnough}}
			require.ErrorIs(t, s.hears(t, s.namespaces(), "10"), errEnough)
			require.Equal(t, []metav1.ListOptions{
				{Limit: 1},
				{FieldSelector: terminatingSelector, Limit: 500, ResourceVersion: "10", ResourceVersionMatch: "Exact"},
				{FieldSelector: terminatingSelector, Limit: 500, Continue: "more"}, // the server refuses both at once
			}, s.listed)
		})
	})
}

var refusedSelector = apierrors.NewBadRequest(`"status.phase" is not a known field selector`)

// A server that cannot select is asked for everything, without a second attempt.
func TestSelectorIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []any{
				refusedSelector, listed("10", named("n", "o", "1"), dying("a", "u", "9")),
				listed("20", dying("a", "u", "9")),
			},
			watches: []any{scripted(false,
				event(watch.Modified, named("n", "o", "11")),
				event(watch.Modified, dying("n", "o", "12")),
				event(watch.Deleted, dying("n", "o", "13")),
			)},
		}
		n := s.namespaces()
		err := s.hears(t, n, "", terminatingEvent("a", "u", ""), syncedEvent("10"), terminatingEvent("n", "o", "12"), removedEvent("n", "o", "13"))
		require.ErrorIs(t, err, errEnough)
		require.ErrorIs(t, s.hears(t, n, "", terminatingEvent("a", "u", ""), syncedEvent("20")), errEnough)
		var selectors []string
		for _, o := range append(s.listed, s.watched...) {
			selectors = append(selectors, o.FieldSelector)
		}
		require.Equal(t, []string{terminatingSelector, "", "", "", "", ""}, selectors)
	})
}

// A 400 for another reason does not change that.
func TestSelectorIsNotTheCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []any{refusedSelector, errors.New("no connection"), listed("10")}}
		n := s.namespaces()
		require.ErrorIs(t, s.hears(t, n, ""), namespace.ErrBadRequest)
		require.ErrorIs(t, s.hears(t, n, "", syncedEvent("10")), errEnough)
		require.Equal(t, terminatingSelector, s.listed[2].FieldSelector)
	})
}

// The memory has only terminating namespaces, however many other ones exist and change.
func TestMemoryIsForTerminatingNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, w := listed("10"), watch.NewFakeWithChanSize(3000, false)
		for i := range 2000 {
			list.Items = append(list.Items, *named(fmt.Sprint("n", i), fmt.Sprint("u", i), "1"))
		}
		list.Items = append(list.Items, *dying("a", "u", "1"), *dying("b", "v", "1"))
		for i := range 1000 {
			w.Add(named(fmt.Sprint("m", i), fmt.Sprint("v", i), "11"))
			w.Modify(named(fmt.Sprint("n", i), fmt.Sprint("u", i), "12"))
		}
		w.Delete(dying("b", "v", "13"))
		w.Stop()
		s := &script{lists: []any{refusedSelector, list}, watches: []any{w}}
		f := follower{Namespaces: s.namespaces(), known: map[string]knownNamespace{}, yield: func(namespace.Event, error) bool { return true }}
		require.ErrorIs(t, f.follow(t.Context(), ""), errEnough)
		require.Equal(t, map[string]knownNamespace{"a": {uid: "u"}}, f.known)
		require.Equal(t, "13", f.position)
	})
}

// A connection that died silently is replaced.
func TestDeadWatchIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := watch.NewRaceFreeFake()
		s := &script{lists: []any{listed("10")}, watches: []any{dead}}
		began := time.Now()
		require.ErrorIs(t, s.hears(t, s.namespaces(), "", syncedEvent("10")), errEnough)
		require.Equal(t, "10", s.watched[1].ResourceVersion)
		require.True(t, dead.Stopped)
		lasted, asked := time.Since(began), time.Duration(*s.watched[0].TimeoutSeconds)*time.Second
		require.Less(t, asked, lasted)
		require.Less(t, lasted, asked+watchGrace+2*time.Second)
	})
}

func statusEvent(err *apierrors.StatusError) watch.Event {
	return watch.Event{Type: watch.Error, Object: &err.ErrStatus}
}

func TestWatchFails(t *testing.T) {
	t.Parallel()
	ok := []any{listed("10")}
	for _, c := range []struct {
		name    string
		lists   []any
		watches []any
		kind    error
		says    string
	}{
		{name: "410 of the list", lists: []any{apierrors.NewResourceExpired("old")}, kind: namespace.ErrGone, says: "old"},
		{name: "403 of the list", lists: []any{apierrors.NewForbidden(theNamespaces, "", errors.New("no"))}, kind: namespace.ErrForbidden, says: "no"},
		{name: "404 of the list", lists: []any{noPath}, says: opList + ": the server could not find"}, // no namespace is gone
		{name: "500 of the list", lists: []any{apierrors.NewInternalError(errors.New("broken"))}, says: opList + ": Internal error occurred: broken"},
		{name: "410 of the watch", watches: []any{overStatus("old")}, kind: namespace.ErrGone, says: "old"},
		{name: "403 of the watch", watches: []any{apierrors.NewForbidden(theNamespaces, "", errors.New("no"))}, kind: namespace.ErrForbidden, says: "no"},
		{name: "404 of the watch", watches: []any{noPath}, says: opWatch + ": the server could not find"},
		{name: "429 of the watch", watches: []any{apierrors.NewTooManyRequestsError("busy")}, says: opWatch + ": "},
		{name: "410 in the watch", watches: []any{scripted(true, statusEvent(apierrors.NewResourceExpired("old")))}, kind: namespace.ErrGone, says: "old"},
		{name: "500 in the watch", watches: []any{scripted(true, statusEvent(apierrors.NewInternalError(errors.New("broken"))))}, says: "broken"},
		{name: "an error event with a namespace", watches: []any{scripted(true, event(watch.Error, named("a", "u", "11")))}, says: "unexpected object"},
		{name: "an error event without an object", watches: []any{scripted(true, watch.Event{Type: watch.Error})}, says: "unexpected object"},
		{name: "another kind", watches: []any{scripted(true, watch.Event{Type: watch.Added, Object: &corev1.Pod{}})}, says: `event "ADDED" has a *v1.Pod, not a namespace`},
		{name: "no object", watches: []any{scripted(true, watch.Event{Type: watch.Added})}, says: "has a <nil>, not a namespace"},
		{name: "a nil object", watches: []any{scripted(true, watch.Event{Type: watch.Added, Object: (*corev1.Namespace)(nil)})}, says: "not a namespace"},
		{name: "another type of event", watches: []any{scripted(true, event("EXPLODED", named("a", "u", "11")))}, says: `unknown event type "EXPLODED"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{lists: c.lists, watches: c.watches}
				if c.lists == nil {
					s.lists = ok
				}
				_, err := hear(t.Context(), s.namespaces(), "")
				require.Equal(t, c.kind, kindOf(t, err), err)
				require.ErrorContains(t, err, c.says)
				if len(c.watches) == 1 {
					if w, opened := c.watches[0].(*scriptedWatch); opened {
						require.True(t, w.over, "the watch was not stopped")
					}
				}
			})
		})
	}
}

// Without resource versions a watch cannot be resumed.
func TestWatchWithoutVersions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []any{listed("", dying("a", "u", ""))}, watches: []any{scripted(false, event(watch.Deleted, dying("a", "u", "")))}}
		err := s.hears(t, s.namespaces(), "", terminatingEvent("a", "u", ""), syncedEvent(""), removedEvent("a", "u", ""))
		require.ErrorIs(t, err, namespace.ErrGone)
		require.Len(t, s.watched, 1)
	})
}

// A caller may break the loop at any event. That stops the watch.
func TestBreakAnywhere(t *testing.T) {
	t.Parallel()
	const all = 8
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // bounds the loop if the code reports fewer events
	defer cancel()
	for at := 1; at <= all; at++ {
		first := listed("10", dying("a", "u", "9"), dying("b", "v", "9"))
		first.Continue = "more"
		w := scripted(true, event(watch.Added, dying("c", "w", "11")), bookmark("12"), event(watch.Added, dying("c", "w2", "13")),
			event(watch.Deleted, dying("c", "w2", "14"))).(*scriptedWatch)
		s := &script{lists: []any{first, listed("10")}, watches: []any{w}}
		n := 0
		for _, err := range s.namespaces().Terminating(ctx, "") {
			require.NoError(t, err)
			if n++; n == at {
				break
			}
		}
		require.Equal(t, at, n)
		require.Equal(t, len(s.watched) > 0, w.over)
	}
	// A panic of the caller stops the watch too.
	w := scripted(true, bookmark("12")).(*scriptedWatch)
	s := &script{lists: []any{listed("10")}, watches: []any{w}}
	require.PanicsWithValue(t, "left", func() {
		for e := range s.namespaces().Terminating(ctx, "") {
			if e.Token == "12" {
				panic("left")
			}
		}
	})
	require.True(t, w.over)
}

// The end of the context ends the loop at any point, with the cause.
func TestContextEndsAnywhere(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, phase := range []string{"before", "list", "look", "resume", "open", "refer", "watch"} {
		synctest.Test(t, func(t *testing.T) {
			w := scripted(true).(*scriptedWatch)
			opened := false
			n := namespacesOver(&fakeClient{
				list: func(ctx context.Context, o metav1.ListOptions) (*corev1.NamespaceList, error) {
					exact := o.ResourceVersionMatch != ""
					if phase == "list" || phase == "look" || phase == "resume" && exact || phase == "refer" && opened {
						return nil, hang(ctx)
					}
					return listed("10"), nil
				},
				open: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
					if phase == "open" {
						return nil, hang(ctx)
					}
					opened = true
					return w, nil
				},
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			if phase == "before" {
				cancel(stop)
			}
			time.AfterFunc(time.Second, func() { cancel(stop) })
			after := ""
			if phase == "look" || phase == "resume" || phase == "refer" {
				after = "10"
			}
			began := time.Now()
			_, err := hear(ctx, n, after)
			require.Equal(t, stop, err, phase)
			require.Equal(t, opened, w.over, phase)
			require.Equal(t, phase != "before", time.Since(began) == time.Second, phase)
		})
	}
}
