package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// space is where namespaces are read from; each read takes a millisecond.
type space struct {
	mu    sync.Mutex
	ns    *corev1.Namespace
	err   error
	reads int
	read  func() // is called in mid-read
}

func terminating(uid types.UID) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: uid, DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
}

func (s *space) get(ctx context.Context, name string) (*corev1.Namespace, error) {
	s.mu.Lock()
	s.reads++
	ns, err, read := s.ns, s.err, s.read
	s.mu.Unlock()
	if name != "x" {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	if read != nil {
		read()
	}
	if err := backoff.Sleep(ctx, time.Millisecond); err != nil {
		return nil, err
	}
	return ns, err
}

func (s *space) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// inSpace runs f in virtual time with the terminating namespace "x", uid "one".
func inSpace(t *testing.T, recheck time.Duration, f func(t *testing.T, s *space, in *incarnations, target deleter.Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &space{ns: terminating("one")}
		f(t, s, newIncarnations(s.get, recheck), deleter.Target{Namespace: "x", UID: "one", DeletedAt: time.Now()})
	})
}

func TestRecentReadsAreShared(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { require.NoError(t, in.confirmRecent(t.Context(), target)) })
		}
		group.Wait()
		require.Equal(t, 1, s.count())

		before := s.count()
		time.Sleep(900 * time.Millisecond)
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Equal(t, before, s.count())
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Equal(t, before+1, s.count())
	})
}

// A read that is under way serves those that came meanwhile and may rely on it; who needs a
// later one gets that, although another with whom they waited needed none.
func TestR8_ReadsUnderWayServeWhomTheyMay(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		var group sync.WaitGroup
		group.Go(func() { require.NoError(t, in.confirmRecent(t.Context(), target)) })
		time.Sleep(time.Millisecond / 2)
		for range 10 {
			group.Go(func() { require.NoError(t, in.confirmRecent(t.Context(), target)) })
		}
		synctest.Wait()
		for range 10 {
			group.Go(func() {
				began := time.Now()
				require.NoError(t, in.confirm(t.Context(), target, began))
				require.GreaterOrEqual(t, time.Since(began), time.Millisecond, "no read began since")
			})
		}
		group.Wait()
		require.Equal(t, 2, s.count())
	})
}

// A read counts from its beginning: what it showed may have been so at that time only.
func TestR8_ReadsCountFromTheirBeginning(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		s.read = func() { time.Sleep(800 * time.Millisecond) }
		require.NoError(t, in.confirmRecent(t.Context(), target))
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Equal(t, 2, s.count())
	})
}

func TestNegativeRecheckReadsEachTime(t *testing.T) {
	inSpace(t, -1, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		for n := range 3 {
			require.NoError(t, in.confirmRecent(t.Context(), target))
			require.Equal(t, n+1, s.count())
		}
		require.NoError(t, in.confirm(t.Context(), target, time.Time{}), "seen at any time")
		require.Equal(t, 3, s.count())
	})
}

// Reads by others serve as well; events do not, as they tell of the past.
func TestWhatOthersSaw(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		in.record(terminating("one"), time.Now())
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Zero(t, s.count())
		in.record(nil, time.Now())

		other := target
		other.UID = "two"
		in.record(terminating("two"), time.Time{})
		require.ErrorIs(t, in.confirmRecent(t.Context(), other), deleter.ErrIncarnation)
		require.Equal(t, 1, s.count())

		active := terminating("three")
		active.DeletionTimestamp = nil
		in.record(active, time.Now())
		other.UID = "three"
		require.ErrorIs(t, in.confirmRecent(t.Context(), other), deleter.ErrIncarnation)
	})
}

