package registry

import (
	"context"
	"errors"

	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/store"
)

// resumption is how a watch goes on for a client that knows versions of objects
// only. Several objects that one commit wrote have the same one, so who has seen
// one of them may not have seen the others: that commit comes again.
type resumption struct {
	at store.Revision // zero: nothing is to be looked at any more
}

// resume returns where the watch is to begin instead of after: before the commit
// that may have to come again.
func (p *resumption) resume(after store.Position) store.Position {
	if after.Revision <= 1 { // the first commit wrote one object; before it is "now"
		return after
	}
	p.at = after.Revision
	after.Revision--
	return after
}

// refused reports whether a watch cannot begin before the commit because the commit is
// compacted.
func (p *resumption) refused(err error) bool {
	refused := p.at > 0 && errors.Is(err, store.ErrGone)
	if refused {
		p.at = 0
	}
	return refused
}

// complete returns nil if a client that knows the version at position has seen every change
// of that commit under prefix. It returns gone, the reason why the commit cannot be repeated,
// if the client may have seen only a part: an object that the commit wrote has its version.
// A deleted object has it only in the last event of the commit.
func (c *core) complete(ctx context.Context, prefix string, position store.Position, gone error) error {
	query := store.Query{Prefix: prefix, At: position, Limit: 500}
	for {
		page, err := c.store.List(ctx, query)
		if err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if entry.Revision == position.Revision {
				return gone
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return nil
		}
		query.At, query.After = page.Position, page.Entries[len(page.Entries)-1].Key
	}
}

// asked returns err as it is for the client's version when it is about the one that
// the watch was to begin at instead.
func (p *resumption) asked(err error) error {
	var future *store.FutureError
	if p.at > 0 && errors.As(err, &future) {
		return &store.FutureError{Asked: p.at, Current: future.Current}
	}
	return err
}

// skip reports whether c is to be left out, because the client has seen all of it.
func skip[T any](p *resumption, c *broadcast.Change[T]) (bool, error) {
	at := p.at
	if at == 0 {
		return false, nil
	}
	if now := c.Position.Revision; now < at { // it tells that nothing more has happened
		return false, &store.FutureError{Asked: at, Current: now}
	}
	p.at = 0
	return c.Position.Revision == at && len(c.Events) > 0 && !apart(c), nil
}

// apart reports whether a client could have seen a part of c and take its version
// for that of the whole. A deletion has a version that tells.
func apart[T any](c *broadcast.Change[T]) bool {
	for i := range len(c.Events) - 1 {
		if !c.Events[i].Deleted {
			return true
		}
	}
	return false
}
