package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// log collects the events of a watch.
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
		require.Len(t, all.bookmarks, 1, "a watch from now begins with a bookmark")

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
		}, active.take(), "an object that no longer matches is an event Deleted with its last state")
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

// A change that one watcher makes to an object does not affect others.
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

// terminations runs Terminating and logs its events.
func terminations(ctx context.Context, e *env, after string, l *log) {
	kinds := map[namespace.EventType]string{
		namespace.EventPresent: "terminating", namespace.EventAbsent: "removed", namespace.EventSynced: "synced",
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
		require.Empty(t, l.take(), "a removed finalizer is no event")
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

// until reads a watch to its first bookmark, or n events, and returns the events and the
// versions of their objects.
func until(e *env, n int, o registry.WatchOptions) (seen, versions []string, err error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	for event, err := range e.content(widgets).Watch(ctx, "x", o) {
		if err != nil || event.Type == registry.Bookmark {
			return seen, versions, err
		}
		seen = append(seen, fmt.Sprint(event.Type, " ", event.Object.Name, " ", !event.Object.DeletionTimestamp.IsZero()))
		versions = append(versions, event.Object.ResourceVersion)
		if len(seen) == n {
			break
		}
	}
	return seen, versions, nil
}

// A client that resumes from the versions of objects loses nothing, however often it is
// interrupted. It sees only commits of several objects twice.
func TestRepeatLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		w := e.content(widgets)
		start := fmt.Sprint(e.revision())
		for i := range 40 {
			if i%10 == 9 {
				_, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
				require.NoError(t, err)
				continue
			}
			o := object(fmt.Sprint("o", i))
			if i < 2 || random.IntN(2) == 0 {
				o.Finalizers = finalizer.NewSet("example.com/hold")
			}
			e.put(widgets, "x", o)
		}
		history, _, err := until(e, 0, registry.WatchOptions{ResourceVersion: start})
		require.NoError(t, err)
		for range 20 {
			var seen []string
			for at, whole := start, false; !whole; {
				n := 1 + random.IntN(20) // more than the events of any one commit, at times
				part, versions, err := until(e, n, registry.WatchOptions{ResourceVersion: at, Repeat: true})
				require.NoError(t, err)
				seen = append(seen, part...)
				if whole = len(part) < n; !whole {
					at = versions[n-1]
				}
			}
			slices.Sort(seen)
			require.Empty(t, cmp.Diff(slices.Sorted(slices.Values(history)), slices.Compact(seen)))
		}
	})
}

// A client that saw a part of a commit and resumes when the commit is no longer kept gets
// the rest of it or an error, never nothing.
func TestRepeatOfACompactedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		start := fmt.Sprint(e.revision())
		for i := range 20 {
			o := object(fmt.Sprintf("o%02d", i))
			if i%2 == 0 {
				o.Finalizers = finalizer.NewSet("example.com/hold")
			}
			e.put(widgets, "x", o)
		}
		_, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		last := e.revision()
		history, versions, err := until(e, 0, registry.WatchOptions{ResourceVersion: start})
		require.NoError(t, err)
		require.Len(t, history, 40)
		for compacted := last - 1; compacted <= last; compacted++ {
			require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, compacted))
			for n := 20; n < len(history); n++ {
				rest, _, err := until(e, 0, registry.WatchOptions{ResourceVersion: versions[n-1], Repeat: true})
				if err != nil {
					require.ErrorIs(t, err, namespace.ErrGone)
					continue
				}
				require.Subset(t, rest, history[n:], "after %d events, compacted to %d of %d", n, compacted, last)
			}
		}
	})
}

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		held := finalizer.Name("example.com/hold")
		e.put(widgets, "x", object("a", held))
		single := e.put(widgets, "x", object("b", held)).ResourceVersion
		_, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		marked := fmt.Sprint(e.revision())
		both := []string{"MODIFIED a true", "MODIFIED b true"}

		for _, c := range []struct {
			at   string
			want []string
		}{{single, both}, {marked, both}} {
			seen, versions, err := until(e, 0, registry.WatchOptions{ResourceVersion: c.at, Repeat: true})
			require.NoError(t, err)
			require.Equal(t, c.want, seen)
			require.Equal(t, []string{marked, marked}, versions)
		}
		seen, _, err := until(e, 0, registry.WatchOptions{ResourceVersion: marked})
		require.NoError(t, err)
		require.Empty(t, seen, "who goes by the versions of events knows better")

		e.put(widgets, "x", object("c"))
		after := fmt.Sprint(e.revision())
		seen, _, err = until(e, 0, registry.WatchOptions{ResourceVersion: after, Repeat: true})
		require.NoError(t, err)
		require.Empty(t, seen, "a commit on one object does not come again")

		ahead := strconv.Itoa(int(e.revision()) + 1)
		_, _, err = until(e, 0, registry.WatchOptions{ResourceVersion: ahead, Repeat: true})
		require.ErrorIs(t, err, store.ErrFuture)

		require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
		_, _, err = until(e, 0, registry.WatchOptions{ResourceVersion: after, Repeat: true})
		require.ErrorIs(t, err, namespace.ErrGone, "there may have been more in that commit")
		e.create("y")
		elsewhere := fmt.Sprint(e.revision())
		require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
		seen, _, err = until(e, 0, registry.WatchOptions{ResourceVersion: elsewhere, Repeat: true})
		require.NoError(t, err, "that commit wrote none of the objects that are followed")
		require.Empty(t, seen)
		_, _, err = until(e, 0, registry.WatchOptions{ResourceVersion: marked, Repeat: true})
		require.ErrorIs(t, err, namespace.ErrGone)
		for _, o := range []string{"a", "b"} {
			_, err := e.content(widgets).Update(e.ctx, "x", object(o))
			require.NoError(t, err)
		}
	})
}

