package kubernetes

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// The state at the token decides which events after it are new.
func TestResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists: []any{listed("13"), listed("10", dying("a", "u", "9", "kubernetes"), dying("b", "v", "9")), listed("14")},
			watches: []any{scripted(false,
				event(watch.Modified, dying("a", "u", "11", "kubernetes")),
				event(watch.Deleted, dying("b", "v", "12")),
				bookmark("13"),
				event(watch.Modified, dying("a", "u", "14", "kubernetes", "example.com/late")),
				bookmark("15"),
			)},
		}
		err := s.hears(t, s.namespaces(), "10",
			removedEvent("b", "v", "12"), terminatingEvent("a", "u", "14"), syncedEvent("14"), syncedEvent("15"))
		require.ErrorIs(t, err, errEnough)
		require.Equal(t, metav1.ListOptions{Limit: 1}, s.listed[2])
		require.Equal(t, "10", s.watched[0].ResourceVersion)
	})
}

// A resumed watch is synced when it has caught up, and not before.
func TestResumedWatchIsSynced(t *testing.T) {
	t.Parallel()
	late := event(watch.Added, dying("a", "u", "11"))
	for _, c := range []struct {
		name      string
		reference string
		events    []watch.Event
		want      []namespace.Event
		after     time.Duration
	}{
		{"at once where nothing has happened", "10", nil, []namespace.Event{syncedEvent("10")}, 0},
		{"by an event", "11", []watch.Event{late}, []namespace.Event{terminatingEvent("a", "u", "11"), syncedEvent("11")}, 0},
		{"by a bookmark beyond", "100", []watch.Event{late, bookmark("99"), bookmark("101")},
			[]namespace.Event{terminatingEvent("a", "u", "11"), syncedEvent("101")}, 0},
		{"by silence", "12", []watch.Event{late}, []namespace.Event{terminatingEvent("a", "u", "11"), syncedEvent("11")}, quietPeriod},
		{"by silence where versions have no order", "x-y", []watch.Event{late, bookmark("x-z")},
			[]namespace.Event{terminatingEvent("a", "u", "11"), syncedEvent("x-z")}, quietPeriod},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{lists: []any{listed("10"), listed("10"), listed(c.reference)}, watches: []any{scripted(true, c.events...)}}
				began := time.Now()
				var events []namespace.Event
				for e, err := range s.namespaces().Terminating(t.Context(), "10") {
					require.NoError(t, err)
					if events = append(events, e); e.Type == namespace.EventSynced {
						break
					}
				}
				require.Equal(t, c.want, events)
				require.Equal(t, c.after, time.Since(began))
			})
		})
	}
}

func TestResumeFails(t *testing.T) {
	t.Parallel()
	ahead := apierrors.NewTimeoutError("Too large resource version", 1)
	ahead.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for _, c := range []struct {
		name  string
		lists []any
		kind  error
	}{
		{"too old", []any{apierrors.NewResourceExpired("old")}, namespace.ErrGone},
		{"gone", []any{overStatus("old")}, namespace.ErrGone},
		{"no version", []any{refusedSelector, refusedSelector}, namespace.ErrGone},
		{"invalid", []any{apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)}, namespace.ErrGone},
		{"from the future", []any{ahead}, namespace.ErrGone},
		{"broken at first", []any{}, nil},
		{"forbidden", []any{apierrors.NewForbidden(theNamespaces, "", errors.New("no"))}, namespace.ErrForbidden},
		{"busy", []any{apierrors.NewTooManyRequestsError("busy")}, nil},
		{"broken", []any{apierrors.NewInternalError(errors.New("broken"))}, nil},
		{"broken when caught up", []any{listed("10"), apierrors.NewInternalError(errors.New("broken"))}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := scripted(true).(*scriptedWatch)
				s := &script{lists: append([]any{listed("11")}, c.lists...), watches: []any{w}}
				if c.name == "broken at first" {
					s.lists = []any{apierrors.NewInternalError(errors.New("broken"))}
				}
				err := s.hears(t, s.namespaces(), "10")
				require.Equal(t, c.kind, kindOf(t, err), err)
				var status *apierrors.StatusError
				require.ErrorAs(t, err, &status)
				require.Equal(t, len(s.watched) > 0, w.over)
			})
		})
	}
}

// A server that was restored from a backup has not reached the token. The first request finds out,
// without a list that would wait for the token.
func TestResumeFromTheFuture(t *testing.T) {
	t.Parallel()
	s := &script{lists: []any{listed("9")}}
	require.ErrorIs(t, s.hears(t, s.namespaces(), "10"), namespace.ErrGone)
	require.Len(t, s.listed, 1)
}
