package watch

import (
	"context"
	"errors"
	"iter"

	"github.com/nslifecycle/nslifecycle/store"
)

// keepQueue is the capacity that an idle watch keeps for its queue.
const keepQueue = 32

// loop is one watch. It alternates between two states:
//
//	replay  read the log from cursor to the revision that was newest when the replay began
//	live    deliver the queue; after an overflow go back to replay
//
// The queue accepts changes during a replay too, so no change falls between the two states.
// deliver skips the changes that both have.
type loop struct {
	// Used by the goroutine of the watch only.
	hub      *Hub
	ctx      context.Context
	prefix   string
	yield    func(store.Change, error) bool
	start    store.Revision // the newest revision when the loop began
	cursor   store.Revision // everything up to it has been delivered
	yielded  store.Revision // the position of the last change or bookmark
	caughtUp bool           // the first bookmark has been delivered
	batch    []store.Change // taken from queue for delivery

	wake chan struct{} // one token: the fields below have changed

	// Guarded by the lock of the hub.
	index       int // in group.watches
	queue       []store.Change
	bytes       int            // of queue
	overflowed  bool           // the queue was dropped; the log must be read
	complete    store.Revision // after an overflow: no event of the prefix at or before it was lost
	bookmarkDue bool
}

// Watch implements the method of [store.Store]. Errors are [*store.Error] values.
func (h *Hub) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if err := h.watch(ctx, prefix, after, yield); !errors.Is(err, errBreak) {
			yield(store.Change{}, &store.Error{Op: "watch", Key: prefix, Err: err})
		}
	}
}

func (h *Hub) watch(ctx context.Context, prefix string, after store.Position, yield func(store.Change, error) bool) error {
	w := &loop{hub: h, ctx: ctx, prefix: prefix, yield: yield, wake: make(chan struct{}, 1)}
	if err := w.ended(); err != nil {
		return err
	}
	now := after == store.Position{}
	if !now {
		if err := h.Check(after); err != nil {
			return err
		}
	}
	w.start = w.register()
	defer w.unregister()
	if now {
		after.Revision = w.start
	}
	w.cursor, w.yielded = after.Revision, after.Revision
	for {
		if err := w.replay(); err != nil {
			return err
		}
		if err := w.live(); err != nil {
			return err
		}
	}
}

func (w *loop) replay() error {
	repeatBookmark := false
	for target := w.acceptChanges(); w.cursor < target; {
		if err := w.ended(); err != nil {
			return err
		}
		changes, through, err := w.hub.read(w.ctx, w.prefix, w.cursor, target)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c, ok := Filter(c, w.prefix); ok {
				if err := w.deliver(c); err != nil {
					return err
				}
			}
		}
		w.cursor = max(w.cursor, through)
		if w.caughtUp && w.yielded < w.cursor && w.takeBookmarkDue() {
			repeatBookmark = true // the one that is due belongs after the replay
			if err := w.sendBookmark(); err != nil {
				return err
			}
		}
	}
	if repeatBookmark {
		w.setBookmarkDue()
	}
	if w.caughtUp {
		return nil
	}
	w.caughtUp = true
	return w.send(store.Change{Position: w.position(w.cursor)})
}

// live delivers queued changes. It returns nil after an overflow.
func (w *loop) live() error {
	for {
		through, bookmark, overflowed := w.takeQueue()
		for i := range w.batch {
			if err := w.deliver(w.batch[i]); err != nil {
				return err
			}
			w.batch[i] = store.Change{} // release the values
		}
		w.cursor = max(w.cursor, through)
		if overflowed {
			return nil
		}
		if bookmark {
			if err := w.sendBookmark(); err != nil {
				return err
			}
		}
		if len(w.batch) > 0 {
			continue
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
		case <-w.hub.closed:
		}
		if err := w.ended(); err != nil {
			return err
		}
	}
}

// deliver yields c unless it has been delivered. If c is the first change after start, it
// yields the first bookmark before it.
func (w *loop) deliver(c store.Change) error {
	if c.Position.Revision <= w.cursor {
		return nil
	}
	if !w.caughtUp && c.Position.Revision > w.start {
		w.caughtUp = true
		w.cursor = max(w.cursor, w.start)
		if err := w.send(store.Change{Position: w.position(w.cursor)}); err != nil {
			return err
		}
	}
	w.cursor = c.Position.Revision
	return w.send(c)
}

// sendBookmark yields the position of the cursor unless the caller has it.
func (w *loop) sendBookmark() error {
	if w.yielded >= w.cursor {
		return nil
	}
	return w.send(store.Change{Position: w.position(w.cursor)})
}

func (w *loop) send(c store.Change) error {
	if err := w.ended(); err != nil {
		return err
	}
	w.yielded = c.Position.Revision
	if !w.yield(c, nil) {
		return errBreak
	}
	return nil
}

func (w *loop) position(r store.Revision) store.Position {
	return store.Position{Epoch: w.hub.epoch, Revision: r}
}

// ended returns the reason why the watch must end, or nil.
func (w *loop) ended() error {
	select {
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-w.hub.closed:
		return store.ErrClosed
	default:
		return nil
	}
}

// register adds the watch to the hub and returns the newest revision.
func (w *loop) register() store.Revision {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.watches.add(w)
	return w.hub.last
}

func (w *loop) unregister() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.watches.remove(w)
}

// acceptChanges opens the queue for new changes and returns the revision up to which the log
// must be read.
func (w *loop) acceptChanges() store.Revision {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.overflowed = false
	return w.hub.last
}

// takeQueue moves the queue to batch. Once batch is delivered, so is everything up to through.
func (w *loop) takeQueue() (through store.Revision, bookmark, overflowed bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.overflowed { // the queue is empty
		w.batch = nil
		return w.complete, false, true
	}
	w.batch, w.queue, w.bytes = w.queue, w.batch[:0], 0
	if len(w.batch) == 0 && cap(w.batch)+cap(w.queue) > keepQueue {
		w.batch, w.queue = nil, nil
	}
	bookmark, w.bookmarkDue = w.bookmarkDue, false
	return w.hub.last, bookmark, false
}

func (w *loop) takeBookmarkDue() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	due := w.bookmarkDue
	w.bookmarkDue = false
	return due
}

func (w *loop) setBookmarkDue() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.bookmarkDue = true
}

// enqueue adds c of the given size to the queue, or drops the queue if it would exceed its
// bounds. The caller holds the lock of the hub.
func (w *loop) enqueue(c store.Change, size int) {
	if w.overflowed {
		return
	}
	if len(w.queue) >= w.hub.options.Queue || w.bytes+size > w.hub.options.QueueBytes {
		w.overflow(c.Position.Revision - 1)
		return
	}
	w.queue = append(w.queue, c)
	w.bytes += size
	if len(w.queue) == 1 {
		w.signal()
	}
}

// overflow drops the queue, so that the watch reads the log. It records up to where no event is
// lost: before the first queued change, or, if the queue is empty, the given revision. The caller
// holds the lock of the hub.
func (w *loop) overflow(complete store.Revision) {
	if w.overflowed {
		return
	}
	if len(w.queue) > 0 {
		complete = w.queue[0].Position.Revision - 1
	}
	w.overflowed, w.complete = true, complete
	w.queue, w.bytes = nil, 0
	w.signal()
}

// signal wakes the loop if it is waiting, or before it waits next.
func (w *loop) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
