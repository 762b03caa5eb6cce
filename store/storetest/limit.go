package storetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func limitCases() []testcase {
	return []testcase{
		{
			name: "the largest transaction is whole",
			want: "a transaction of as many conditions and operations as the limits allow (else 1,000) is checked to its last condition and arrives whole, live and in replay",
			why:  "batches are cut to the limits: an engine that checks, writes or replays a part of one breaks every rule between keys",
			run:  largestTransaction,
		}, {
			name: "the largest values come back everywhere",
			want: "values at the declared limit (else 1 MiB) are whole in conflicts, in events, in Prev and in listings of the past",
			why:  "engines limit their messages: a value that fits into a write may not fit into an answer that carries it with its predecessor",
			run:  largestValues,
		}, {
			name: "identical puts are changes",
			want: "a put of the current value has a new revision, and an event with the entry before",
			why:  "writers use such puts to fence others off; an engine that drops them breaks compare-and-swap",
			run:  identicalPuts,
		}, {
			name: "prefixes as long as keys",
			want: "listing, counting and watching a prefix up to the longest key (else 1 KiB) has exactly the keys below it",
			why:  "the end of such a range has no key of its length, and an engine that adds to the prefix may pass its own limit",
			run:  longPrefixes,
		},
	}
}

// or returns limit, or other if no limit is declared.
func or(limit, other int) int {
	if limit == 0 {
		return other
	}
	return limit
}

func largestTransaction(t *trial) {
	const fewest = "op/00000" // the prefix of the first ten
	n := or(t.b.Limits.Operations, 1000)
	name := func(i int) string { return fmt.Sprintf("op/%06d", i) }
	start := t.now()
	live, part := t.watch("", start), t.watch(fewest, start)
	live.change("the first bookmark")
	part.change("the first bookmark")
	var create, rewrite store.Txn
	for i := range n {
		create.If = append(create.If, store.Absent(name(i)))
		create.Do = append(create.Do, store.Put(name(i), []byte("1")))
	}
	arrives := func(what string, r store.Revision, txn store.Txn) {
		var want []string
		for _, op := range txn.Do {
			want = append(want, fmt.Sprint(op.Key, op.Delete))
		}
		for _, w := range []struct {
			how string
			*watcher
			want []string
		}{
			{"a live watch", live, want},
			{"a live watch of a prefix", part, want[:min(10, n)]},
			{"a replay", t.watch("", at(start, r-1)), want},
			{"a replay of a prefix", t.watch(fewest, at(start, r-1)), want[:min(10, n)]},
		} {
			c := w.events(what)
			var got []string
			for _, e := range c.Events {
				got = append(got, fmt.Sprint(e.Key, e.Deleted))
			}
			t.equal(r, c.Position.Revision, "the revision of %s on %s", what, w.how)
			require.Len(t, got, len(w.want), "the events of %s on %s", what, w.how)
			t.equal(w.want, got, "the events of %s on %s", what, w.how)
		}
	}
	last := n - 1
	holds := create.If[last]
	create.If[last] = store.Exists(name(last))
	t.unchanged("a transaction whose last condition is false", func() { t.conflict(create, create.If[last], nil) })
	create.If[last] = holds
	r := t.commit(create)
	arrives("the largest creation", r, create)
	for i := range n {
		rewrite.If = append(rewrite.If, store.At(name(i), r))
		if i%2 == 0 {
			rewrite.Do = append(rewrite.Do, store.Delete(name(i)))
		} else {
			rewrite.Do = append(rewrite.Do, store.Put(name(i), []byte("2")))
		}
	}
	arrives("the largest rewrite", t.commit(rewrite), rewrite)
	require.Len(t, t.list(store.Query{Prefix: "op/"}).Entries, n/2, "the entries after the largest rewrite")
}

// brief describes an entry by its length and hash, since a diff of large values would be
// unreadable.
func brief(e *store.Entry) string {
	if e == nil {
		return "absent"
	}
	return fmt.Sprintf("%q at revision %d: %d bytes, %x", e.Key, e.Revision, len(e.Value), sha256.Sum256(e.Value))
}

