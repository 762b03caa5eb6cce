package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func inputCases() []testcase {
	return []testcase{
		{
			name: "empty value is an entry",
			want: "a put of a nil or an empty value makes an entry with an empty value, not a deletion",
			why:  "index entries may carry nothing but their key",
			run:  emptyValue,
		}, {
			name: "any bytes in keys and values",
			want: "keys and values keep any bytes, and keys sort bytewise",
			why:  "a store that interprets keys (text encodings, path cleaning, collation) mixes up two names",
			run:  anyBytes,
		}, {
			name: "long keys and values",
			want: "keys and values up to the declared limits (else 1 KiB and 1 MiB) are kept whole",
			why:  "silent truncation corrupts the object, and two long names become one",
			run:  longest,
		}, {
			name:  "oversize refused",
			want:  "a call that exceeds a declared limit is refused with ErrTooLarge and changes nothing; a call exactly at the limit is accepted",
			why:   "the layer above cuts its batches by these limits",
			needs: []capability{needLimits},
			run:   oversize,
		}, {
			name: "invalid input changes nothing",
			want: "bad keys, conditions, duplicate operations, limits and positions are refused with ErrInvalid and change nothing",
			why:  "engines treat such input differently; the contract must not",
			run:  invalidInput,
		}, {
			name: "ended context changes nothing",
			want: "every call with an ended context fails with the cause of the context and changes nothing",
			why:  "a caller that gave up believes that nothing happened",
			run:  endedContext,
		}, {
			name: "cancelled write is honest",
			want: "a Commit whose context ends meanwhile has happened (nil), has not happened and never will (another error), or answers ErrUnknownOutcome",
			why:  "the caller retries writes that have not happened: a write hidden by another error happens twice",
			run:  cancelledWrite,
		}, {
			name: "errors name operation and key",
			want: "errors carry a store.Error with the operation and the key or prefix",
			why:  "\"not found\" without a key is useless in the log of a service with a hundred thousand keys",
			run:  namedErrors,
		},
	}
}

func emptyValue(t *trial) {
	start := t.now()
	r := t.commit(store.Txn{Do: []store.Operation{store.Put("nil", nil), store.Put("none", []byte{})}})
	for _, key := range []string{"nil", "none"} {
		t.holds(key, "", r)
		t.commit(store.Txn{If: []store.Condition{store.Exists(key), store.At(key, r)}})
	}
	t.equal([]store.Entry{entry("nil", "", r), entry("none", "", r)}, t.list(store.Query{}).Entries, "the listing")
	t.equal([]store.Event{{Key: "nil"}, {Key: "none"}}, t.watch("", start).events("two puts").Events, "the events of two empty puts")

	r2 := t.put("nil", "full")
	r3 := t.commit(store.Txn{If: []store.Condition{store.At("nil", r2)}, Do: []store.Operation{store.Put("nil", nil)}})
	t.holds("nil", "", r3)
}

func anyBytes(t *trial) {
	want := map[string]string{
		"a\x00b": "zero inside", "a": "zero cut off", "a\x00": "zero at the end", "\xff\xfe": "not text", "\xff": "last",
		"é": "composed", "e\u0301": "decomposed", "E": "upper", "e": "lower", "a/../b": "dots", "b": "clean", "a//b": "slashes", "a/b": "slash",
		" ": "space", "  ": "spaces", "%61": "escaped", "a\n": "newline", "*": "star", "_": "underscore", "\\x00": "backslash",
	}
	for i := range 256 {
		if key := string([]byte{byte(i)}); want[key] == "" {
			want[key] = "single " + fmt.Sprint(i)
		}
	}
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	want["bytes"] = string(everyByte)
	var batch []store.Operation
	for key, value := range want {
		batch = append(batch, store.Put(key, []byte(value)))
		if len(batch) == 16 {
			t.commit(store.Txn{Do: batch})
			batch = nil
		}
	}
	t.commit(store.Txn{Do: batch})

	for _, key := range []string{"ab/c/d", "a/bc/d", "a/b/cd"} { // the same letters, but different keys
		want[key] = key
		t.put(key, key)
	}

	page := t.list(store.Query{})
	t.equal(want, values(page), "the entries")
	for i := 1; i < len(page.Entries); i++ {
		if a, b := page.Entries[i-1].Key, page.Entries[i].Key; a >= b {
			t.fatalf("the listing has %q before %q: not in the order of their bytes", a, b)
		}
	}
	for key, value := range want {
		t.equal(value, string(t.get(key).Value), "the value of %q", key)
	}
}

