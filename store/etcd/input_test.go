package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

var errEnough = errors.New("enough")

// Bad input is refused with a typed error and changes nothing.
func TestBadInput(t *testing.T) {
	s := openNew(t, nil)
	put(t, s, "there", "v")
	before := now(t, s)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	limits := s.Limits()
	long, huge := strings.Repeat("k", limits.Key+1), strings.Repeat("k", limits.Bytes+1)
	txn := func(ops ...store.Operation) store.Txn { return store.Txn{Do: ops} }
	many := make([]store.Operation, limits.Operations+1)
	ctx, ok := t.Context(), txn(store.Put("a", nil))
	ahead := before.Revision + 1000
	for name, c := range map[string]struct {
		call func() error
		want error
	}{
		"get: ended":              {func() error { _, err := s.Get(ended, "a"); return err }, errEnough},
		"get: empty key":          {func() error { _, err := s.Get(ctx, ""); return err }, store.ErrInvalid},
		"get: long key":           {func() error { _, err := s.Get(ctx, long); return err }, store.ErrTooLarge},
		"get: absent":             {func() error { _, err := s.Get(ctx, "\xFF../\x00"); return err }, store.ErrNotFound},
		"list: ended":             {func() error { _, err := s.List(ended, store.Query{}); return err }, errEnough},
		"list: negative limit":    {func() error { _, err := s.List(ctx, store.Query{Limit: -1}); return err }, store.ErrInvalid},
		"list: huge prefix":       {func() error { _, err := s.List(ctx, store.Query{Prefix: huge}); return err }, store.ErrTooLarge},
		"list: huge after":        {func() error { _, err := s.List(ctx, store.Query{After: huge}); return err }, store.ErrTooLarge},
		"list: negative revision": {func() error { _, err := s.List(ctx, store.Query{At: store.Position{Revision: -1}}); return err }, store.ErrInvalid},
		"list: ahead":             {func() error { _, err := s.List(ctx, store.Query{At: store.Position{Revision: ahead}}); return err }, store.ErrFuture},
		"list: ahead, no keys there": {func() error {
			_, err := s.List(ctx, store.Query{Prefix: "a", After: "b", At: store.Position{Revision: ahead}})
			return err
		}, store.ErrFuture},
		"list: another epoch": {func() error {
			_, err := s.List(ctx, store.Query{At: store.Position{Epoch: "x", Revision: 1}})
			return err
		}, store.ErrGone},
		"commit: ended":            {func() error { _, err := s.Commit(ended, ok); return err }, errEnough},
		"commit: empty key":        {func() error { _, err := s.Commit(ctx, txn(store.Put("", nil))); return err }, store.ErrInvalid},
		"commit: long key":         {func() error { _, err := s.Commit(ctx, txn(store.Put(long, nil))); return err }, store.ErrTooLarge},
		"commit: large value":      {func() error { _, err := s.Commit(ctx, txn(store.Put("a", make([]byte, limits.Value+1)))); return err }, store.ErrTooLarge},
		"commit: many operations":  {func() error { _, err := s.Commit(ctx, store.Txn{Do: many}); return err }, store.ErrTooLarge},
		"commit: twice one key":    {func() error { _, err := s.Commit(ctx, txn(store.Put("a", nil), store.Delete("a"))); return err }, store.ErrInvalid},
		"commit: zero condition":   {func() error { _, err := s.Commit(ctx, store.Txn{If: []store.Condition{{Key: "a"}}}); return err }, store.ErrInvalid},
		"watch: ended":             {func() error { return firstError(ended, s, "", store.Position{}) }, errEnough},
		"watch: huge prefix":       {func() error { return firstError(ctx, s, huge, store.Position{}) }, store.ErrTooLarge},
		"watch: negative revision": {func() error { return firstError(ctx, s, "", store.Position{Revision: -1}) }, store.ErrInvalid},
		"watch: ahead":             {func() error { return firstError(ctx, s, "", store.Position{Revision: ahead}) }, store.ErrFuture},
		"watch: another epoch":     {func() error { return firstError(ctx, s, "", store.Position{Epoch: "x", Revision: 1}) }, store.ErrGone},
		"compact: ended":           {func() error { return s.Compact(ended, 1) }, errEnough},
		"compact: negative":        {func() error { return s.Compact(ctx, -1) }, store.ErrInvalid},
		"compact: ahead":           {func() error { return s.Compact(ctx, ahead) }, store.ErrFuture},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call()
			require.ErrorIs(t, err, c.want)
			require.Less(t, len(err.Error()), 2000, "a large key is cut in errors")
			var e *store.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, name[:strings.IndexByte(name, ':')], e.Op)
		})
	}
	require.Equal(t, before, now(t, s))
	require.NoError(t, s.Compact(t.Context(), 0), "there is nothing before the beginning")
}