// large returns the largest value that the limits allow, made of c.
func (t *trial) large(c byte, key string) []byte {
	n := or(t.b.Limits.Value, 1<<20)
	if total := t.b.Limits.Bytes; total > 0 {
		n = min(n, total-len(key))
	}
	return bytes.Repeat([]byte{c}, n)
}

func largestValues(t *trial) {
	start := t.now()
	one := store.Entry{Key: "k", Value: t.large('1', "k")}
	two := store.Entry{Key: "k", Value: t.large('2', "k")}
	one.Revision = t.commit(store.Txn{Do: []store.Operation{store.Put("k", one.Value)}})
	two.Revision = t.commit(store.Txn{If: []store.Condition{store.At("k", one.Revision)}, Do: []store.Operation{store.Put("k", two.Value)}})
	_, err := t.store.Commit(t.ctx, store.Txn{If: []store.Condition{store.At("k", one.Revision)}})
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	t.equal(brief(&two), brief(conflict.Current), "the current entry in a conflict")
	for _, past := range []store.Entry{one, two} {
		p := t.list(store.Query{At: at(start, past.Revision)})
		require.Len(t, p.Entries, 1)
		t.equal(brief(&past), brief(&p.Entries[0]), "the entry in the listing at its revision")
	}
	three := t.delete("k")
	changes := t.watch("", start).until(three)
	require.Len(t, changes, 3, "the changes of a large value")
	for i, want := range []struct{ now, before *store.Entry }{{&one, nil}, {&two, &one}, {nil, &two}} {
		e := changes[i].Events[0]
		var now *store.Entry
		if !e.Deleted {
			now = &store.Entry{Key: e.Key, Value: e.Value, Revision: changes[i].Position.Revision}
		}
		t.equal(brief(want.now), brief(now), "the value of change %d", i)
		t.equal(brief(want.before), brief(e.Prev), "Prev of change %d", i)
	}
}

func identicalPuts(t *trial) {
	start := t.now()
	value := t.large('v', "k")
	value = value[:min(len(value), 1<<20)]
	put := store.Txn{Do: []store.Operation{store.Put("k", value)}}
	first := t.commit(put)
	second := t.commit(put)
	require.Greater(t, second, first, "the revision of a put of the same value")
	now := t.get("k")
	t.equal(second, now.Revision, "the revision of the entry after a put of the same value")
	_, err := t.store.Commit(t.ctx, store.Txn{If: []store.Condition{store.At("k", first)}})
	require.ErrorIs(t, err, store.ErrConflict, "At(the revision of the first put)")
	changes := t.watch("", start).until(second)
	t.equal([]store.Revision{first, second}, revisions(changes), "the changes of two identical puts")
	t.equal(brief(&store.Entry{Key: "k", Value: value, Revision: first}), brief(changes[1].Events[0].Prev), "Prev of the second put")
}

func longPrefixes(t *trial) {
	n := or(t.b.Limits.Key, 1<<10)
	start := t.now()
	var all []string
	for _, c := range []string{"k", "\xff"} {
		all = append(all, strings.Repeat(c, n-2), strings.Repeat(c, n-1), strings.Repeat(c, n-1)+"a", strings.Repeat(c, n))
		if c == "k" {
			all[2], all[3] = strings.Repeat(c, n), strings.Repeat(c, n-1)+"l"
		}
	}
	for _, key := range all {
		t.put(key, "v")
	}
	last := t.now().Revision
	for _, prefix := range all {
		var want []string
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		what := fmt.Sprintf("a prefix of %d bytes of %q", len(prefix), prefix[:1])
		q := store.Query{Prefix: prefix}
		require.Len(t, t.list(q).Entries, len(want), "the keys with %s", what)
		t.equal(want, keys(t.list(q)), "the keys with %s", what)
		if t.b.Counts {
			t.count(q)
		}
		var seen []string
		for _, c := range t.watch(prefix, start).until(last) {
			seen = append(seen, c.Events[0].Key)
		}
		require.Len(t, seen, len(want), "the events of a watch with %s", what)
		t.equal(want, seen, "the events of a watch with %s", what)
	}
}
