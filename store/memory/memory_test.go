package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

func TestConformance(t *testing.T) {
	const history = 256
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		s := open(t, &memory.Options{Retain: history, Watch: watch.Options{Queue: 16, Bookmarks: 100 * time.Millisecond}})
		return storetest.Backend{Store: s, Limits: s.Limits(), Compacts: true, Counts: true, History: history}
	})
}

func TestConformanceWithDefaults(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		s := open(t, nil)
		return storetest.Backend{Store: s, Limits: s.Limits(), Compacts: true, Counts: true}
	})
}

func TestBadOptions(t *testing.T) {
	for name, options := range map[string]memory.Options{
		"Retain":            {Retain: -1},
		"RetainBytes":       {RetainBytes: -1},
		"Limits.Key":        {Limits: store.Limits{Key: -1}},
		"Limits.Value":      {Limits: store.Limits{Value: -1}},
		"Limits.Operations": {Limits: store.Limits{Operations: -1}},
		"Limits.Bytes":      {Limits: store.Limits{Bytes: -1}},
		"Watch.Queue":       {Watch: watch.Options{Queue: -1}},
		"Watch.QueueBytes":  {Watch: watch.Options{QueueBytes: -1}},
		"Watch.Bookmarks":   {Watch: watch.Options{Bookmarks: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := memory.New(&options)
			require.Nil(t, s)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, name)
		})
	}
}

// TestBadInput calls every method with bad input. It is refused with a typed error and changes
// nothing.
func TestBadInput(t *testing.T) {
	cause := errors.New("no longer wanted")
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	put := store.Txn{Do: []store.Operation{store.Put("new", nil)}}
	commit := func(ctx context.Context, txn store.Txn) func(*memory.Store) error {
		return func(s *memory.Store) error { _, err := s.Commit(ctx, txn); return err }
	}
	get := func(ctx context.Context, key string) func(*memory.Store) error {
		return func(s *memory.Store) error { _, err := s.Get(ctx, key); return err }
	}
	list := func(ctx context.Context, q store.Query) func(*memory.Store) error {
		return func(s *memory.Store) error { _, err := s.List(ctx, q); return err }
	}
	watch := func(ctx context.Context, after store.Position) func(*memory.Store) error {
		return func(s *memory.Store) error {
			for _, err := range s.Watch(ctx, "", after) {
				return err
			}
			return nil
		}
	}
	compact := func(ctx context.Context, revision store.Revision) func(*memory.Store) error {
		return func(s *memory.Store) error { return s.Compact(ctx, revision) }
	}
	at := func(epoch string, revision store.Revision) store.Position {
		return store.Position{Epoch: epoch, Revision: revision}
	}
	ctx := context.Background()
	for _, test := range []struct {
		name string
		call func(*memory.Store) error
		want error
	}{
		{"get with an ended context", get(ended, "key"), cause},
		{"get of no key", get(ctx, ""), store.ErrInvalid},
		{"get of a long key", get(ctx, "12345678901"), store.ErrTooLarge},
		{"list with an ended context", list(ended, store.Query{}), cause},
		{"list of less than nothing", list(ctx, store.Query{Limit: -1}), store.ErrInvalid},
		{"list at a negative revision", list(ctx, store.Query{At: at("", -1)}), store.ErrInvalid},
		{"list at another epoch", list(ctx, store.Query{At: at("other", 1)}), store.ErrGone},
		{"list ahead", list(ctx, store.Query{At: at("", 3)}), store.ErrFuture},
		{"list at a compacted revision", list(ctx, store.Query{At: at("epoch", 0)}), store.ErrGone},
		{"commit with an ended context", commit(ended, put), cause},
		{"commit of no key", commit(ctx, store.Txn{Do: []store.Operation{{}}}), store.ErrInvalid},
		{"commit of no condition", commit(ctx, store.Txn{If: []store.Condition{{Key: "key"}}, Do: put.Do}), store.ErrInvalid},
		{"commit of a large value", commit(ctx, store.Txn{Do: []store.Operation{store.Put("new", make([]byte, 21))}}), store.ErrTooLarge},
		{"commit of many bytes", commit(ctx, store.Txn{Do: []store.Operation{store.Put("new", make([]byte, 19)), store.Put("newer", make([]byte, 19))}}), store.ErrTooLarge},
		{"commit of many operations", commit(ctx, store.Txn{Do: make([]store.Operation, 3)}), store.ErrTooLarge},
		{"watch with an ended context", watch(ended, store.Position{}), cause},
		{"watch ahead", watch(ctx, at("", 3)), store.ErrFuture},
		{"watch at another epoch", watch(ctx, at("other", 2)), store.ErrGone},
		{"watch at a compacted revision", watch(ctx, at("epoch", 0)), store.ErrGone},
		{"compact with an ended context", compact(ended, 2), cause},
		{"compact to less than nothing", compact(ctx, -1), store.ErrInvalid},
		{"compact ahead", compact(ctx, 3), store.ErrFuture},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, &memory.Options{Epoch: "epoch", Limits: store.Limits{Key: 10, Value: 20, Operations: 2, Bytes: 40}})
			commitPut(t, s, "key", "1")
			commitPut(t, s, "key", "2")
			require.NoError(t, s.Compact(ctx, 1))
			err := test.call(s)
			require.ErrorIs(t, err, test.want)
			var e *store.Error
			require.ErrorAs(t, err, &e)
			page, err := s.List(ctx, store.Query{})
			require.NoError(t, err)
			require.Equal(t, store.Page{
				Entries:  []store.Entry{{Key: "key", Value: []byte("2"), Revision: 2}},
				Position: at("epoch", 2),
			}, page)
			_, err = s.List(ctx, store.Query{At: at("epoch", 1)})
			require.NoError(t, err, "nothing was compacted")
		})
	}
}

