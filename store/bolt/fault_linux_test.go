package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// A file that is cut while it is open takes its pages out of memory: the process
// survives the fault, and calls that need them are refused.
func TestTruncatedWhileOpen(t *testing.T) {
	for name, pages := range map[string]int64{"all": 0, "all but the meta pages": 2, "half": 16} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s := openAt(t, path, nil)
			for i := range 40 {
				put(t, s, strings.Repeat("k", i+1), strings.Repeat("v", 4000))
			}
			require.NoError(t, os.Truncate(path, pages*int64(os.Getpagesize())))
			failed := 0
			for range 3 {
				for i := range 40 {
					e, err := s.Get(t.Context(), strings.Repeat("k", i+1))
					if err != nil {
						require.ErrorIs(t, err, ErrCorrupt)
						failed++
						continue
					}
					require.Len(t, e.Value, 4000)
				}
				_, err := s.List(t.Context(), store.Query{})
				require.ErrorIs(t, err, ErrCorrupt)
			}
			require.Positive(t, failed)
			if err := s.Close(); err != nil {
				require.True(t, errors.Is(err, ErrCorrupt), "Close: %v", err)
			}
		})
	}
}

// A file that is cut below its meta pages makes the engine fail while it begins a
// transaction, with its locks held: no other call may wait for them.
func TestTruncatedUnderLoad(t *testing.T) {
	const readers, rounds = 8, 10
	for range rounds {
		path := filepath.Join(t.TempDir(), "store.db")
		s := openAt(t, path, nil)
		for i := range 2 * readers { // in pages of their own, which the writer leaves alone
			put(t, s, fmt.Sprintf("k%02d", i), strings.Repeat("v", 3000))
		}
		var reading, begun sync.WaitGroup
		begun.Add(readers)
		for i := range readers {
			reading.Go(func() {
				_, err := s.Get(t.Context(), fmt.Sprintf("k%02d", i))
				for begun.Done(); err == nil; {
					_, err = s.Get(t.Context(), fmt.Sprintf("k%02d", i))
				}
				assert.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, store.ErrClosed), "%v", err)
			})
		}
		begun.Wait()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("other", []byte("v"))}})
				select {
				case <-stop:
					return
				default:
					if err != nil {
						return
					}
				}
			}
		}()
		require.NoError(t, os.Truncate(path, 0))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			reading.Wait()
			close(stop)
			<-stopped
			_ = s.Close()
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			require.FailNow(t, "a call does not return")
		}
	}
}
