package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

var errEnough = errors.New("enough")

// Bad input is a typed error and changes nothing.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	for name, opts := range map[string]*Options{
		"negative wait":   {Wait: -1},
		"negative retain": {Retain: -1},
		"a mode of types": {Mode: os.ModeDir | 0o600},
	} {
		path := filepath.Join(dir, name)
		_, err := Open(path, opts)
		require.ErrorIs(t, err, store.ErrInvalid, name)
		require.NoFileExists(t, path)
	}
	_, err := Open("", nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = Open("a\x00b", nil)
	require.Error(t, err)

	s := openNew(t, nil)
	before := listAt(t, s, store.Position{})
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	long := strings.Repeat("k", limits.Key+1)
	txn := func(ops ...store.Operation) store.Txn { return store.Txn{Do: ops} }
	many := make([]store.Operation, limits.Operations+1)
	ctx, ok := t.Context(), txn(store.Put("a", nil))
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
		"list: negative revision": {func() error { _, err := s.List(ctx, store.Query{At: store.Position{Revision: -1}}); return err }, store.ErrInvalid},
		"list: ahead":             {func() error { _, err := s.List(ctx, store.Query{At: store.Position{Revision: 99}}); return err }, store.ErrFuture},
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
		"watch: ended":             {func() error { return firstError(s, ended, store.Position{}) }, errEnough},
		"watch: negative revision": {func() error { return firstError(s, ctx, store.Position{Revision: -1}) }, store.ErrInvalid},
		"watch: ahead":             {func() error { return firstError(s, ctx, store.Position{Revision: 99}) }, store.ErrFuture},
		"watch: another epoch":     {func() error { return firstError(s, ctx, store.Position{Epoch: "x", Revision: 1}) }, store.ErrGone},
		"compact: ended":           {func() error { return s.Compact(ended, 1) }, errEnough},
		"compact: negative":        {func() error { return s.Compact(ctx, -1) }, store.ErrInvalid},
		"compact: ahead":           {func() error { return s.Compact(ctx, 99) }, store.ErrFuture},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call()
			require.ErrorIs(t, err, c.want)
			var e *store.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, name[:strings.IndexByte(name, ':')], e.Op)
		})
	}
	require.Equal(t, before, listAt(t, s, store.Position{}))
}

func firstError(s store.Store, ctx context.Context, after store.Position) error {
	for _, err := range s.Watch(ctx, "", after) {
		return err
	}
	return nil
}

// Transactions at the limits are accepted.
func TestLargestTransactions(t *testing.T) {
	s := openNew(t, nil)
	key := strings.Repeat("\x00", limits.Key)
	for _, ops := range [][]store.Operation{
		{store.Put(key, make([]byte, limits.Value))},
		{store.Put(key, nil)}, // moves the large value to the history
		{store.Delete(key)},
	} {
		commit(t, s, ops...)
	}
	many := make([]store.Operation, limits.Operations)
	for i := range many {
		many[i] = store.Put(strings.Repeat("k", i+1)[:min(i+1, 40)]+string(rune('0'+i)), nil)
	}
	commit(t, s, many...)
	require.Len(t, listAt(t, s, store.Position{}).Entries, len(many))
	checkFile(t, s)
}

// Commit copies the transaction: the caller may reuse its slices after any result.
func TestCommitCopies(t *testing.T) {
	s := openNew(t, nil)
	value := []byte("before")
	commit(t, s, store.Put("a", value))
	copy(value, "after!")
	e, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "before", string(e.Value))
}

// A queued transaction is withdrawn when its context ends. The committer finishes a transaction
// that it has taken.
func TestContextEndsMeanwhile(t *testing.T) {
	s := openNew(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	release := stall(t, s)
	commit := func(key string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(key, nil)}})
			done <- err
		}()
		return done
	}
	taken := enqueue(t, s, store.Txn{Do: []store.Operation{store.Put("taken", nil)}})
	waitTaken(t, s)
	waiting := commit("waiting")
	cancel(errEnough)
	err := <-waiting
	require.ErrorIs(t, err, errEnough)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	release()
	_, err = taken.Wait()
	require.NoError(t, err)
	_, err = s.Get(t.Context(), "taken")
	require.NoError(t, err)
	put(t, s, "next", "")
	_, err = s.Get(t.Context(), "waiting")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// impatient is a context that ends after a number of calls of Err.
type impatient struct {
	context.Context
	looks int
}

func (c *impatient) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A long listing checks its context repeatedly, even where it skips entries.
func TestLongListingEnds(t *testing.T) {
	s := openNew(t, nil)
	put(t, s, "first", "")
	old := listAt(t, s, store.Position{}).Position
	many := make([]store.Operation, 5000)
	for i := range many {
		many[i] = store.Put(fmt.Sprint(i), nil)
	}
	commit(t, s, many...)
	for _, at := range []store.Position{{}, old} {
		_, err := s.List(&impatient{t.Context(), 2}, store.Query{At: at})
		require.ErrorIs(t, err, context.Canceled)
		page, err := s.List(&impatient{t.Context(), 10}, store.Query{At: at})
		require.NoError(t, err)
		require.NotEmpty(t, page.Entries)
	}
}

// Close waits for the commit in progress, refuses the requests in the queue, ends watches, and
// refuses later calls.
func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openAt(t, path, nil)
	watching, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for _, err := range s.Watch(context.Background(), "", store.Position{}) {
			if err != nil {
				ended <- err
				return
			}
			close(watching)
		}
	}()
	<-watching
	release := stall(t, s)
	running := enqueue(t, s, store.Txn{Do: []store.Operation{store.Put("running", nil)}})
	waitTaken(t, s)
	waiting := enqueue(t, s, store.Txn{Do: []store.Operation{store.Put("waiting", nil)}})
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- s.Close() }()
	}
	_, err := waiting.Wait()
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, <-ended, store.ErrClosed)
	release()
	_, err = running.Wait()
	require.NoError(t, err)
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
	require.NoError(t, s.Close())

	ctx := t.Context()
	_, err = s.Get(ctx, "running")
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.List(ctx, store.Query{})
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("a", nil)}})
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, s.Compact(ctx, 0), store.ErrClosed)
	require.ErrorIs(t, s.Compact(ctx, 1), store.ErrClosed)
	require.ErrorIs(t, firstError(s, ctx, store.Position{}), store.ErrClosed)

	s = openAt(t, path, nil)
	require.Len(t, listAt(t, s, store.Position{}).Entries, 1)
}

// A second Close returns nil, also when the first one failed.
func TestCloseFails(t *testing.T) {
	s, f, path := openFaulty(t)
	require.NoError(t, f.latest.Close())
	err := s.Close()
	var e *store.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []string{"close", path}, []string{e.Op, e.Key})
	require.NoError(t, s.Close())
}

// A loop over a watch may close the store.
func TestCloseInsideWatch(t *testing.T) {
	s := openNew(t, nil)
	var last error
	for _, err := range s.Watch(t.Context(), "", store.Position{}) {
		if last = err; err == nil {
			require.NoError(t, s.Close())
		}
	}
	require.ErrorIs(t, last, store.ErrClosed)
}
