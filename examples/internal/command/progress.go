package command

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress calls say every two seconds and writes the result as a line to w, until stop is
// called or ctx ends.
func Progress(ctx context.Context, w io.Writer, say func() string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(2 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintln(w, say())
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
