package bolt_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// backend is a store in a new file with a short history.
func backend(tb testing.TB) storetest.Backend {
	path := filepath.Join(tb.TempDir(), "store.db")
	options := bolt.Options{Retain: 256}
	latest, err := bolt.Open(path, &options)
	if err != nil {
		tb.Fatal(err)
	}
	again := func(options bolt.Options) (store.Store, error) {
		if err := latest.Close(); err != nil {
			return nil, err
		}
		s, err := bolt.Open(path, &options)
		if err != nil {
			return nil, err
		}
		latest = s
		return s, nil
	}
	return storetest.Backend{
		Store:    latest,
		Limits:   latest.Limits(),
		Compacts: true,
		Counts:   true,
		Slow:     true, // every commit is synced
		History:  576,  // Retain and the changes that gather beyond it
		// One process holds the file, so there is no second handle (see TestOpenInUse).
		// A crash is more than Close: see TestKill.
		Reopen: func(context.Context) (store.Store, error) { return again(options) },
		Deep: func(context.Context) (store.Store, error) {
			return bolt.Open(filepath.Join(tb.TempDir(), "deep.db"), nil)
		},
		NewEpoch: func(context.Context) (store.Store, error) {
			return again(bolt.Options{Retain: options.Retain, NewEpoch: true})
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel() // it waits for the disk most of the time
	storetest.Run(t, backend)
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, backend) }
