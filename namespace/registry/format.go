package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/store"
)

// storedFormat is the format of the data below a prefix: the layout of keys and the encoding
// of values. A change that another build would misread needs a new format.
const storedFormat = "1"

// ErrFormat is returned by the methods of a registry if another build has stored data in a
// format that this build does not read. Run a build that reads the format, or choose another
// [Options].Prefix.
var ErrFormat = errors.New("unsupported format of stored data")

// formatStore checks the recorded format before its first call, and records the format in the
// transaction of the first write. It adds one read for each process and no commit.
//
//	recorded format   read      write
//	absent            allowed   adds the record to the transaction, if it is still absent
//	supported         allowed   allowed
//	any other         ErrFormat ErrFormat
//
// If several processes open an empty store at once, the first write decides the format. A
// later first write of another process conflicts with the record, and checks it then.
type formatStore struct {
	store.Store
	key   string
	state atomic.Uint32
}

const (
	formatUnknown = iota
	formatAbsent
	formatSupported
)

// check reads the recorded format once. It stays unknown if the read fails.
func (s *formatStore) check(ctx context.Context) error {
	if s.state.Load() != formatUnknown {
		return nil
	}
	record, err := s.Store.Get(ctx, s.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.state.CompareAndSwap(formatUnknown, formatAbsent)
		return nil
	case err != nil:
		return err
	}
	return s.found(record)
}

// found checks the record.
func (s *formatStore) found(record store.Entry) error {
	if string(record.Value) != storedFormat {
		s.state.Store(formatUnknown)
		return fmt.Errorf("%w: %q says format %.40q, this build reads format %q: run a build that reads it, or use another prefix",
			ErrFormat, s.key, record.Value, storedFormat)
	}
	s.state.Store(formatSupported)
	return nil
}

func (s *formatStore) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := s.check(ctx); err != nil {
		return store.Entry{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *formatStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.check(ctx); err != nil {
		return store.Page{}, err
	}
	return s.Store.List(ctx, q)
}

func (s *formatStore) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if err := s.check(ctx); err != nil {
			yield(store.Change{}, err)
			return
		}
		s.Store.Watch(ctx, prefix, after)(yield)
	}
}

func (s *formatStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	if s.state.Load() == formatSupported || len(txn.Do) == 0 {
		return s.Store.Commit(ctx, txn)
	}
	first := store.Txn{ // the conditions of txn come first, so that their conflicts are reported
		If: append(slices.Clone(txn.If), store.Absent(s.key)),
		Do: append(slices.Clone(txn.Do), store.Put(s.key, []byte(storedFormat))),
	}
	revision, err := s.Store.Commit(ctx, first)
	var conflict *store.ConflictError
	switch {
	case err == nil:
		s.state.Store(formatSupported)
	case errors.As(err, &conflict) && conflict.Condition.Key == s.key && conflict.Current != nil:
		if err := s.found(*conflict.Current); err != nil {
			return 0, err
		}
		return s.Store.Commit(ctx, txn)
	}
	return revision, err
}