func firstError(ctx context.Context, s store.Store, prefix string, after store.Position) error {
	for _, err := range s.Watch(ctx, prefix, after) {
		return err
	}
	return nil
}

// The limits follow the options. A transaction within them fits into a request; a larger one is
// refused with the numbers.
func TestLimits(t *testing.T) {
	s := openNew(t, nil)
	l := s.Limits()
	require.Equal(t, store.Limits{Key: 2 << 10, Value: 1 << 20, Operations: 128, Bytes: 9 << 17}, l)

	var largest store.Txn
	left := l.Bytes
	for i := range l.Operations {
		key := fmt.Sprintf("%03d%s", i, strings.Repeat("k", 61))
		largest.If = append(largest.If, store.Absent(key))
		value := make([]byte, min(max(0, left-len(key)), l.Bytes/l.Operations-len(key)))
		largest.Do = append(largest.Do, store.Put(key, value))
		left -= len(key) + len(value)
	}
	_, err := s.Commit(t.Context(), largest)
	require.NoError(t, err)

	var tooMuch store.Txn
	for i := range l.Operations {
		tooMuch.If = append(tooMuch.If, store.Absent(fmt.Sprintf("%03d%s", i, strings.Repeat("k", l.Key-3))))
	}
	tooMuch.Do = []store.Operation{store.Put("a", make([]byte, l.Value))}
	_, err = s.Commit(t.Context(), tooMuch)
	require.ErrorIs(t, err, store.ErrTooLarge)
	require.ErrorContains(t, err, fmt.Sprint(3<<19))

	more := openAt(t, newPrefix(), &Options{Operations: 500, RequestBytes: 6 << 20}, theServer(t).URL)
	require.Equal(t, store.Limits{Key: 2 << 10, Value: 4 << 20, Operations: 500, Bytes: 9 << 19}, more.Limits())

	// The limit of the server is lower, so the server refuses the transaction, and nothing
	// happens.
	many := make([]store.Operation, 200)
	for i := range many {
		many[i] = store.Put(fmt.Sprint(i), nil)
	}
	before := now(t, more)
	for _, txn := range []store.Txn{{Do: many}, {Do: []store.Operation{store.Put("a", make([]byte, 1700<<10))}}, {Do: []store.Operation{store.Put("a", make([]byte, 3<<20))}}} {
		_, err = more.Commit(t.Context(), txn)
		require.ErrorIs(t, err, store.ErrTooLarge)
		require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	}
	require.Equal(t, before, now(t, more))
}

func TestSmallRequests(t *testing.T) {
	o := &Options{RequestBytes: leastRequestBytes}
	s := openNew(t, o)
	l := s.Limits()
	require.Positive(t, l.Key)
	_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(strings.Repeat("k", l.Key), make([]byte, l.Value))}})
	require.NoError(t, err)
}

// A listing without a limit is read in chunks of one snapshot.
func TestListInChunks(t *testing.T) {
	s := openNew(t, nil)
	const entries = 2*chunk + 7
	fill(t, s, "k/", entries, 10)
	for limit, want := range map[int]int{0: entries, chunk: chunk, chunk + 1: chunk + 1, 2 * chunk: 2 * chunk, entries: entries, entries + 1: entries} {
		p, err := s.List(t.Context(), store.Query{Prefix: "k/", Limit: limit})
		require.NoError(t, err)
		require.Len(t, p.Entries, want, "limit %d", limit)
		require.Equal(t, want < entries, p.More, "limit %d", limit)
		for i, e := range p.Entries {
			require.Equal(t, fmt.Sprintf("k/%08d", i), e.Key)
		}
	}
}

// fill puts entries below prefix, each of size bytes.
func fill(tb testing.TB, s store.Store, prefix string, entries, size int) {
	tb.Helper()
	value := make([]byte, size)
	for i := 0; i < entries; {
		var txn store.Txn
		for ; i < entries && len(txn.Do) < 128; i++ {
			txn.Do = append(txn.Do, store.Put(fmt.Sprintf("%s%08d", prefix, i), value))
		}
		_, err := s.Commit(tb.Context(), txn)
		require.NoError(tb, err)
	}
}
