package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

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

// encoded follows a watch and notes what Encoded returns.
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

// Watchers that see a change alike share one encoding of it; those that see it as
// another type of event, or ask for another form, do not.
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

// What a watcher makes of its own copy of an object is not what others get.
func TestEncodedIsOfWhatWasDelivered(t *testing.T) {
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

// An error is shared like an encoding, and a panic of one encoder fails the others.
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
