package hold_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
)

// Holds that were set, moved and removed while the watch was lost are known when it works
// again, also if everything has to be listed again.
func TestWatchIsLost(t *testing.T) {
	for _, end := range []error{errors.New("broken"), namespace.ErrGone} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.held("restored", time.Hour)
			w.held("moved", time.Hour)
			w.held("kept", time.Hour)
			var down atomic.Bool
			lost := make(chan struct{})
			var reads, tokens counts
			w.run(&intercepted{Namespaces: w, get: func(_ context.Context, name string) error {
				reads.add(name)
				return nil
			}, holds: func(after string) iter.Seq2[namespace.Event, error] {
				return func(yield func(namespace.Event, error) bool) {
					if tokens.add(after); down.Load() {
						yield(namespace.Event{}, end)
						return
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if after == "" && tokens.of("") == 1 { // this one is lost
						go func() {
							select {
							case <-lost:
								cancel()
							case <-ctx.Done():
							}
						}()
					}
					for event, err := range w.Holds(ctx, after) {
						if err != nil {
							err = end
						}
						if !yield(event, err) {
							return
						}
					}
				}
			}}, hold.Options{})
			synctest.Wait()
			down.Store(true)
			close(lost)
			time.Sleep(10 * time.Minute)
			w.restore("restored")
			w.hold("moved", time.Hour)
			w.held("new", 20*time.Minute)
			time.Sleep(10 * time.Minute)
			require.Len(t, w.diary.take(), 1, "the loss is reported once")
			down.Store(false)
			time.Sleep(10 * time.Minute)
			w.terminating("new")
			time.Sleep(30 * time.Minute)
			w.terminating("kept")
			w.active("restored", "moved")
			time.Sleep(time.Hour)
			w.terminating("moved")
			w.active("restored")
			require.Equal(t, []string{"deleted kept", "deleted moved", "deleted new"}, w.diary.take())
			require.Equal(t, 1, strings.Count(w.log.String(), "watch of the holds of namespaces works again"))
			require.Zero(t, reads.of("restored"))
			if errors.Is(end, namespace.ErrGone) {
				require.Equal(t, []string{""}, tokens.names(), "a token that is gone is not sent again")
			} else {
				require.Len(t, tokens.names(), 2, "it is resumed, then listed again")
			}
		})
	}
}

// A watch that begins, and ends at once, does not start the backoff over.
func TestR10_FailingWatchBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var watches atomic.Int64
		w.run(&intercepted{Namespaces: w, holds: func(string) iter.Seq2[namespace.Event, error] {
			watches.Add(1)
			return func(yield func(namespace.Event, error) bool) {
				_ = yield(namespace.Event{Type: namespace.EventSynced, Token: "1"}, nil) &&
					yield(namespace.Event{Type: namespace.EventSynced, Token: "2"}, nil)
			}
		}}, hold.Options{})
		time.Sleep(time.Hour)
		require.Less(t, watches.Load(), int64(100))
		require.Greater(t, watches.Load(), int64(10))
	})
}

// An index entry that is empty or contradicts the namespace deletes nothing: the annotation
// decides.
func TestAnnotationDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("later", time.Hour)
		_, err := w.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "never"}})
		require.NoError(t, err)
		w.held("due", 0)
		w.run(&intercepted{Namespaces: w, holds: func(string) iter.Seq2[namespace.Event, error] {
			return func(yield func(namespace.Event, error) bool) {
				for _, name := range []string{"later", "never", "due", "missing"} {
					if !yield(namespace.Event{Type: namespace.EventPresent, Name: name}, nil) {
						return
					}
				}
				yield(namespace.Event{Type: namespace.EventSynced}, nil)
			}
		}}, hold.Options{})
		w.terminating("due")
		w.active("later", "never")
		time.Sleep(time.Hour - 1)
		w.active("later", "never")
		time.Sleep(2 * time.Nanosecond)
		w.terminating("later")
		w.active("never")
	})
}

// Where the place's clock is behind, the deletion is asked for until it is due there.
func TestClockOfTheStorageIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", time.Hour)
		behind := time.Now().Add(time.Hour + 10*time.Minute)
		var tries atomic.Int64
		w.run(answering{Namespaces: w, delete: func(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error) {
			if tries.Add(1); time.Now().Before(behind) {
				return w.Get(ctx, name)
			}
			return w.Delete(ctx, name, only)
		}}, hold.Options{})
		time.Sleep(time.Hour + 9*time.Minute)
		w.active("x")
		require.Empty(t, w.diary.take(), "nothing is wrong")
		time.Sleep(2 * time.Minute)
		w.terminating("x")
		require.Less(t, tries.Load(), int64(30))
	})
}

type answering struct {
	hold.Namespaces
	delete func(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error)
}

func (a answering) Delete(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error) {
	return a.delete(ctx, name, only)
}
