// Package follow keeps a resumable watch alive.
package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// Options describe a watch.
type Options struct {
	// Watch yields, if after is empty, an event for each object, a synced event, and then
	// each change. If after is the token of an earlier event, it yields the changes since,
	// a synced event, and then each change. It may end at any time. [namespace.ErrGone]
	// means that it cannot yield the changes since after.
	Watch func(ctx context.Context, after string) iter.Seq2[namespace.Event, error]
	// Backoff is the delay before the watch is resumed.
	Backoff backoff.Exponential
	// Resync is the interval at which everything is listed again; zero means never.
	Resync time.Duration
}

// Kind is the kind of an [Update].
type Kind uint8

// The kinds of updates.
const (
	Listing  Kind = iota // a listing begins
	Item                 // Event is of an object in the listing
	Complete             // the listing is complete: other objects do not exist
	Change               // Event is a change
	Lost                 // the watch failed with Err and will be resumed; sent once until Resumed
	Resumed              // the watch works again
)

// Update is one step of a followed watch.
type Update struct {
	Kind  Kind
	Event namespace.Event
	Err   error
}

// maxResumes limits how many consecutive failures are retried from the last token. After
// that the token itself is suspect, and the follower lists again.
const maxResumes = 8

var (
	errEnded  = errors.New("the watch ended")
	errResync = errors.New("a resync is due")
)

// Run watches until ctx ends and sends each update. A panic of the watch counts as a
// failure.
//
//	state     on                                           next                       token
//	listing   an event                                     listing                    none: a partial listing cannot be resumed
//	listing   a synced event                               live                       of the event
//	listing   a failure                                    listing, after a delay     none
//	resuming  an event                                     live                       of the event
//	live      an event                                     live                       of the event
//	live      a failure                                    resuming, after a delay    kept
//	resuming  a failure                                    resuming, after a delay    kept
//	resuming  more than maxResumes consecutive failures    listing, after a delay     none
//	any       ErrGone or ErrBadRequest                     listing, after a delay     none
//	any       Resync since the last complete listing       listing, at once           none
//
// The delay grows with each failure. It starts over after a watch that became live and
// lasted longer than the delay before it.
func Run(ctx context.Context, o Options, updates chan<- Update) {
	f := follower{Options: o, updates: updates}
	for failures := 0; ; {
		delay := f.Backoff.Delay(failures)
		began := time.Now()
		err := f.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.live && time.Since(began) > delay {
			failures, delay = 0, f.Backoff.Delay(0)
		}
		if errors.Is(err, errResync) {
			f.token = ""
			continue
		}
		if errors.Is(err, namespace.ErrGone) || errors.Is(err, namespace.ErrBadRequest) || !f.live && failures >= maxResumes {
			f.token = ""
		}
		if !f.lost {
			f.lost = true
			f.send(ctx, Update{Kind: Lost, Err: err})
		}
		failures++
		_ = backoff.Sleep(ctx, delay)
	}
}

type follower struct {
	Options
	updates chan<- Update
	token   string    // to resume from; empty: list
	listed  time.Time // when the last listing was complete
	live    bool      // the watch has yielded an event after its listing or token
	lost    bool      // Lost was sent, and Resumed was not
}

// watch watches once. It returns why the watch ended.
func (f *follower) watch(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the watch panicked: %v\n%s", v, debug.Stack())
		}
	}()
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resync := time.AfterFunc(math.MaxInt64, func() { cancel(errResync) })
	defer resync.Stop()
	f.live = false
	listing := f.token == ""
	if listing {
		f.send(ctx, Update{Kind: Listing})
	} else if f.Resync > 0 {
		resync.Reset(time.Until(f.listed.Add(f.Resync)))
	}
	for event, err := range f.Watch(within, f.token) {
		if within.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		synced := event.Type == namespace.EventSynced
		switch {
		case !synced && listing:
			f.send(ctx, Update{Kind: Item, Event: event})
			continue
		case !synced:
			f.send(ctx, Update{Kind: Change, Event: event})
		case listing:
			f.send(ctx, Update{Kind: Complete})
			listing, f.listed = false, time.Now()
			if f.Resync > 0 {
				resync.Reset(f.Resync)
			}
		}
		if synced && f.lost {
			f.lost = false
			f.send(ctx, Update{Kind: Resumed})
		}
		f.live = true
		if event.Token != "" {
			f.token = event.Token
		}
	}
	if within.Err() != nil {
		return context.Cause(within)
	}
	return errEnded
}

// send sends u, unless ctx ends first.
func (f *follower) send(ctx context.Context, u Update) {
	select {
	case f.updates <- u:
	case <-ctx.Done():
	}
}
