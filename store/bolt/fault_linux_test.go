package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// A file that is truncated while it is open loses its mapped pages: the process survives the
// memory fault, and calls that need these pages fail.
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
