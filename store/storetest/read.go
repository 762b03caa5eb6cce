package storetest

import (
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func readCases() []testcase {
	return []testcase{
		{
			name: "reads reflect acknowledged commits",
			want: "Get and List see every commit that was acknowledged before the call",
			why:  "the registry answers clients from its reads; a stale read hides the own write of a client",
			run:  readYourWrites,
		}, {
			name:  "two handles are one store",
			want:  "reads, conditions and watches of a handle see each commit as soon as it was acknowledged through another handle",
			why:   "replicas of a service share the store; R6 holds only if all of them see the same gate",
			needs: []capability{needSecond},
			run:   twoHandles,
		}, {
			name:  "a waiting watch sees commits of another handle",
			want:  "a watch on a handle that makes no calls yields the commits of another handle",
			why:   "most replicas only watch: a watch that wakes only for writes of its own handle never sees a deletion",
			needs: []capability{needSecond},
			run:   waitingWatch,
		}, {
			name: "prefixes and After cut exactly",
			want: "a listing has exactly the keys with the prefix (a/ is neither a nor a0), greater than After",
			why:  "a listing with other keys deletes the content of a neighbouring namespace",
			run:  prefixes,
		}, {
			name: "pages end by their bytes",
			want: "a page ends before the value that would exceed Bytes, has at least one entry, and More leads to the rest",
			why:  "the API serves lists page by page; without the bound a few large objects take all memory",
			run:  pagesByBytes,
		}, {
			name: "a watch follows exactly its prefix",
			want: "a watch yields the events of the keys with its prefix and no others",
			why:  "a cache of one namespace must not show another",
			run:  watchedPrefixes,
		},
	}
}

func readYourWrites(t *trial) {
	const writers = 8
	rounds := t.n(100)
	t.doing("waiting for %d writers that read their own writes", writers)
	t.all(writers, func(i int) error {
		mine := fmt.Sprintf("w%d/", i)
		for n := range rounds {
			value := fmt.Sprint(n)
			r, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(mine+"a", []byte(value))}})
			if err != nil {
				return err
			}
			e, err := t.store.Get(t.ctx, mine+"a")
			if err != nil || string(e.Value) != value || e.Revision != r {
				return fmt.Errorf("wrote %q at revision %d, then Get answered %q at %d: %w", value, r, e.Value, e.Revision, err)
			}
			p, err := t.store.List(t.ctx, store.Query{Prefix: mine})
			if err != nil || p.Position.Revision < r || values(p)[mine+"a"] != value {
				return fmt.Errorf("wrote %q at revision %d, then List answered %v at %d: %w", value, r, values(p), p.Position.Revision, err)
			}
		}
		return nil
	})
}

func twoHandles(t *trial) {
	other := t.other(needSecond, t.b.Second)
	w := t.watch("", store.Position{})
	w.change("the bookmark at the start of the watch")
	w2 := t.watchOf(t.ctx, other, "", store.Position{})
	w2.change("the bookmark at the start of the watch")
	handles := []store.Store{t.store, other}
	for i := range t.n(40) {
		writer, reader := handles[i%2], handles[(i+1)%2]
		value := fmt.Sprint(i)
		r, err := writer.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte(value))}})
		require.NoError(t, err)
		want := entry("k", value, r)
		e, err := reader.Get(t.ctx, "k")
		require.NoError(t, err)
		t.equal(want, e, "Get through the other handle")
		p, err := reader.List(t.ctx, store.Query{})
		require.NoError(t, err)
		t.equal([]store.Entry{want}, p.Entries, "List through the other handle")
		_, err = reader.Commit(t.ctx, store.Txn{If: []store.Condition{store.At("k", r)}})
		require.NoError(t, err, "a condition through the other handle")
		for _, w := range []*watcher{w, w2} {
			c := w.events("a commit of either handle")
			t.equal(store.Position{Epoch: p.Position.Epoch, Revision: r}, c.Position, "the position of the change")
		}
	}
	require.NoError(t, other.Close())
	t.put("k", "the first handle lives on")
}

