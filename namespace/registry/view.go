package registry

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/store"
)

// View implements [deleter.Viewer]. The namespace and all pages are of one snapshot:
// another incarnation of the name is refused (rule R8), whatever its phase.
func (s source) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := target.ValidateView(); err != nil {
		return deleter.Page{}, err
	}
	if err := s.checkPlace(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	q, err := s.query(target, limit, next)
	if err != nil {
		return deleter.Page{}, err
	}
	key := s.keys.namespace(target.Namespace)
	fence, err := s.store.List(ctx, store.Query{Prefix: key, Limit: 1, At: q.At})
	if err != nil {
		return deleter.Page{}, s.listError(err)
	}
	if len(fence.Entries) == 0 || fence.Entries[0].Key != key {
		return deleter.Page{}, noIncarnation(target)
	}
	h, err := decodeHeader(fence.Entries[0].Value)
	switch {
	case err != nil:
		return deleter.Page{}, corrupt(fence.Entries[0], err)
	case h.UID != target.UID:
		return deleter.Page{}, noIncarnation(target)
	}
	return s.list(ctx, q, fence.Position)
}

func noIncarnation(target deleter.Target) error {
	return fmt.Errorf("%w: there is no %s with uid %q", deleter.ErrIncarnation, target.Namespace, target.UID)
}
