package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// ages remembers since when namespaces are terminating: that never changes (rule R3),
// and is known of a namespace only after it was read. It knows no more namespaces than
// one index lists.
type ages struct {
	mu    sync.Mutex
	since map[ref]time.Time
}

// aged is a namespace with its age.
type aged struct {
	ref
	since time.Time
}

// oldest returns those of refs that are terminating, the oldest first, and how many of
// them were not read since that would have been too many.
func (h *Handler) oldest(ctx context.Context, x *index, refs []ref) (found []aged, unread int) {
	known := h.ages.of(refs)
	var missing []ref
	for _, r := range refs {
		if since, ok := known[r]; ok {
			found = append(found, aged{r, since})
		} else {
			missing = append(missing, r)
		}
	}
	if unread = max(0, len(missing)-mostAged); unread > 0 {
		missing = missing[:mostAged]
	}
	read := make([]aged, len(missing))
	failed := make([]error, len(missing))
	each(len(missing), func(i int) { read[i], failed[i] = h.age(ctx, missing[i]) })
	failures := 0
	for i, a := range read {
		switch {
		case failed[i] != nil:
			if failures++; failures == 1 {
				x.note("the age of %s could not be read: %v", quoted(missing[i].name), failed[i])
			}
		case !a.since.IsZero():
			known[missing[i]] = a.since
			found = append(found, a)
		}
	}
	if failures > 1 {
		x.note("nor could those of %d others", failures-1)
	}
	h.ages.keep(known)
	slices.SortFunc(found, func(a, b aged) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.name, b.name))
	})
	return found, unread
}

// age reads since when a namespace is terminating; zero: it no longer is.
func (h *Handler) age(ctx context.Context, r ref) (aged, error) {
	if err := context.Cause(ctx); err != nil {
		return aged{}, err
	}
	var ns namespace.Namespace
	err := safely(func() (err error) {
		ns, err = h.namespaces.Get(ctx, r.name)
		return err
	})
	switch {
	case errors.Is(err, namespace.ErrNotFound), err == nil && ns.Phase() != phase.Terminating, err == nil && ns.UID != r.uid:
		return aged{}, nil
	case err != nil:
		return aged{}, err
	}
	return aged{r, ns.DeletionTimestamp.Time}, nil
}

// of returns what is known of refs.
func (a *ages) of(refs []ref) map[ref]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := make(map[ref]time.Time, len(refs))
	for _, r := range refs {
		if since, ok := a.since[r]; ok {
			known[r] = since
		}
	}
	return known
}

// keep forgets everything but known.
func (a *ages) keep(known map[ref]time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = known
}

// each calls f for 0 to n-1, several at once, and returns when all have returned.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(n, mostParallel) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// safely calls f, which calls what the host gave, and makes an error of its panic: one
// page fails, not the process.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %v", v)
		}
	}()
	return f()
}
