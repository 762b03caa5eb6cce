package storetest

import (
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func commitCases() []testcase {
	return []testcase{
		{
			name: "create conflict carries current",
			want: "a create of a key that exists is refused with a ConflictError that carries the condition and the current entry",
			why:  "with that entry the caller distinguishes \"already exists\" from \"deleted meanwhile\" without another read, which could see yet another state",
			run:  createConflict,
		}, {
			name: "stale update refused",
			want: "a put under At(key, an older revision) is refused with the current entry and changes nothing",
			why:  "compare-and-swap is the only lock: a lost update is a lost finalizer",
			run:  staleUpdate,
		}, {
			name: "recreated key gets a new revision",
			want: "a key that is deleted and created again has a greater revision, and At(key, the old revision) does not hold",
			why:  "a writer that read the first object must not overwrite the second one of the same name",
			run:  recreate,
		}, {
			name: "all or nothing",
			want: "a transaction applies every operation at one revision, or, when a condition fails, none",
			why:  "a namespace, its gate and its index entry are written together; half of it is a namespace that can never be deleted",
			run:  allOrNothing,
		}, {
			name: "conditions hold exactly",
			want: "At, Exists and Absent hold in exactly the states that they describe",
			why:  "every rule above the store is built from these three",
			run:  conditions,
		}, {
			name:  "conditions do not need history",
			want:  "At(key, a compacted revision) holds for an entry of that revision, and is a conflict for an absent key",
			why:   "a writer that kept its object for a long time must learn that the object is gone, not that its revision is",
			needs: []capability{needCompacts},
			run:   compactedCondition,
		}, {
			name: "first failing condition is reported",
			want: "of several conditions that fail, the error carries the first in the order of Txn.If",
			why:  "callers order their conditions by importance: \"is terminating\" before \"already exists\"",
			run:  firstCondition,
		}, {
			name: "conditions are evaluated before operations",
			want: "the conditions of a transaction do not see its own operations",
			why:  "a create under Absent(its own key) and a deletion under Exists(its own key) must be possible",
			run:  conditionsFirst,
		}, {
			name: "checked read changes nothing",
			want: "a transaction without operations returns the current revision when its conditions hold and makes no revision and no event",
			why:  "fences are checked often; a commit for each would flood every watch",
			run:  checkedRead,
		}, {
			name: "deletion of an absent key changes nothing",
			want: "a deletion of an absent key makes no event, and a transaction of only such deletions makes no revision",
			why:  "a retried batch of deletions must be quiet, and watchers cannot use the deletion of an object they never saw",
			run:  deleteAbsent,
		}, {
			name: "given values are copied",
			want: "the store does not change when the caller modifies its slices after Commit returned",
			why:  "callers reuse encoding buffers; an alias is corruption at a distance",
			run:  copied,
		}, {
			name: "revisions grow",
			want: "each commit that changes something has a greater revision than every commit before it, and its entries carry that revision",
			why:  "revisions order all writes; a reused one makes an old write look current",
			run:  revisionsGrow,
		},
	}
}

func createConflict(t *trial) {
	r := t.put("k", "first")
	there := entry("k", "first", r)
	t.conflict(store.Txn{
		If: []store.Condition{store.Absent("k")},
		Do: []store.Operation{store.Put("k", []byte("second"))},
	}, store.Absent("k"), &there)
	t.holds("k", "first", r)
}

func staleUpdate(t *trial) {
	old := t.put("k", "1")
	r := t.put("k", "2")
	there := entry("k", "2", r)
	update := store.Txn{If: []store.Condition{store.At("k", old)}, Do: []store.Operation{store.Put("k", []byte("3"))}}
	t.conflict(update, store.At("k", old), &there)
	t.holds("k", "2", r)

	t.delete("k")
	t.conflict(update, store.At("k", old), nil)
	t.absent("k")
}

func recreate(t *trial) {
	first := t.put("k", "same")
	deleted := t.delete("k")
	t.absent("k")
	second := t.put("k", "same")
	require.Greater(t, deleted, first, "the revision of the deletion")
	require.Greater(t, second, deleted, "the revision of the second creation")
	t.holds("k", "same", second)
	there := entry("k", "same", second)
	for _, old := range []store.Revision{first, deleted} {
		t.conflict(store.Txn{If: []store.Condition{store.At("k", old)}}, store.At("k", old), &there)
	}
}

func allOrNothing(t *trial) {
	kept := t.put("kept", "1")
	doomed := t.put("doomed", "1")
	do := []store.Operation{store.Put("kept", []byte("2")), store.Put("new", []byte("2")), store.Delete("doomed")}
	t.conflict(store.Txn{If: []store.Condition{store.Exists("kept"), store.Exists("other")}, Do: do}, store.Exists("other"), nil)
	t.holds("kept", "1", kept)
	t.holds("doomed", "1", doomed)
	t.absent("new")

	r := t.commit(store.Txn{If: []store.Condition{store.Exists("kept"), store.At("doomed", doomed)}, Do: do})
	t.holds("kept", "2", r)
	t.holds("new", "2", r)
	t.absent("doomed")
	t.equal(r, t.now().Revision, "the revision of the store after the transaction")
}

func conditions(t *trial) {
	old := t.put("here", "1")
	now := t.put("here", "2")
	there := entry("here", "2", now)
	for _, c := range []struct {
		condition store.Condition
		holds     bool
		current   *store.Entry
	}{
		{store.At("here", now), true, &there},
		{store.At("here", old), false, &there},
		{store.At("here", now+1), false, &there},
		{store.Exists("here"), true, &there},
		{store.Absent("here"), false, &there},
		{store.At("gone", now), false, nil},
		{store.At("gone", 1), false, nil},
		{store.Exists("gone"), false, nil},
		{store.Absent("gone"), true, nil},
		{store.Exists("her"), false, nil},
		{store.Absent("here/below"), true, nil},
	} {
		t.doing("committing under the condition %v", c.condition)
		txn := store.Txn{If: []store.Condition{c.condition}}
		if !c.holds {
			t.conflict(txn, c.condition, c.current)
			continue
		}
		t.commit(txn)
	}
}

func firstCondition(t *trial) {
	r := t.put("b", "1")
	there := entry("b", "1", r)
	t.conflict(store.Txn{If: []store.Condition{
		store.Exists("b"), store.Exists("z"), store.Absent("b"), store.Exists("a"),
	}}, store.Exists("z"), nil)
	t.conflict(store.Txn{If: []store.Condition{
		store.At("b", r), store.Absent("b"), store.Exists("a"), store.Exists("z"),
	}}, store.Absent("b"), &there)
	t.conflict(store.Txn{If: []store.Condition{
		store.At("b", r+1), store.Absent("b"),
	}}, store.At("b", r+1), &there)
}

func conditionsFirst(t *trial) {
	put := func(key string) store.Operation { return store.Put(key, []byte("v")) }
	r := t.commit(store.Txn{If: []store.Condition{store.Absent("a"), store.Absent("b")}, Do: []store.Operation{put("a"), put("b")}})
	r2 := t.commit(store.Txn{If: []store.Condition{store.At("a", r), store.Exists("b")}, Do: []store.Operation{put("a"), store.Delete("b")}})
	t.holds("a", "v", r2)
	t.absent("b")
	t.conflict(store.Txn{If: []store.Condition{store.Exists("c")}, Do: []store.Operation{put("c")}}, store.Exists("c"), nil)
	t.absent("c")
}

func checkedRead(t *trial) {
	r := t.put("k", "1")
	w := t.watch("", at(t.now(), r))
	t.unchanged("checked reads", func() {
		t.equal(r, t.commit(store.Txn{}), "the answer of an empty transaction")
		t.equal(r, t.commit(store.Txn{If: []store.Condition{store.At("k", r), store.Absent("x")}}), "the answer of a checked read")
		t.conflict(store.Txn{If: []store.Condition{store.Absent("x"), store.At("k", r+1)}}, store.At("k", r+1), ptr(entry("k", "1", r)))
	})
	next := t.put("k", "2")
	t.equal(next, w.events("the commit after the checked reads").Position.Revision, "the first change after the checked reads")
}

func deleteAbsent(t *trial) {
	r := t.put("k", "1")
	w := t.watch("", at(t.now(), r))
	t.unchanged("deletions of absent keys", func() {
		t.equal(r, t.delete("x"), "the answer to a deletion of an absent key")
		t.equal(r, t.commit(store.Txn{
			If: []store.Condition{store.Exists("k")},
			Do: []store.Operation{store.Delete("x"), store.Delete("y")},
		}), "the answer to deletions of absent keys")
	})
	next := t.commit(store.Txn{Do: []store.Operation{store.Delete("x"), store.Put("k", []byte("2")), store.Delete("y")}})
	c := w.events("the commit after the deletions of absent keys")
	t.equal(next, c.Position.Revision, "the first change after the deletions of absent keys")
	t.equal([]store.Event{{Key: "k", Value: []byte("2"), Prev: ptr(entry("k", "1", r))}}, c.Events,
		"the events of a transaction that also deletes absent keys")
}

func copied(t *trial) {
	start := t.now()
	buffer := []byte("original")
	txn := store.Txn{
		If: []store.Condition{store.Absent("k")},
		Do: []store.Operation{store.Put("k", buffer), store.Put("l", []byte("other"))},
	}
	r := t.commit(txn)
	copy(buffer, "XXXXXXXX")
	txn.Do[1] = store.Put("l", []byte("changed"))
	txn.If[0] = store.Exists("k")

	t.holds("k", "original", r)
	t.holds("l", "other", r)
	t.equal([]store.Entry{entry("k", "original", r), entry("l", "other", r)}, t.list(store.Query{}).Entries, "the listing")
	t.equal([]store.Event{{Key: "k", Value: []byte("original")}, {Key: "l", Value: []byte("other")}},
		t.watch("", start).events("the commit").Events, "the events")
}

func revisionsGrow(t *trial) {
	last := t.now().Revision
	next := func(what string, r store.Revision) {
		require.Greater(t, r, last, "the revision of %s", what)
		last = r
	}
	for range t.kept(20) {
		next("a put", t.put("a", "same value"))
		next("a put of the same value", t.put("a", "same value"))
		t.holds("a", "same value", last)
		next("a deletion of the last key", t.delete("a"))
		t.equal(last, t.now().Revision, "the revision of the empty store")
	}
	if t.b.Compacts {
		require.NoError(t, t.store.(store.Compactor).Compact(t.ctx, last))
		next("a put after compaction", t.put("a", "1"))
	}
}

func ptr[T any](v T) *T { return &v }

func compactedCondition(t *trial) {
	kept := t.put("kept", "1")
	lost := t.put("lost", "1")
	t.delete("lost")
	t.compact(t.put("other", "1"))
	put := []store.Operation{store.Put("x", nil)}
	t.conflict(store.Txn{If: []store.Condition{store.At("lost", lost)}, Do: put}, store.At("lost", lost), nil)
	t.conflict(store.Txn{If: []store.Condition{store.At("never", kept)}, Do: put}, store.At("never", kept), nil)
	t.commit(store.Txn{If: []store.Condition{store.At("kept", kept)}, Do: put})
}