func waitingWatch(t *trial) {
	w := t.watchOf(t.ctx, t.other(needSecond, t.b.Second), "k", store.Position{})
	w.change("the first bookmark")
	for i := range t.n(40) {
		r := t.put("k", fmt.Sprint(i))
		t.equal(r, w.events("a commit of the other handle").Position.Revision, "the revision of change %d", i)
	}
}

// boundaryKeys lie just inside or outside of the prefixes of the queries.
var boundaryKeys = []string{
	"a", "a\x00", "a!", "a/", "a/\x00", "a/b", "a/b/c", "a/\xff", "a/\xff\xff", "a0", "aa", "a\xff", "a\xff\xff", "b", "\xff", "\xff\xff", "\xff\xff\xff",
}

var boundaryPrefixes = []struct {
	prefix string
	want   []string
}{
	{"", boundaryKeys},
	{"a", boundaryKeys[:13]},
	{"a/", boundaryKeys[3:9]},
	{"a/b", []string{"a/b", "a/b/c"}},
	{"a0", []string{"a0"}},
	{"a\xff", []string{"a\xff", "a\xff\xff"}},
	{"\xff", []string{"\xff", "\xff\xff", "\xff\xff\xff"}},
	{"\xff\xff", []string{"\xff\xff", "\xff\xff\xff"}},
	{"a/b/c", []string{"a/b/c"}},
	{"a/c", nil},
	{"zz", nil},
}

func (t *trial) putBoundaryKeys() store.Position {
	start := t.now()
	for _, key := range boundaryKeys {
		t.put(key, "v")
	}
	return start
}

func prefixes(t *trial) {
	t.putBoundaryKeys()
	for _, p := range boundaryPrefixes {
		t.equal(p.want, keys(t.list(store.Query{Prefix: p.prefix})), "the keys with prefix %q", p.prefix)
		for _, after := range append([]string{"0", "a/a", "zzz"}, boundaryKeys...) {
			var want []string
			for _, key := range p.want {
				if key > after {
					want = append(want, key)
				}
			}
			q := store.Query{Prefix: p.prefix, After: after}
			t.equal(want, keys(t.list(q)), "the keys of %s", showQuery(q))
			q.Limit = 2
			page := t.list(q)
			t.equal(want[:min(2, len(want))], keys(page), "the keys of %s", showQuery(q))
			t.equal(len(want) > 2, page.More, "whether more follow after %s", showQuery(q))
		}
	}
}

func pagesByBytes(t *trial) {
	sizes := []int{10, 0, 30, 500, 20, 20, 20, 1}
	var want []string
	for i, size := range sizes {
		want = append(want, fmt.Sprintf("k%d", i))
		t.put(want[i], strings.Repeat("v", size))
	}
	at := t.now()
	t.put("k0", strings.Repeat("later", 100))
	for _, bytes := range []int{1, 10, 40, 41, 100, 1000} {
		for _, limit := range []int{0, 2} {
			var seen []string
			q := store.Query{Prefix: "k", Limit: limit, Bytes: bytes, At: at}
			for more := true; more; {
				page := t.list(q)
				n, size := 0, 0
				for n < len(sizes)-len(seen) && (limit == 0 || n < limit) && (n == 0 || size+sizes[len(seen)+n] <= bytes) {
					size += sizes[len(seen)+n]
					n++
				}
				t.equal(want[len(seen):len(seen)+n], keys(page), "the keys of %s, %d bytes", showQuery(q), bytes)
				seen = append(seen, keys(page)...)
				t.equal(len(seen) < len(want), page.More, "whether more follow after %s, %d bytes", showQuery(q), bytes)
				more, q.After = page.More, seen[len(seen)-1]
			}
		}
	}
}

func watchedPrefixes(t *trial) {
	start := t.putBoundaryKeys()
	for _, p := range boundaryPrefixes {
		var seen []string
		for _, c := range t.watch(p.prefix, start).until(t.now().Revision) {
			for _, e := range c.Events {
				seen = append(seen, e.Key)
			}
		}
		t.equal(p.want, seen, "the keys that a watch of %q saw", p.prefix)
	}
}

func keys(p store.Page) []string {
	var all []string
	for _, e := range p.Entries {
		all = append(all, e.Key)
	}
	return all
}