// A watch from the version of a listing of an empty store misses no commit.
func TestWatchFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		w := e.content(widgets)
		spaces, err := e.List(e.ctx, registry.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, "0", spaces.ResourceVersion, "the beginning of history")
		objects, err := w.List(e.ctx, "", registry.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, "0", objects.ResourceVersion)

		e.create("x")
		e.put(widgets, "x", object("a"))
		ctx, cancel := context.WithCancel(e.ctx)
		var all, content, inOne, now log
		go follow(&all, e.Watch(ctx, registry.WatchOptions{ResourceVersion: spaces.ResourceVersion}), describeNamespace)
		go follow(&content, w.Watch(ctx, "", registry.WatchOptions{ResourceVersion: objects.ResourceVersion}), describeObject)
		go follow(&inOne, w.Watch(ctx, "x", registry.WatchOptions{ResourceVersion: objects.ResourceVersion}), describeObject)
		go follow(&now, e.Watch(ctx, registry.WatchOptions{}), describeNamespace)
		synctest.Wait()
		require.Empty(t, now.take(), "only the empty version means now")
		e.create("y")
		e.put(widgets, "y", object("b"))
		synctest.Wait()
		require.Equal(t, []string{"ADDED x Active ", "ADDED y Active "}, all.take())
		require.Equal(t, []string{"ADDED x/a ", "ADDED y/b "}, content.take())
		require.Equal(t, []string{"ADDED x/a "}, inOne.take())
		require.Equal(t, []string{"ADDED y Active "}, now.take())
		cancel()
		synctest.Wait()
	})
}

// Where the beginning is no longer known, a watch from there says so.
func TestWatchFromALostBeginning(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, s)
	e.create("x")
	e.put(widgets, "x", object("a"))
	require.NoError(t, s.Compact(e.ctx, e.revision()))
	for _, version := range []string{"0", "00", fmt.Sprint(e.revision() - 1)} {
		o := registry.WatchOptions{ResourceVersion: version}
		requireRefused(t, last(e.Watch(e.ctx, o)), version, namespace.ErrGone)
		requireRefused(t, last(e.content(widgets).Watch(e.ctx, "x", o)), version, namespace.ErrGone)
	}

	require.ErrorIs(t, last(newEnvOver(t, noEpoch{s}).Watch(e.ctx, registry.WatchOptions{ResourceVersion: "0"})), namespace.ErrGone,
		"a store that cannot name its beginning")
}

// noEpoch is a store whose positions have no epoch, against the contract.
type noEpoch struct{ store.Store }

