package debug

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// ages caches when namespaces became Terminating. That never changes (rule R3), but is only
// known after reading the namespace. The cache holds the namespaces of the last index.
type ages struct {
	mu    sync.Mutex
	since map[namespace.Ref]time.Time
}

// aged is a namespace and when it became Terminating.
type aged struct {
	namespace.Ref
	since time.Time
}

// oldest returns the terminating namespaces among refs, the oldest first, and how many it
// has not read yet because one index reads at most maxAged.
func (h *Handler) oldest(ctx context.Context, x *index, refs []namespace.Ref) (found []aged, unread int) {
	known := h.ages.of(refs)
	var missing []namespace.Ref
	for _, r := range refs {
		if since, ok := known[r]; ok {
			found = append(found, aged{r, since})
		} else {
			missing = append(missing, r)
		}
	}
	if unread = max(0, len(missing)-maxAged); unread > 0 {
		missing = missing[:maxAged]
	}
	read := make([]aged, len(missing))
	failed := make([]error, len(missing))
	each(len(missing), func(i int) { read[i], failed[i] = h.age(ctx, missing[i]) })
	failures := 0
	for i, a := range read {
		switch {
		case failed[i] != nil:
			if failures++; failures == 1 {
				x.note("the age of %s could not be read: %v", quoted(missing[i].Name), failed[i])
			}
		case !a.since.IsZero():
			known[a.Ref] = a.since
			found = append(found, a)
		}
	}
	if failures > 1 {
		x.note("the ages of %d others could not be read either", failures-1)
	}
	h.ages.keep(known)
	slices.SortFunc(found, func(a, b aged) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.Name, b.Name))
	})
	return found, unread
}

// age reads when a namespace became Terminating; zero: the incarnation is gone.
func (h *Handler) age(ctx context.Context, r namespace.Ref) (aged, error) {
	if err := context.Cause(ctx); err != nil {
		return aged{}, err
	}
	var ns namespace.Namespace
	err := safely(func() (err error) {
		ns, err = h.namespaces.Get(ctx, r.Name)
		return err
	})
	switch {
	case errors.Is(err, namespace.ErrNotFound), err == nil && (ns.Phase() != phase.Terminating || ns.UID != r.UID):
		return aged{}, nil
	case err != nil:
		return aged{}, err
	}
	return aged{r, ns.DeletionTimestamp.Time}, nil
}

// of returns the known ages of refs.
func (a *ages) of(refs []namespace.Ref) map[namespace.Ref]time.Time {
	a.mu.Lock()
	known := a.since // replaced, never modified
	a.mu.Unlock()
	listed := make(map[namespace.Ref]time.Time, len(refs))
	for _, r := range refs {
		if since, ok := known[r]; ok {
			listed[r] = since
		}
	}
	return listed
}

// keep replaces the cache.
func (a *ages) keep(known map[namespace.Ref]time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = known
}
