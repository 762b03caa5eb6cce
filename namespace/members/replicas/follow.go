package replicas

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/store"
)

// errEnded is the loss of a watch that gave no reason.
var errEnded = errors.New("the watch ended")

// follow tells of all entries, then of every change, until ctx ends or the watch is
// lost, and why.
func (l *loop) follow(ctx context.Context) error {
	position, err := l.list(ctx)
	if err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	for change, err := range l.store.Watch(ctx, l.prefix, position) {
		if err != nil {
			return fmt.Errorf("watch members: %w", err)
		}
		if !change.Bookmark() && !l.tell(ctx, news{change: change}) {
			return context.Cause(ctx)
		}
	}
	return errEnded
}

// list tells of all entries and returns where the listing was.
func (l *loop) list(ctx context.Context) (store.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, l.options.Beat)
	defer cancel()
	page, err := l.store.List(ctx, store.Query{Prefix: l.prefix})
	if err != nil {
		return store.Position{}, err
	}
	if !l.tell(ctx, news{listing: &page}) {
		return store.Position{}, context.Cause(ctx)
	}
	return page.Position, nil
}

func (l *loop) tell(ctx context.Context, n news) bool {
	select {
	case l.news <- n:
		return true
	case <-ctx.Done():
		return false
	}
}