func (s noEpoch) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.List(ctx, q)
	page.Position.Epoch = ""
	return page, err
}

// encoder encodes events as "form TYPE namespace/name version labels", and counts.
type encoder struct {
	mu    sync.Mutex
	calls map[string]int
}

func (e *encoder) encode(form string) func(registry.Event[registry.Object]) ([]byte, error) {
	return func(event registry.Event[registry.Object]) ([]byte, error) {
		text := fmt.Sprintf("%s %v %s %s", form, event.Type, describeObject(event.Object), event.Object.ResourceVersion)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.calls == nil {
			e.calls = map[string]int{}
		}
		e.calls[text]++
		return []byte(text), nil
	}
}

// encoded follows a watch and logs the results of Encoded.
func encoded(t testing.TB, l *log, watch func(yield func(registry.Event[registry.Object], error) bool), e *encoder, form string) {
	for event, err := range watch {
		l.mu.Lock()
		if err != nil {
			l.err = err
			l.mu.Unlock()
			continue
		}
		data, err := event.Encoded(form, e.encode(form))
		if err != nil {
			t.Error(err)
		}
		if event.Type == registry.Bookmark {
			l.bookmarks = append(l.bookmarks, event.ResourceVersion)
		} else {
			l.lines = append(l.lines, string(data))
		}
		l.mu.Unlock()
	}
}

// Watchers that see a change as the same type of event, in the same form, share one
// encoding.
func TestEncodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		w := e.content(widgets)
		var enc encoder
		const watchers = 10
		var all, tables, selected [watchers]log
		for i := range watchers {
			o := registry.WatchOptions{Shared: i%2 == 0}
			go encoded(t, &all[i], w.Watch(e.ctx, "x", o), &enc, "json")
			go encoded(t, &tables[i], w.Watch(e.ctx, "x", o), &enc, "table")
			o.Labels = labels(t, "a=1")
			go encoded(t, &selected[i], w.Watch(e.ctx, "x", o), &enc, "json")
		}
		synctest.Wait()
		enc.calls = nil // of the first bookmarks, which are each watcher's own
		o := e.put(widgets, "x", object("o"))
		for _, value := range []string{"1", "1", "2"} {
			o.Labels = map[string]string{"a": value}
			o.Annotations = map[string]string{"v": o.ResourceVersion}
			var err error
			o, err = w.Update(e.ctx, "x", o)
			require.NoError(t, err)
		}
		_, err := w.Delete(e.ctx, "x", "o", anyVersion)
		require.NoError(t, err)
		synctest.Wait()

		v := func(back int) string { return fmt.Sprint(int(e.revision()) - back) }
		lines := func(form string) []string {
			return []string{
				form + " ADDED x/o  " + v(4), form + " MODIFIED x/o 1 " + v(3), form + " MODIFIED x/o 1 " + v(2), form + " MODIFIED x/o 2 " + v(1), form + " DELETED x/o 2 " + v(0),
			}
		}
		some := []string{"json ADDED x/o 1 " + v(3), "json MODIFIED x/o 1 " + v(2), "json DELETED x/o 1 " + v(1)}
		want := map[string]int{}
		for _, line := range append(append(lines("json"), lines("table")...), some...) {
			want[line] = 1
		}
		for i := range watchers {
			require.Empty(t, cmp.Diff(lines("json"), all[i].take()))
			require.Empty(t, cmp.Diff(lines("table"), tables[i].take()))
			require.Empty(t, cmp.Diff(some, selected[i].take()))
		}
		enc.mu.Lock()
		require.Empty(t, cmp.Diff(want, enc.calls), "each encoding is made once")
		enc.mu.Unlock()
		require.NoError(t, e.Close())
	})
}