func longest(t *trial) {
	keyBytes, valueBytes := or(t.b.Limits.Key, 1<<10), or(t.b.Limits.Value, 1<<20)
	if total := t.b.Limits.Bytes; total > 0 {
		valueBytes = min(valueBytes, total-keyBytes)
	}
	start := t.now()
	key := strings.Repeat("k", keyBytes-1)
	value := bytes.Repeat([]byte("0123456789abcdef"), valueBytes/16)
	first := t.commit(store.Txn{Do: []store.Operation{store.Put(key+"1", value)}})
	second := t.commit(store.Txn{Do: []store.Operation{store.Put(key+"2", []byte("short"))}})
	got := t.get(key + "1")
	require.True(t, bytes.Equal(value, got.Value), "the long value came back with %d bytes, not the same %d", len(got.Value), len(value))
	t.equal(first, got.Revision, "the revision of the first long key")
	t.holds(key+"2", "short", second)
	require.Len(t, t.list(store.Query{Prefix: key}).Entries, 2, "the entries with two long keys that differ in the last byte")
	c := t.watch(key+"1", start).events("the put of a long value")
	require.True(t, bytes.Equal(value, c.Events[0].Value), "the event's value has %d bytes, not the same %d", len(c.Events[0].Value), len(value))
}

func oversize(t *trial) {
	l := t.b.Limits
	t.put("k", "1")
	refused := func(what string, txn store.Txn) {
		t.unchanged(what, func() {
			r, err := t.store.Commit(t.ctx, txn)
			require.ErrorIs(t, err, store.ErrTooLarge, "Commit of %s answered revision %d", what, r)
		})
	}
	long := strings.Repeat("k", l.Key+1)
	if l.Key > 0 {
		refused("a key of one byte too many", store.Txn{Do: []store.Operation{store.Put(long, nil)}})
		refused("a condition on a key of one byte too many", store.Txn{If: []store.Condition{store.Absent(long)}})
		_, err := t.store.Get(t.ctx, long)
		require.ErrorIs(t, err, store.ErrTooLarge, "Get of a key of one byte too many")
	}
	if l.Value > 0 {
		refused("a value of one byte too many", store.Txn{Do: []store.Operation{
			store.Put("a", nil), store.Put("b", make([]byte, l.Value+1)),
		}})
	}
	if l.Operations > 0 {
		txn := store.Txn{}
		for i := range l.Operations {
			key := fmt.Sprint(i)
			txn.Do = append(txn.Do, store.Put(key, nil))
			txn.If = append(txn.If, store.Absent(key))
		}
		refused("one operation too many", store.Txn{Do: append(txn.Do[:l.Operations:l.Operations], store.Put("x", nil))})
		refused("one condition too many", store.Txn{If: append(txn.If[:l.Operations:l.Operations], store.Absent("x"))})
		t.commit(txn)
	}
	if l.Bytes > 0 {
		refused("one byte too many in all", store.Txn{Do: fill(l, l.Bytes+1)})
		t.commit(store.Txn{Do: fill(l, l.Bytes)})
	}
}

// fill returns puts with exactly total bytes that exceed no other limit, if that is possible.
func fill(l store.Limits, total int) []store.Operation {
	most := or(l.Value, total)
	var do []store.Operation
	for total > 0 {
		key := fmt.Sprintf("f%06d", len(do))
		n := min(most, max(total-len(key), 0))
		if rest := total - len(key) - n; rest > 0 && rest < len(key) {
			n -= len(key) // leave room for one more key
		}
		do = append(do, store.Put(key, make([]byte, n)))
		total -= len(key) + n
	}
	return do
}