// That an incarnation is gone voids every read that began before.
func TestR8_GoneVoidsReads(t *testing.T) {
	inSpace(t, time.Hour, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		require.NoError(t, in.confirmRecent(t.Context(), target))
		in.void("x", "another")
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Equal(t, 1, s.count())

		in.void("x", "one")
		s.ns = terminating("two")
		require.ErrorIs(t, in.confirmRecent(t.Context(), target), deleter.ErrIncarnation)
		require.ErrorIs(t, in.confirm(t.Context(), target, time.Time{}), deleter.ErrIncarnation)

		// One that is under way as the news comes shows what was before, also to the one
		// who makes it.
		s.ns = terminating("one")
		s.read = func() { time.Sleep(time.Millisecond); in.void("x", "one") }
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				err := in.confirmRecent(t.Context(), target)
				require.ErrorIs(t, err, deleter.ErrIncarnation)
				require.ErrorContains(t, err, `namespace "x" (uid one)`)
			})
		}
		group.Wait()
		s.ns, s.read = terminating("two"), nil
		require.ErrorIs(t, in.confirmRecent(t.Context(), target), deleter.ErrIncarnation)
	})
}

// That holds also for one of which nothing was known: a read of it may be under way.
func TestR8_GoneVoidsReadsOfTheUnknown(t *testing.T) {
	inSpace(t, time.Hour, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		began := time.Now()
		time.Sleep(time.Millisecond)
		in.void("x", "one")
		in.record(terminating("one"), began)
		s.ns = terminating("two")
		require.ErrorIs(t, in.confirmRecent(t.Context(), target), deleter.ErrIncarnation)
		require.Equal(t, 1, s.count())
	})
}

func TestR8_OnlyTheIncarnationIsConfirmed(t *testing.T) {
	down := errors.New("connection refused")
	active := terminating("one")
	active.DeletionTimestamp = nil
	misnamed := terminating("one")
	misnamed.Name = "y"
	for _, c := range []struct {
		what  string
		ns    *corev1.Namespace
		err   error
		wrong bool // it is not the incarnation; else nobody can tell
		says  string
	}{
		{"it is gone", nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "x"), true, "no longer exists"},
		{"another took the name", terminating("two"), nil, true, "has uid two, not one"},
		{"another namespace is answered", misnamed, nil, true, `namespace "y"`},
		{"it is active", active, nil, true, "is not being deleted"},
		{"the server is down", nil, down, false, "connection refused"},
		{"a path that the server does not have", nil, unstructured(http.StatusNotFound, "404 page not found"), false, "cannot determine"},
		{"a web page", nil, unstructured(http.StatusNotFound, "<html>"), false, "web page"},
	} {
		t.Run(c.what, func(t *testing.T) {
			inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
				s.ns, s.err = c.ns, c.err
				for n := range 2 { // what is not so is not remembered
					err := in.confirmRecent(t.Context(), target)
					require.ErrorContains(t, err, c.says)
					require.Equal(t, c.wrong, errors.Is(err, deleter.ErrIncarnation), "%v", err)
					if c.err != nil {
						require.ErrorIs(t, err, c.err)
					}
					require.Equal(t, n+1, s.count())
				}
			})
		})
	}
}

// unstructured is what client-go makes of an answer that is no Status.
func unstructured(code int, body string) error {
	return apierrors.NewGenericServerResponse(code, http.MethodGet, corev1.Resource("namespaces"), "x", body, 0, true)
}

// A target that mixes up two namespaces is neither.
func TestR8_MixedUpTarget(t *testing.T) {
	inSpace(t, time.Hour, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		require.NoError(t, in.confirmRecent(t.Context(), target))
		target.Namespace = "y"
		require.ErrorIs(t, in.confirmRecent(t.Context(), target), deleter.ErrIncarnation)
	})
}

func TestConfirmEndsWithItsContext(t *testing.T) {
	inSpace(t, time.Hour, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		s.read = func() { cancel(stopped) }
		require.ErrorIs(t, in.confirmRecent(ctx, target), stopped)
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.ErrorIs(t, in.confirmRecent(ctx, target), stopped, "also when nothing had to be read")
	})
}

