package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// news is what the watcher tells the loop.
type news struct {
	event   declare.HoldEvent
	listing bool  // the event belongs to a listing
	anew    bool  // a listing begins; no event
	lost    error // the watch was lost; no event
}

// errWatchEnded is the loss of a watch that gave no reason.
var errWatchEnded = errors.New("the watch ended")

// watcher follows the holds for a loop.
type watcher struct {
	namespaces Namespaces
	tell       chan<- news
	options    *Options
	token      string // where to resume; empty: list anew
	live       bool   // the watch of now has got past where it began
}

// resumptions is how often in a row a watch that cannot be had is resumed before
// everything is listed anew, lest it be the token that the place cannot take.
const resumptions = 8

// run watches until ctx ends. A lost watch is resumed at the last token, and where that
// is gone everything is listed anew, after a backoff that starts over when a watch has
// got on and lived longer than the delay before it.
func (w *watcher) run(ctx context.Context) {
	for tries := uint8(0); ctx.Err() == nil; tries = more(tries) {
		delay := w.options.delay(tries)
		began := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		gone := errors.Is(err, namespace.ErrGone) || errors.Is(err, namespace.ErrBadRequest)
		if gone || !w.live && tries >= resumptions {
			w.token = ""
		}
		if w.live && time.Since(began) > delay {
			tries, delay = 0, w.options.delay(0)
		}
		w.send(ctx, news{lost: err})
		sleep(ctx, delay)
	}
}

// follow watches once; it returns why the watch ended.
func (w *watcher) follow(ctx context.Context) error {
	listing := w.token == ""
	w.live = false
	if listing && !w.send(ctx, news{anew: true}) {
		return context.Cause(ctx)
	}
	for event, err := range w.namespaces.Holds(ctx, w.token) {
		if err != nil {
			return fmt.Errorf("watch the holds: %w", err)
		}
		if !w.send(ctx, news{event: event, listing: listing}) {
			return context.Cause(ctx)
		}
		// A listing that was not delivered to its end must not be resumed in its midst:
		// a token tells only of changes.
		listing = listing && event.Type != declare.HoldsSynced
		if listing {
			continue
		}
		w.live = true
		if event.Token != "" {
			w.token = event.Token
		}
	}
	return errWatchEnded
}

func (w *watcher) send(ctx context.Context, n news) bool {
	select {
	case w.tell <- n:
		return true
	case <-ctx.Done():
		return false
	}
}