// A change that one watcher makes to its copy of an object does not affect the shared
// encoding.
func TestEncodedIgnoresChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		w := e.content(widgets)
		var got [5]string
		for i := range got {
			go func() {
				for event, err := range w.Watch(e.ctx, "x", registry.WatchOptions{}) {
					if err != nil || event.Type == registry.Bookmark {
						continue
					}
					event.Object.Name, event.Object.Labels["a"], event.Object.Fields["spec"][0] = "mine", "mine", 'x'
					data, err := event.Encoded("", func(event registry.Event[registry.Object]) ([]byte, error) { return json.Marshal(event.Object) })
					if err != nil {
						t.Error(err)
					}
					got[i] += string(data)
				}
			}()
		}
		synctest.Wait()
		o := object("o")
		o.Labels = map[string]string{"a": "1"}
		o = e.put(widgets, "x", o)
		added, err := json.Marshal(o)
		require.NoError(t, err)
		_, err = w.Delete(e.ctx, "x", "o", anyVersion)
		require.NoError(t, err)
		o.ResourceVersion = fmt.Sprint(e.revision())
		deleted, err := json.Marshal(o)
		require.NoError(t, err)
		synctest.Wait()
		for i := range got {
			require.Equal(t, string(added)+string(deleted), got[i])
		}
		require.NoError(t, e.Close())
	})
}

// The encoding of a deletion in the midst of a commit has the version to resume at.
func TestEncodedWithinACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		for i := range 3 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		w := e.content(widgets)
		var enc encoder
		var one, all log
		go encoded(t, &one, w.Watch(e.ctx, "x", registry.WatchOptions{Shared: true}), &enc, "f")
		go encoded(t, &all, w.Watch(e.ctx, "", registry.WatchOptions{Shared: true}), &enc, "f")
		synctest.Wait()
		_, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		synctest.Wait()
		at := int(e.revision())
		want := []string{fmt.Sprint("f DELETED x/o0  ", at-1), fmt.Sprint("f DELETED x/o1  ", at-1), fmt.Sprint("f DELETED x/o2  ", at)}
		require.Equal(t, want, one.take())
		require.Equal(t, want, all.take())
		require.NoError(t, e.Close())
	})
}

// Bookmarks of a quiet watch are shared as well, and an event that no watch made is
// just encoded.
func TestEncodedBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		var calls atomic.Int64
		var seen [10]string
		for i := range seen {
			go func() {
				for event, err := range e.content(widgets).Watch(e.ctx, "x", registry.WatchOptions{}) {
					if err != nil {
						return
					}
					data, err := event.Encoded("", func(event registry.Event[registry.Object]) ([]byte, error) {
						calls.Add(1)
						return []byte(event.Type.String() + event.ResourceVersion), nil
					})
					if err != nil {
						t.Error(err)
					}
					seen[i] = string(data)
				}
			}()
		}
		synctest.Wait()
		e.put(widgets, "x", object("o"))
		synctest.Wait()
		calls.Store(0)
		e.create("y")
		synctest.Wait()
		for range seen { // until the next bookmark
			e.put(configmaps, "y", object(fmt.Sprint("o", e.revision())))
		}
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		for i := range seen {
			require.Equal(t, fmt.Sprint("BOOKMARK", e.revision()), seen[i])
		}
		require.Less(t, calls.Load(), int64(len(seen)), "bookmarks are shared")
		require.NoError(t, e.Close())
	})
	var own registry.Event[registry.Object]
	for range 2 {
		data, err := own.Encoded("", func(event registry.Event[registry.Object]) ([]byte, error) { return []byte("x"), nil })
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
	}
}

// Errors are shared like encodings, and a panic of an encoder fails the other watchers.
func TestEncodedFailures(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	start := fmt.Sprint(e.revision())
	e.put(widgets, "x", object("o"))
	broken := errors.New("broken")
	for event, err := range e.content(widgets).Watch(ctx, "x", registry.WatchOptions{ResourceVersion: start}) {
		require.NoError(t, err)
		fails := func(err error) func(registry.Event[registry.Object]) ([]byte, error) {
			return func(registry.Event[registry.Object]) ([]byte, error) { return nil, err }
		}
		_, err = event.Encoded("fails", fails(broken))
		require.ErrorIs(t, err, broken)
		_, err = event.Encoded("fails", fails(nil))
		require.ErrorIs(t, err, broken)
		require.PanicsWithValue(t, "oh", func() {
			_, _ = event.Encoded("panics", func(registry.Event[registry.Object]) ([]byte, error) { panic("oh") })
		})
		_, err = event.Encoded("panics", fails(nil))
		require.ErrorContains(t, err, "panicked")
		break
	}
}
