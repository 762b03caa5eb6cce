package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// timeline prints what happens, with the time since it began. Safe for
// concurrent use.
type timeline struct {
	start time.Time

	mu sync.Mutex
	w  io.Writer
}

func newTimeline(w io.Writer) *timeline { return &timeline{start: time.Now(), w: w} }

func (t *timeline) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%7.1f ms  %s\n", float64(time.Since(t.start).Microseconds())/1000, fmt.Sprintf(format, args...))
}

// state prints where the namespace is in its life.
func (t *timeline) state(what string, ns namespace.Namespace) {
	t.line("namespace %q %s: %s, finalizers %q", ns.Name, what, ns.Phase(), ns.Spec.Finalizers.Names())
}

// pass prints what one pass of a party did, unless that was nothing.
func (t *timeline) pass(party finalizer.Name, result pass.Result, err error) {
	var did []string
	for _, r := range result.Report.Results {
		if r.Deleted <= 0 {
			continue
		}
		did = append(did, fmt.Sprintf("%d %v", r.Deleted, r.Resource))
		for _, h := range r.Holders {
			did = append(did, fmt.Sprintf("%d of them held by %s", h.Objects, h.Finalizer))
		}
	}
	switch {
	case err != nil:
		t.line("%s: pass failed: %v", party, err)
	case len(did) > 0:
		t.line("%s: deleted %s", party, strings.Join(did, ", "))
	}
	if result.Outcome == pass.Finalized || result.Outcome == pass.Removed {
		t.line("%s: nothing is left, finalizer removed", party)
	}
}
