package registry

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// Count returns how many namespaces are Active and how many are Terminating, both as
// of one revision. It reads no namespace: gates and the index are counted, by the store
// itself if it can ([store.Counter]), else by listing their keys. Counting is not free:
// most stores go through every key, so its cost grows with the number of namespaces, and
// who asks often keeps the answer for a while.
func (r *Registry) Count(ctx context.Context) (active, terminating int, err error) {
	now, err := r.store.List(ctx, store.Query{Prefix: r.keys.index(), Limit: 1})
	if err != nil {
		return 0, 0, stored(namespace.Resource, "", err)
	}
	if active, err = r.count(ctx, store.Query{Prefix: r.keys.gate(""), At: now.Position}); err != nil {
		return 0, 0, err
	}
	if !now.More {
		return active, len(now.Entries), nil
	}
	if terminating, err = r.count(ctx, store.Query{Prefix: r.keys.index(), At: now.Position}); err != nil {
		return 0, 0, err
	}
	return active, terminating, nil
}

func (c *core) count(ctx context.Context, q store.Query) (int, error) {
	if counter, ok := c.store.(store.Counter); ok {
		n, err := counter.Count(ctx, q)
		if err != nil {
			return 0, stored(namespace.Resource, "", err)
		}
		return n, nil
	}
	q.Limit = chunk
	for n := 0; ; {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return 0, stored(namespace.Resource, "", err)
		}
		n += len(page.Entries)
		if !page.More || len(page.Entries) == 0 {
			return n, nil
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
}
