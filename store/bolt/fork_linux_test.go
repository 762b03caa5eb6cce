package bolt

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A host that starts processes all the time can open a file. Between fork and exec, each child has
// the open files of the host, and so the lock of the probe.
func TestOpenWhileTheHostForks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var forking sync.WaitGroup
	defer forking.Wait()
	defer cancel()
	for range 4 {
		forking.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for range 200 {
		s, err := Open(path, nil)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}
