package registry_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// log notes what a watch yields.
type log struct {
	mu        sync.Mutex
	lines     []string
	versions  []string // where to resume after each line
	bookmarks []string
	err       error
}

// follow runs a watch until it ends.
func follow[T any](l *log, watch func(yield func(registry.Event[T], error) bool), describe func(T) string) {
	for event, err := range watch {
		l.mu.Lock()
		switch {
		case err != nil:
			l.err = err
		case event.Type == registry.Bookmark:
			l.bookmarks = append(l.bookmarks, event.ResourceVersion)
		default:
			l.lines = append(l.lines, event.Type.String()+" "+describe(event.Object))
			l.versions = append(l.versions, event.ResourceVersion)
		}
		l.mu.Unlock()
	}
}

func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func describeNamespace(n namespace.Namespace) string {
	return fmt.Sprintf("%s %s %s", n.Name, n.Phase(), n.Labels["a"])
}

func describeObject(o registry.Object) string {
	return o.Namespace + "/" + o.Name + " " + o.Labels["a"]
}

func TestWatchNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		ctx, cancel := context.WithCancel(e.ctx)
		var all, active, labelled log
		go follow(&all, e.Watch(ctx, registry.WatchOptions{}), describeNamespace)
		go follow(&active, e.Watch(ctx, registry.WatchOptions{Fields: fields(t, "status.phase=Active")}), describeNamespace)
		go follow(&labelled, e.Watch(ctx, registry.WatchOptions{Labels: labels(t, "a=1")}), describeNamespace)
		synctest.Wait()
		require.Len(t, all.bookmarks, 1, "a watch from now begins with a bookmark that tells where")

		n := e.create("x")
		for _, value := range []string{"1", "1", "2", "1"} {
			n.Labels["a"] = value
			n.Annotations = map[string]string{"v": value + n.ResourceVersion}
			var err error
			n, err = e.Update(e.ctx, n)
			require.NoError(t, err)
		}
		e.terminate("x")
		e.release("x")
		synctest.Wait()
		require.Equal(t, []string{
			"ADDED x Active ", "MODIFIED x Active 1", "MODIFIED x Active 1", "MODIFIED x Active 2", "MODIFIED x Active 1",
			"MODIFIED x Terminating 1", "DELETED x Terminating 1",
		}, all.take())
		require.Equal(t, []string{
			"ADDED x Active ", "MODIFIED x Active 1", "MODIFIED x Active 1", "MODIFIED x Active 2", "MODIFIED x Active 1", "DELETED x Active 1",
		}, active.take(), "what stops matching is sent as deleted, as it was last")
		require.Equal(t, []string{
			"ADDED x Active 1", "MODIFIED x Active 1", "DELETED x Active 1", "ADDED x Active 1", "MODIFIED x Terminating 1", "DELETED x Terminating 1",
		}, labelled.take())
		require.Equal(t, fmt.Sprint(e.revision()), all.versions[len(all.versions)-1])

		var resumed log
		go follow(&resumed, e.Watch(ctx, registry.WatchOptions{ResourceVersion: all.versions[4]}), describeNamespace)
		synctest.Wait()
		require.Equal(t, []string{"MODIFIED x Terminating 1", "DELETED x Terminating 1"}, resumed.take())
		cancel()
		synctest.Wait()
		require.ErrorIs(t, all.err, context.Canceled)
	})
}

func TestWatchContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		e.create("x-1")
		w := e.content(widgets)
		var one, all log
		go follow(&one, w.Watch(e.ctx, "x", registry.WatchOptions{}), describeObject)
		go follow(&all, w.Watch(e.ctx, "", registry.WatchOptions{Labels: labels(t, "a")}), describeObject)
		synctest.Wait()
		labelled := object("b")
		labelled.Labels = map[string]string{"a": "1"}
		e.put(widgets, "x", object("a"))
		e.put(widgets, "x-1", labelled)
		e.put(configmaps, "x", object("c"))
		e.put(widgets, "x", labelled)
		_, err := w.Delete(e.ctx, "x", "b", anyVersion)
		require.NoError(t, err)
		_, err = w.DeleteCollection(e.ctx, "x-1", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"ADDED x/a ", "ADDED x/b 1", "DELETED x/b 1"}, one.take())
		require.Equal(t, []string{"ADDED x-1/b 1", "ADDED x/b 1", "DELETED x/b 1", "DELETED x-1/b 1"}, all.take())
		require.NoError(t, e.Close())
		synctest.Wait()
		require.ErrorIs(t, one.err, registry.ErrClosed)
		require.ErrorIs(t, all.err, registry.ErrClosed)
		for _, err := range w.Watch(e.ctx, "x", registry.WatchOptions{}) {
			require.ErrorIs(t, err, registry.ErrClosed)
		}
		_, err = w.Get(e.ctx, "x", "a")
		require.NoError(t, err, "the store stays open")
	})
}

// In the midst of a commit on several objects the resume version is that before
// it: nothing of it is lost.
func TestWatchResumesWithinACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		for i := range 5 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		before := fmt.Sprint(e.revision())
		w := e.content(widgets)
		_, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		for stop := range 5 {
			seen := map[string]bool{}
			resume := before
			for _, first := range []bool{true, false} {
				n := 0
				ctx, cancel := context.WithCancel(e.ctx)
				for event, err := range w.Watch(ctx, "x", registry.WatchOptions{ResourceVersion: resume}) {
					if err != nil || event.Type == registry.Bookmark {
						break
					}
					require.Equal(t, registry.Deleted, event.Type)
					require.Equal(t, event.ResourceVersion, event.Object.ResourceVersion)
					seen[event.Object.Name] = true
					resume = event.ResourceVersion
					if n++; first && n > stop {
						break
					}
				}
				cancel()
			}
			require.Len(t, seen, 5, "interrupted after %d", stop+1)
		}
	})
}

// What one watcher does to an object is nothing to the others.
func TestWatchersShareNoObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		var seen [10]registry.Object
		for i := range seen {
			go func() {
				for event, err := range e.content(widgets).Watch(e.ctx, "x", registry.WatchOptions{}) {
					if err == nil && event.Type == registry.Added {
						seen[i] = event.Object
						seen[i].Labels["a"] += fmt.Sprint(i)
						seen[i].Fields["spec"][0] = byte('0' + i)
					}
				}
			}()
		}
		synctest.Wait()
		o := object("a")
		o.Labels = map[string]string{"a": "watcher"}
		e.put(widgets, "x", o)
		synctest.Wait()
		for i := range seen {
			require.Equal(t, fmt.Sprint("watcher", i), seen[i].Labels["a"])
			require.Equal(t, byte('0'+i), seen[i].Fields["spec"][0])
		}
		require.NoError(t, e.Close())
	})
}

func TestWatchGone(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	old := fmt.Sprint(e.revision())
	e.create("y")
	e.create("z")
	require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
	for version, kind := range map[string]error{
		old: namespace.ErrGone, fmt.Sprint(e.revision() + 5): store.ErrFuture, "x": namespace.ErrBadRequest, "-1": namespace.ErrBadRequest, "+1": namespace.ErrBadRequest,
	} {
		var last error
		for _, err := range e.Watch(e.ctx, registry.WatchOptions{ResourceVersion: version}) {
			last = err
		}
		require.ErrorIs(t, last, kind, version)
	}
}

