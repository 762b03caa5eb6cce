package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// timeline prints what happens, with the time since it began. Safe for concurrent
// use.
type timeline struct {
	start time.Time

	mu sync.Mutex
	w  io.Writer
}

func newTimeline(w io.Writer) *timeline { return &timeline{start: time.Now(), w: w} }

func (t *timeline) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%6.2f s  %s\n", time.Since(t.start).Seconds(), fmt.Sprintf(format, args...))
}