func TestFirstSeen(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		began := time.Now()
		in.record(terminating("one"), time.Time{})
		time.Sleep(time.Minute)
		in.record(terminating("one"), time.Now())
		require.Equal(t, began, in.firstSeen(target))
		other := target
		other.UID = "two"
		require.Equal(t, time.Now(), in.firstSeen(other))
		time.Sleep(time.Minute)
		require.Equal(t, time.Now().Add(-time.Minute), in.firstSeen(other))
	})
}

func TestMarksAreOfOneIncarnation(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		other := target
		other.UID = "two"
		require.False(t, in.refusesCollections(target, podsResource))
		in.refuseCollections(target, podsResource)
		require.True(t, in.refusesCollections(target, podsResource))
		require.False(t, in.refusesCollections(target, namespace.ResourceType{Name: "secrets"}))
		require.False(t, in.refusesCollections(other, podsResource))

		require.Nil(t, in.emptyVersions(target))
		versions := map[namespace.ResourceType]string{podsResource: "7"}
		in.setEmptyVersions(target, versions)
		require.Equal(t, versions, in.emptyVersions(target))
		require.Nil(t, in.emptyVersions(other))
		in.setEmptyVersions(target, nil)
		require.Nil(t, in.emptyVersions(target))

		all := []namespace.ResourceType{podsResource, {Name: "secrets"}}
		in.recordMissingType(target, podsResource)
		require.Equal(t, all[1:], in.withoutMissingTypes(target, all))
		require.Equal(t, podsResource, all[0])
		require.Equal(t, all, in.withoutMissingTypes(other, all))
	})
}

// Of one that is gone nothing is kept but that it is.
func TestNothingIsKeptOfTheGone(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		in.refuseCollections(target, podsResource)
		in.recordMissingType(target, podsResource)
		in.setEmptyVersions(target, map[namespace.ResourceType]string{podsResource: "7"})
		in.void("x", "another")
		require.True(t, in.refusesCollections(target, podsResource))
		in.void("x", "one")
		known := in.known[incarnationKey{"x", "one"}]
		require.Nil(t, known.refusedCollections)
		require.Nil(t, known.missingTypes)
		require.Nil(t, known.emptyVersions)
	})
}

// What is counted as the latest look is not undone by an older one that ends later.
func TestR8_OlderReadsAddNothing(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		old := time.Now()
		time.Sleep(2 * time.Second)
		in.record(terminating("one"), time.Now())
		in.record(terminating("one"), old)
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Zero(t, s.count(), "the later look was forgotten")
	})
}

// The room for incarnations doubles with those in use: what is known is not gone
// through for each that comes.
func TestIncarnationsAreLookedThroughRarely(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		limits := map[int]bool{}
		for i := range 1000 {
			in.record(terminating(types.UID(fmt.Sprint("now-", i))), time.Now())
			limits[in.limit] = true
		}
		require.Equal(t, map[int]bool{64: true, 128: true, 256: true, 512: true, 1024: true}, limits)
	})
}

// Memory is bounded by what was in use of late, whatever comes and goes.
func TestIncarnationsAreForgotten(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		began := time.Now()
		in.record(terminating("one"), began)
		for i := range 5000 {
			time.Sleep(time.Second)
			in.record(terminating(types.UID(fmt.Sprint("other-", i))), time.Now())
			in.firstSeen(target) // in use
		}
		require.Equal(t, began, in.firstSeen(target))
		// Those of the last ten minutes, and as many again until the next look.
		require.LessOrEqual(t, len(in.known), 2*602)
		// However many are in use, none of those is forgotten.
		for i := range 3000 {
			in.record(terminating(types.UID(fmt.Sprint("now-", i))), time.Now())
		}
		for i := range 3000 {
			_, known := in.known[incarnationKey{"x", types.UID(fmt.Sprint("now-", i))}]
			require.True(t, known)
		}
	})
}
