package command

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress writes a line to w every two seconds, until stop is called or ctx ends. The
// line is what say returns then.
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