func commitPut(tb testing.TB, s store.Store, key, value string) {
	commit(tb, s, store.Put(key, []byte(value)))
}

func TestClosed(t *testing.T) {
	s := open(t, nil)
	commitPut(t, s, "key", "value")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	ctx := context.Background()
	_, err := s.Get(ctx, "key")
	require.ErrorIs(t, err, store.ErrClosed)
	for _, at := range []store.Revision{0, 1, 2} {
		_, err = s.List(ctx, store.Query{At: store.Position{Revision: at}})
		require.ErrorIs(t, err, store.ErrClosed)
		for _, err := range s.Watch(ctx, "", store.Position{Revision: at}) {
			require.ErrorIs(t, err, store.ErrClosed)
		}
	}
	_, err = s.Commit(ctx, store.Txn{})
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, s.Compact(ctx, 1), store.ErrClosed)
}

// Two stores have different histories, unless Options.Epoch makes them equal.
func TestEpoch(t *testing.T) {
	epoch := func(o *memory.Options) string {
		page, err := open(t, o).List(context.Background(), store.Query{})
		require.NoError(t, err)
		return page.Position.Epoch
	}
	require.NotEmpty(t, epoch(nil))
	require.NotEqual(t, epoch(nil), epoch(nil))
	require.Equal(t, "chosen", epoch(&memory.Options{Epoch: "chosen"}))
}

// A caller cannot change the store through values that it received.
func TestNothingIsAliased(t *testing.T) {
	ctx := context.Background()
	s := open(t, nil)
	value := []byte("value")
	commit(t, s, store.Put("key", value))
	value[0] = 'V'
	_, err := s.Commit(ctx, store.Txn{If: []store.Condition{store.Absent("key")}})
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	*conflict.Current = store.Entry{}
	page, err := s.List(ctx, store.Query{})
	require.NoError(t, err)
	page.Entries[0].Key = "other"
	got, err := s.Get(ctx, "key")
	require.NoError(t, err)
	require.Equal(t, store.Entry{Key: "key", Value: []byte("value"), Revision: 1}, got)
}

// In virtual time, an idle store lets time advance, and its bookmarks follow the virtual clock.
func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		began := time.Now()
		go func() {
			time.Sleep(time.Hour)
			commitPut(t, s, "other", "")
			time.Sleep(time.Hour)
			s.Close()
		}()
		var after []time.Duration
		for c, err := range s.Watch(t.Context(), "key", store.Position{}) {
			require.True(t, c.Bookmark())
			after = append(after, time.Since(began))
			if err != nil {
				require.ErrorIs(t, err, store.ErrClosed)
			}
		}
		require.Equal(t, []time.Duration{0, time.Hour + time.Second, 2 * time.Hour}, after)
	})
}
