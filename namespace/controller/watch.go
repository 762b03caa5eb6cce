package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// news is what the watcher tells the loop.
type news struct {
	event   namespace.TerminationEvent
	listing bool  // the event belongs to a listing
	anew    bool  // a listing begins; no event
	lost    error // the watch was lost; no event
}

var (
	errWatchEnded = errors.New("the watch ended") // without a reason
	errResync     = errors.New("the watch makes room for a listing")
)

// watcher follows the terminating namespaces for a loop.
type watcher struct {
	namespaces Namespaces
	tell       chan<- news
	delays     delays
	resync     time.Duration
	listed     time.Time // time of the last complete listing
	token      string    // where to resume; empty: list again
	live       bool      // the watch has advanced beyond its start
}

// resumptions is how often in a row a watch that cannot be had is resumed before
// everything is listed anew, lest it be the token that the place cannot take.
const resumptions = 8

// run watches until ctx ends. A lost watch is resumed at the last token, and where
// that is gone everything is listed anew, after a backoff that starts over when a
// watch has got on and lived longer than the delay before it.
func (w *watcher) run(ctx context.Context) {
	for tries := uint8(0); ctx.Err() == nil; tries = more(tries) {
		delay := w.delays.after(tries)
		began := time.Now()
		err := w.outlive(ctx)
		if ctx.Err() != nil {
			return
		}
		if w.live && time.Since(began) > delay {
			tries, delay = 0, w.delays.after(0)
		}
		if errors.Is(err, errResync) {
			w.token = ""
			continue
		}
		gone := errors.Is(err, namespace.ErrGone) || errors.Is(err, namespace.ErrBadRequest)
		if gone || !w.live && tries >= resumptions {
			w.token = ""
		}
		w.send(ctx, news{lost: err})
		sleep(ctx, delay)
	}
}

// outlive is follow in a goroutine that the place may end instead of returning.
func (w *watcher) outlive(ctx context.Context) error {
	ended := make(chan error)
	go func() {
		err := errNoReturn
		defer func() { ended <- err }()
		err = w.follow(ctx)
	}()
	return <-ended
}

// follow watches once; it returns why the watch ended.
func (w *watcher) follow(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &deleter.PanicError{In: "the watch", Value: v, Stack: debug.Stack()}
		}
	}()
	listing := w.token == ""
	w.live = false
	if listing && !w.send(ctx, news{anew: true}) {
		return context.Cause(ctx)
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	due := time.AfterFunc(math.MaxInt64, func() { cancel(errResync) })
	defer due.Stop()
	if !listing {
		due.Reset(time.Until(w.listed.Add(w.resync)))
	}
	defer func() {
		if errors.Is(context.Cause(within), errResync) {
			err = errResync
		}
	}()
	for event, err := range w.namespaces.Terminating(within, w.token) {
		if within.Err() != nil {
			return context.Cause(within)
		}
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if !w.send(ctx, news{event: event, listing: listing}) {
			return context.Cause(ctx)
		}
		// A listing that was not delivered to its end must not be resumed in its
		// midst: a token tells only of changes.
		if listing && event.Type != namespace.EventSynced {
			continue
		}
		if listing {
			listing, w.listed = false, time.Now()
			due.Reset(w.resync)
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

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