func invalidInput(t *trial) {
	r := t.put("k", "1")
	epoch := t.now().Epoch
	put := store.Put("x", []byte("x"))
	for _, txn := range []store.Txn{
		{Do: []store.Operation{put, store.Put("", nil)}},
		{Do: []store.Operation{put, store.Delete("")}},
		{Do: []store.Operation{put, store.Put("x", []byte("y"))}},
		{Do: []store.Operation{put, store.Delete("x")}},
		{Do: []store.Operation{put, {Key: "k", Value: []byte("x"), Delete: true}}},
		{Do: []store.Operation{put}, If: []store.Condition{store.Exists("")}},
		{Do: []store.Operation{put}, If: []store.Condition{{Key: "k"}}},
		{Do: []store.Operation{put}, If: []store.Condition{{Key: "k", Want: store.WantAbsent + 1}}},
		{Do: []store.Operation{put}, If: []store.Condition{store.At("k", 0)}},
		{Do: []store.Operation{put}, If: []store.Condition{store.At("k", -r)}},
		{Do: []store.Operation{put}, If: []store.Condition{store.Absent("k"), store.At("k", -1)}},
	} {
		t.unchanged(show(txn), func() {
			r, err := t.store.Commit(t.ctx, txn)
			require.ErrorIs(t, err, store.ErrInvalid, "Commit(%s) answered revision %d", show(txn), r)
		})
	}
	_, err := t.store.Get(t.ctx, "")
	require.ErrorIs(t, err, store.ErrInvalid, "Get of the empty key")
	for _, q := range []store.Query{{Limit: -1}, {At: store.Position{Epoch: epoch, Revision: -1}}, {At: store.Position{Revision: -1}}} {
		p, err := t.store.List(t.ctx, q)
		require.ErrorIs(t, err, store.ErrInvalid, "List(%s) answered %v", showQuery(q), p)
	}
	t.watch("", store.Position{Epoch: epoch, Revision: -1}).refused(store.ErrInvalid)
	t.absent("x")
}

func endedContext(t *trial) {
	t.put("k", "1")
	cause := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.ctx)
	cancel(cause)
	t.unchanged("calls with a context that has ended", func() {
		_, err := t.store.Get(ctx, "k")
		require.ErrorIs(t, err, cause, "Get")
		_, err = t.store.List(ctx, store.Query{})
		require.ErrorIs(t, err, cause, "List")
		_, err = t.store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("2"))}})
		require.ErrorIs(t, err, cause, "Commit")
		require.NotErrorIs(t, err, store.ErrUnknownOutcome, "Commit: nothing was submitted, so the outcome is known")
		_, err = t.store.Commit(ctx, store.Txn{})
		require.ErrorIs(t, err, cause, "Commit of a checked read")
		t.watchOf(ctx, t.store, "", store.Position{}).refused(cause)
	})
}

func cancelledWrite(t *trial) {
	rounds := t.n(400)
	errs := make([]error, rounds)
	begun := time.Now()
	t.put("usual", "")
	usual := time.Since(begun)
	const clients = 4
	t.doing("waiting for commits whose context ends")
	t.all(clients, func(client int) error {
		for i := client; i < rounds; i += clients {
			ctx, end := ending(t.ctx, usual, i)
			_, errs[i] = t.store.Commit(ctx, store.Txn{
				If: []store.Condition{store.Absent(key(i))},
				Do: []store.Operation{store.Put(key(i), nil)},
			})
			end()
		}
		return t.ctx.Err()
	})
	t.put("barrier", "") // all queued commits are decided when this one returns
	there := values(t.list(store.Query{Prefix: "key"}))
	for i, err := range errs {
		_, landed := there[key(i)]
		if err == nil && !landed {
			t.fatalf("Commit %d answered nil, but its write is not there", i)
		}
		if definite(err) && landed {
			t.fatalf("Commit %d answered %q, which says that nothing happened, but its write is there", i, err)
		}
	}
}

// ending returns a context that ends at a moment of a commit that varies with i, given the usual
// duration of a commit. Call the function when the commit has returned.
func ending(parent context.Context, usual time.Duration, i int) (context.Context, func()) {
	if i%2 == 0 {
		return context.WithTimeout(parent, usual*time.Duration(i%16)/8)
	}
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range i % 16 {
			runtime.Gosched()
		}
		cancel()
	}()
	return ctx, func() { <-done }
}

func key(i int) string { return fmt.Sprintf("key%06d", i) }

func namedErrors(t *trial) {
	r := t.put("k", "1")
	named := func(err error, op, key string) {
		var e *store.Error
		require.ErrorAs(t, err, &e, "an error of %s %q", op, key)
		t.equal([]string{op, key}, []string{e.Op, e.Key}, "operation and key of the error %q", err)
	}
	_, err := t.store.Get(t.ctx, "x")
	named(err, "get", "x")
	future := store.Position{Revision: r + 1000}
	_, err = t.store.List(t.ctx, store.Query{Prefix: "p/", At: future})
	named(err, "list", "p/")
	for _, err := range t.store.Watch(t.ctx, "p/", future) {
		named(err, "watch", "p/")
	}
	_, err = t.store.Commit(t.ctx, store.Txn{If: []store.Condition{store.Exists("k"), store.Absent("k")}, Do: []store.Operation{store.Put("x", nil)}})
	named(err, "commit", "k")
}
