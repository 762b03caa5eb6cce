package watch_test

import (
	"context"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// handle is a second handle on a store. Closing it leaves the store open.
type handle struct{ *logStore }

func (handle) Close() error { return nil }

// The driver of the example passes the suite, which skips cases for missing capabilities: limits,
// counting, and surviving a crash or a restore.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		s := openLog("test", 1024)
		return storetest.Backend{
			Store:    s,
			Compacts: true,
			History:  1024,
			Second:   func(context.Context) (store.Store, error) { return handle{s}, nil },
			Deep:     func(context.Context) (store.Store, error) { return openLog("deep", 30_000), nil },
		}
	})
}
