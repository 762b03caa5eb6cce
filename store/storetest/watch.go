package storetest

import (
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func watchCases() []testcase {
	return []testcase{
		{
			name: "watch from now begins with a bookmark",
			want: "a watch from the zero position yields a bookmark first, then exactly the commits after its revision",
			why:  "the bookmark is the position from which the watch sees every change; without it a caller cannot find missed changes",
			run:  watchFromNow,
		}, {
			name: "watch signals when it has caught up",
			want: "a watch from an old position yields a bookmark when it has delivered everything up to the revision at its beginning",
			why:  "a cache is ready when its watch has caught up; without the bookmark it cannot know that",
			run:  watchCatchesUp,
		}, {
			name: "a transaction is one change",
			want: "the events of a transaction arrive in one Change at its revision, in the order of its operations; a watch of a prefix gets its part",
			why:  "a watcher that sees half of a transaction acts on a state that never existed",
			run:  oneChange,
		}, {
			name: "events carry the entry before",
			want: "an update and a deletion carry the previous entry, a creation carries none",
			why:  "selectors need it: for a watcher with a selector, an object that stops matching is deleted",
			run:  previous,
		}, {
			name: "resume at every revision",
			want: "a watch after any retained position yields exactly the commits after it",
			why:  "watches break at any moment; with one commit too many or too few a cache stays wrong",
			run:  resume,
		}, {
			name: "bookmark never ahead",
			want: "positions of changes grow, and nothing arrives at or before the position of a bookmark, which is never ahead of the store",
			why:  "a caller resumes at its latest bookmark and misses undelivered commits before it",
			run:  bookmarkNeverAhead,
		}, {
			name: "quiet prefix advances",
			want: "a watch of keys that do not change gets a bookmark every few seconds while others change",
			why:  "otherwise its position is compacted and the caller must list again without need",
			run:  quietPrefix,
		}, {
			name:  "watch after repeated compaction",
			want:  "after every compaction, watches from the compacted revision yield exactly the later changes, and older positions are gone",
			why:   "a store must report dropped history; yielding old commits again revives deleted objects",
			needs: []capability{needCompacts},
			run:   watchCompaction,
		}, {
			name: "several loops are several watches",
			want: "each loop over one returned watch starts at its position, even after a break or concurrently",
			why:  "state shared between the loops would split the events",
			run:  severalLoops,
		},
	}
}

func watchFromNow(t *trial) {
	for i := range t.kept(8) {
		before := t.put("k", fmt.Sprint(i))
		w := t.watch("", store.Position{})
		first := w.change("the bookmark at the start of the watch")
		require.True(t, first.Bookmark(), "the first change of a watch from now has the events %v; the commit was before the watch", first.Events)
		t.equal(at(t.now(), before), first.Position, "the position of the first bookmark")
		after := t.put("other", "x")
		t.equal(after, w.events("the commit after the bookmark").Position.Revision, "the first change")
		w.stop()
	}
}

func watchCatchesUp(t *trial) {
	start := t.now()
	const commits = 5
	var last store.Revision
	for i := range commits {
		last = t.put(fmt.Sprintf("a/%d", i%2), fmt.Sprint(i))
	}
	caughtUp := func(prefix string, after store.Position, events int) {
		w := t.watch(prefix, after)
		seen := 0
		for {
			c := w.change("the bookmark after catching up")
			if c.Bookmark() && c.Position.Revision >= last {
				break
			}
			seen += len(c.Events)
		}
		t.equal(events, seen, "the events of a watch of %q from %v before it has caught up", prefix, after)
	}
	caughtUp("", start, commits)
	caughtUp("a/1", start, commits/2)
	caughtUp("quiet/", start, 0)
	caughtUp("", t.now(), 0)
}

func oneChange(t *trial) {
	first := t.commit(store.Txn{Do: []store.Operation{store.Put("b/1", []byte("old")), store.Put("a/1", []byte("old"))}})
	start := t.now()
	all, part, none := t.watch("", start), t.watch("a/", start), t.watch("c/", start)
	r := t.commit(store.Txn{Do: []store.Operation{
		store.Put("b/2", []byte("new")),
		store.Put("a/2", []byte("new")),
		store.Delete("b/1"),
		store.Delete("a/1"),
		store.Put("a/0", []byte("new")),
	}})
	events := []store.Event{
		{Key: "b/2", Value: []byte("new")},
		{Key: "a/2", Value: []byte("new")},
		{Key: "b/1", Deleted: true, Prev: ptr(entry("b/1", "old", first))},
		{Key: "a/1", Deleted: true, Prev: ptr(entry("a/1", "old", first))},
		{Key: "a/0", Value: []byte("new")},
	}
	at := store.Position{Epoch: start.Epoch, Revision: r}
	last := t.put("c/1", "x")
	t.equal(store.Change{Position: at, Events: events}, all.events("a transaction of five operations"), "the change on a watch of everything")
	t.equal(store.Change{Position: at, Events: []store.Event{events[1], events[3], events[4]}},
		part.events("its part of a transaction"), "the change on a watch of a/")
	t.equal(last, none.events("the first commit below c/").Position.Revision, "the first change on a watch of c/")
}

func previous(t *trial) {
	start := t.now()
	r1 := t.put("k", "1")
	r2 := t.put("k", "2")
	r3 := t.delete("k")
	r4 := t.put("k", "3")
	want := []store.Change{
		{Position: at(start, r1), Events: []store.Event{{Key: "k", Value: []byte("1")}}},
		{Position: at(start, r2), Events: []store.Event{{Key: "k", Value: []byte("2"), Prev: ptr(entry("k", "1", r1))}}},
		{Position: at(start, r3), Events: []store.Event{{Key: "k", Deleted: true, Prev: ptr(entry("k", "2", r2))}}},
		{Position: at(start, r4), Events: []store.Event{{Key: "k", Value: []byte("3")}}},
	}
	t.equal(want, t.watch("", start).until(r4), "the changes of one key")
}

func at(p store.Position, r store.Revision) store.Position {
	return store.Position{Epoch: p.Epoch, Revision: r}
}

func resume(t *trial) {
	positions := []store.Position{t.now()}
	for i := range t.kept(40) {
		r := t.put(fmt.Sprintf("k%d", i%3), fmt.Sprint(i))
		if i%5 == 4 {
			r = t.delete(fmt.Sprintf("k%d", i%3))
			positions = append(positions, at(positions[0], r-1))
		}
		positions = append(positions, at(positions[0], r))
	}
	last := positions[len(positions)-1].Revision
	whole := t.watch("", positions[0]).until(last)
	for i, p := range positions {
		var want []store.Change
		for _, c := range whole {
			if c.Position.Revision > p.Revision {
				want = append(want, c)
			}
		}
		t.equal(want, t.watch("", p).until(last), "the changes after position %d of %d", i, len(positions))
	}
}

func bookmarkNeverAhead(t *trial) {
	rounds, writers := t.kept(200)/4, 4
	start := t.now()
	w := t.watch("a/", start)
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		for i := range rounds * writers {
			prefix := []string{"a/", "b/", "b/", "a/"}[i%4]
			if _, err = t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(prefix+key(i%9), nil)}}); err != nil {
				return
			}
		}
	}()
	t.doing("watching a/ while a/ and b/ change")
	events, last, reached := 0, start.Revision, false
	for events < rounds*writers/2 || !reached {
		c := w.change("all commits below a/, and a bookmark after them")
		now := t.now().Revision
		if c.Position.Revision > now {
			t.fatalf("a change at revision %d came when the store was at %d", c.Position.Revision, now)
		}
		if c.Position.Revision < last || c.Position.Revision == last && !c.Bookmark() {
			t.fatalf("events %v at revision %d came after a change at %d", c.Events, c.Position.Revision, last)
		}
		last = c.Position.Revision
		events += len(c.Events)
		reached = reached || c.Bookmark()
	}
	t.equal(rounds*writers/2, events, "the number of events below a/")
	require.NoError(t, <-done)
	quiet := t.now()
	if c := t.watch("a/", quiet).change("the bookmark of a watch that has nothing to catch up with"); c.Position.Revision > quiet.Revision {
		t.fatalf("a change at revision %d came when the store was at %d", c.Position.Revision, quiet.Revision)
	}
}