// Watchers of one type in one namespace see every object once, whatever they
// resume at, while it is written.
func TestWatchUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		w := e.content(widgets)
		start := fmt.Sprint(e.revision())
		const writers, objects, watchers = 4, 100, 25
		logs := make([]log, watchers)
		var running sync.WaitGroup
		for writer := range writers {
			running.Go(func() {
				for i := range objects {
					o := object(fmt.Sprintf("%d-%d", writer, i))
					_, err := w.Create(e.ctx, "x", o)
					if err == nil && i%2 == 0 {
						_, err = w.Delete(e.ctx, "x", o.Name, anyVersion)
					}
					if err != nil {
						t.Error(err)
					}
					if writer == 0 && i%(objects/watchers) == 0 {
						go follow(&logs[i/(objects/watchers)], w.Watch(e.ctx, "x", registry.WatchOptions{ResourceVersion: start}), describeObject)
					}
				}
			})
		}
		running.Wait()
		synctest.Wait()
		want := logs[0].take()
		require.Equal(t, writers*objects*3/2, len(want))
		for i := range logs[1:] {
			require.Empty(t, cmp.Diff(want, logs[1+i].take()))
			require.NoError(t, logs[1+i].err)
		}
		require.NoError(t, e.Close())
	})
}

// events runs Terminating and notes what it yields.
func terminations(ctx context.Context, e *env, after string, l *log) {
	kinds := map[namespace.TerminationEventType]string{
		namespace.EventTerminating: "terminating", namespace.EventRemoved: "removed", namespace.EventSynced: "synced",
	}
	for event, err := range e.Terminating(ctx, after) {
		l.mu.Lock()
		if err != nil {
			l.err = err
		} else {
			l.lines = append(l.lines, strings.TrimSpace(kinds[event.Type]+" "+event.Name))
			l.versions = append(l.versions, event.Token)
		}
		l.mu.Unlock()
	}
}

func TestTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			e.create(name)
		}
		e.terminate("a")
		e.terminate("b")
		ctx, cancel := context.WithCancel(e.ctx)
		var l log
		go terminations(ctx, e, "", &l)
		synctest.Wait()
		require.Equal(t, []string{"terminating a", "terminating b", "synced"}, l.take())
		require.Equal(t, []string{"", ""}, l.versions[:2], "nowhere to resume yet")
		require.NotEmpty(t, l.versions[2])

		e.terminate("c")
		synctest.Wait()
		require.Equal(t, []string{"terminating c"}, l.take())
		resume := l.versions[len(l.versions)-1]
		e.release("a")
		_, err := e.Finalize(e.ctx, named("c", finalizer.Kubernetes, "example.com/late"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"removed a", "terminating c"}, l.take(), "a finalizer that is added wakes its controller")
		_, err = e.Finalize(e.ctx, named("c", "example.com/late"))
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, l.take(), "one that goes wakes nobody")
		cancel()
		synctest.Wait()
		require.ErrorIs(t, l.err, context.Canceled)

		var again log
		ctx, cancel = context.WithCancel(e.ctx)
		go terminations(ctx, e, resume, &again)
		synctest.Wait()
		require.Equal(t, []string{"removed a", "terminating c", "synced"}, again.take())
		e.release("b")
		synctest.Wait()
		require.Equal(t, []string{"removed b"}, again.take())
		time.Sleep(time.Hour) // virtual; other keys change meanwhile
		e.create("e")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"synced"}, again.take(), "a quiet watch moves its token on")
		cancel()
	})
}

func TestTerminatingTokens(t *testing.T) {
	e := newEnv(t)
	var l log
	synced := func(e *env) string {
		for event, err := range e.Terminating(e.ctx, "") {
			require.NoError(t, err)
			if event.Type == namespace.EventSynced {
				return event.Token
			}
		}
		return ""
	}
	token := synced(e)
	e.create("x")
	e.terminate("x")
	e.create("y")
	require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
	terminations(e.ctx, e, token, &l)
	require.ErrorIs(t, l.err, namespace.ErrGone)
	require.Empty(t, l.take())

	other := newEnv(t)
	other.create("x")
	terminations(e.ctx, other, synced(e), &l)
	require.ErrorIs(t, l.err, namespace.ErrGone, "the token is of another history")
	list, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	for _, bad := range []string{"x", "7", "e30", list.Continue, strings.Repeat("A", 1<<20)} {
		require.NotEmpty(t, bad)
		terminations(e.ctx, e, bad, &l)
		require.ErrorIs(t, l.err, namespace.ErrBadRequest)
	}
}
