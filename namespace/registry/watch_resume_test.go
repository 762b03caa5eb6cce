package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// until reads a watch to its first bookmark, or n events, and returns what it saw
// with the versions of the objects.
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

// However often a client that goes by the versions of objects is interrupted, it
// loses nothing; what comes twice is only of a commit on several objects.
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