func quietPrefix(t *trial) {
	w := t.watch("quiet/", store.Position{})
	w.change("the first bookmark")
	for range 2 {
		since := t.put("busy", "x")
		stop := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- t.busy(stop) }()
		for {
			c := w.change(fmt.Sprintf("a bookmark at revision %d or later", since))
			require.True(t, c.Bookmark(), "a watch of quiet/ got the events %v", c.Events)
			if c.Position.Revision >= since {
				break
			}
		}
		close(stop)
		require.NoError(t, <-done)
	}
}

// busy commits to another key, twenty times a second, until stop is closed.
func (t *trial) busy(stop <-chan struct{}) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-t.ctx.Done():
			return t.ctx.Err()
		case <-tick.C:
			if _, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put("busy", nil)}}); err != nil {
				return err
			}
		}
	}
}

func watchCompaction(t *trial) {
	start := t.now()
	live := t.watch("", start)
	live.change("the first bookmark")
	var all, seen []store.Revision
	for round := range t.n(8) {
		for i := range 5 {
			all = append(all, t.put(fmt.Sprintf("k%d", i%2), fmt.Sprint(round, i)))
		}
		last := all[len(all)-1]
		seen = append(seen, revisions(live.until(last))...)
		kept := all[len(all)-3]
		t.compact(kept)
		for i, r := range all {
			w := t.watch("", at(start, r))
			if r < kept {
				w.refused(store.ErrGone)
				continue
			}
			t.equal(len(all[i+1:]), len(w.until(last)), "changes of a watch after revision %d, of %v", r, all)
			w.stop()
		}
		t.watch("", start).refused(store.ErrGone)
	}
	t.equal(all, seen, "the changes of a watch that kept up with every compaction")
}

func severalLoops(t *trial) {
	start := t.now()
	a, b := t.put("k", "1"), t.put("k", "2")
	recipe := t.store.Watch(t.ctx, "", start)
	t.doing("looping over one watch several times")
	for range 3 {
		var seen []store.Revision
		for c, err := range recipe {
			require.NoError(t, err)
			if !c.Bookmark() {
				seen = append(seen, c.Position.Revision)
			}
			if c.Position.Revision >= b {
				break
			}
		}
		t.equal([]store.Revision{a, b}, seen, "the changes of one more loop")
	}
	for outer, err := range recipe {
		require.NoError(t, err)
		if outer.Bookmark() {
			continue
		}
		for inner, err := range recipe {
			require.NoError(t, err)
			if !inner.Bookmark() {
				t.equal(a, inner.Position.Revision, "the first change of a loop inside of a loop")
				break
			}
		}
		if outer.Position.Revision == b {
			break
		}
	}
}
