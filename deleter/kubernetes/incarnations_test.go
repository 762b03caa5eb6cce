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

// space serves reads of one namespace. Each read takes a millisecond.
type space struct {
	mu    sync.Mutex
	ns    *corev1.Namespace
	err   error
	reads int
	read  func() // called in mid-read
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

// A read in progress serves later callers that may rely on it. A caller that needs a later read
// gets one, even if it waits together with callers that do not.
func TestR8_ReadsInProgressAreShared(t *testing.T) {
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
				require.GreaterOrEqual(t, time.Since(began), time.Millisecond, "no read has begun since")
			})
		}
		group.Wait()
		require.Equal(t, 2, s.count())
	})
}

// A read counts from its beginning, because its result may be as old as that.
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
		require.NoError(t, in.confirm(t.Context(), target, time.Time{}), "a read of any age")
		require.Equal(t, 3, s.count())
	})
}

// Reads by other callers count as well. Events do not, because they describe the past.
func TestReadsByOtherCallers(t *testing.T) {
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

// When an incarnation is reported gone, reads that began before do not count any more.
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

		// A read in progress at that moment shows the earlier state, to its own caller too.
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

// That applies to an unknown incarnation too, because a read of it may be in progress.
func TestR8_GoneVoidsReadsOfUnknownIncarnations(t *testing.T) {
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
		wrong bool // the answer names another incarnation; otherwise it is unknown
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
				for n := range 2 { // if it is not, it must not be remembered
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

// unstructured returns the error that client-go makes of an answer without a Status.
func unstructured(code int, body string) error {
	return apierrors.NewGenericServerResponse(code, http.MethodGet, corev1.Resource("namespaces"), "x", body, 0, true)
}

// A target with the name of one namespace and the uid of another matches neither.
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
		require.ErrorIs(t, in.confirmRecent(ctx, target), stopped, "without a read too")
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

func TestMarksBelongToOneIncarnation(t *testing.T) {
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

// Of an incarnation that is gone, only that fact is kept.
func TestGoneIncarnationsAreSmall(t *testing.T) {
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

// An older read that ends later does not replace the latest one.
func TestR8_OlderReadsAddNothing(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		old := time.Now()
		time.Sleep(2 * time.Second)
		in.record(terminating("one"), time.Now())
		in.record(terminating("one"), old)
		require.NoError(t, in.confirmRecent(t.Context(), target))
		require.Zero(t, s.count(), "the later read was forgotten")
	})
}

// The capacity for incarnations doubles with the number in use, so that not every new one causes a
// search of all.
func TestIncarnationsAreSearchedRarely(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		limits := map[int]bool{}
		for i := range 1000 {
			in.record(terminating(types.UID(fmt.Sprint("now-", i))), time.Now())
			limits[in.limit] = true
		}
		require.Equal(t, map[int]bool{64: true, 128: true, 256: true, 512: true, 1024: true}, limits)
	})
}

// Memory is bounded by the recently used incarnations, however many come and go.
func TestIncarnationsAreForgotten(t *testing.T) {
	inSpace(t, time.Second, func(t *testing.T, s *space, in *incarnations, target deleter.Target) {
		began := time.Now()
		in.record(terminating("one"), began)
		for i := range 5000 {
			time.Sleep(time.Second)
			in.record(terminating(types.UID(fmt.Sprint("other-", i))), time.Now())
			in.firstSeen(target) // marks it as used
		}
		require.Equal(t, began, in.firstSeen(target))
		// Those of the last ten minutes, and as many again until the next cleanup.
		require.LessOrEqual(t, len(in.known), 2*602)
		// Incarnations in use are never forgotten, however many there are.
		for i := range 3000 {
			in.record(terminating(types.UID(fmt.Sprint("now-", i))), time.Now())
		}
		for i := range 3000 {
			_, known := in.known[incarnationKey{"x", types.UID(fmt.Sprint("now-", i))}]
			require.True(t, known)
		}
	})
}
