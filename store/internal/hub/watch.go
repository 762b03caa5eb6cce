package hub

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nslifecycle/nslifecycle/store"
)

// keepQueue is how many changes an idle watch keeps room for.
const keepQueue = 32

// watch is one loop over a watch. The fields of the first group belong to the
// loop, those of the second to the hub's lock.
type watch struct {
	hub    *Hub
	ctx    context.Context
	prefix string
	yield  func(store.Change, error) bool
	start  store.Revision // what was current when the loop began
	cursor store.Revision // everything up to it has been delivered
	told   store.Revision // the position of the last change or bookmark
	caught bool           // the first bookmark has been delivered
	batch  []store.Change // taken from queue, in delivery

	wake    chan struct{} // one token: look at the fields below again
	index   int           // in group.watches
	queue   []store.Change
	bytes   int            // of queue
	lagging bool           // a change did not fit: queue is empty, the log must be read after resume
	resume  store.Revision // everything up to it was in queue before, or does not concern the watch
	due     bool           // a bookmark is due
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
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil", store.ErrInvalid)
	}
	w := &watch{hub: h, ctx: ctx, prefix: prefix, yield: yield, wake: make(chan struct{}, 1)}
	if err := w.ended(); err != nil {
		return err
	}
	now := after == store.Position{}
	if !now {
		if err := h.Check(after); err != nil {
			return err
		}
	}
	h.mu.Lock()
	h.interest.add(w)
	w.start = h.last
	h.mu.Unlock()
	defer w.leave()
	if now {
		after.Revision = w.start
	}
	w.cursor, w.told = after.Revision, after.Revision
	for {
		if err := w.replay(); err != nil {
			return err
		}
		if err := w.live(); err != nil {
			return err
		}
	}
}

// replay first joins the live changes and then delivers from the log what lies
// before them, so that nothing falls in between. Live changes that the log gave
// already are skipped by deliver.
func (w *watch) replay() error {
	owed := false // a bookmark on the way has used up the one that was due
	for target := w.join(); w.cursor < target; {
		if err := w.ended(); err != nil {
			return err
		}
		changes, through, err := w.hub.log.Replay(w.ctx, w.prefix, w.cursor)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if err := w.deliver(c); err != nil {
				return err
			}
		}
		w.cursor = max(w.cursor, through)
		if w.caught && w.told < w.cursor && w.takeDue() {
			owed = true
			if err := w.bookmark(); err != nil {
				return err
			}
		}
	}
	if owed {
		w.oweBookmark()
	}
	if w.caught {
		return nil
	}
	w.caught = true
	return w.send(store.Change{Position: w.position(w.cursor)})
}

// live delivers what the hub offers. It returns nil when the watch has fallen
// behind.
func (w *watch) live() error {
	for {
		through, due, lagging := w.take()
		for i := range w.batch {
			if err := w.deliver(w.batch[i]); err != nil {
				return err
			}
			w.batch[i] = store.Change{} // let the values go
		}
		w.cursor = max(w.cursor, through)
		if lagging {
			return nil
		}
		if due {
			if err := w.bookmark(); err != nil {
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

// deliver yields c unless it was delivered before, and before it the first
// bookmark when c is newer than the loop.
func (w *watch) deliver(c store.Change) error {
	if c.Position.Revision <= w.cursor {
		return nil
	}
	if !w.caught && c.Position.Revision > w.start {
		w.caught = true
		w.cursor = max(w.cursor, w.start)
		if err := w.send(store.Change{Position: w.position(w.cursor)}); err != nil {
			return err
		}
	}
	w.cursor = c.Position.Revision
	return w.send(c)
}

// bookmark tells how far the watch is, if that is news.
func (w *watch) bookmark() error {
	if w.told >= w.cursor {
		return nil
	}
	return w.send(store.Change{Position: w.position(w.cursor)})
}

func (w *watch) send(c store.Change) error {
	if err := w.ended(); err != nil {
		return err
	}
	w.told = c.Position.Revision
	if !w.yield(c, nil) {
		return errBreak
	}
	return nil
}

func (w *watch) position(r store.Revision) store.Position {
	return store.Position{Epoch: w.hub.epoch, Revision: r}
}

// ended returns why the watch must end, or nil.
func (w *watch) ended() error {
	select {
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-w.hub.closed:
		return store.ErrClosed
	default:
		return nil
	}
}

// join makes the watch receive live changes (again) and returns the revision up
// to which it must read the log.
func (w *watch) join() store.Revision {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.lagging = false
	return w.hub.last
}

// leave ends the watch's part in the hub.
func (w *watch) leave() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.interest.remove(w)
}

// take moves the queue to batch. When batch has been delivered, everything up to
// through has.
func (w *watch) take() (through store.Revision, due, lagging bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.lagging { // the queue is empty
		w.batch = nil
		return w.resume, false, true
	}
	w.batch, w.queue, w.bytes = w.queue, w.batch[:0], 0
	if len(w.batch) == 0 && cap(w.batch)+cap(w.queue) > keepQueue {
		w.batch, w.queue = nil, nil
	}
	due, w.due = w.due, false
	return w.hub.last, due, false
}

func (w *watch) takeDue() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	due := w.due
	w.due = false
	return due
}

func (w *watch) oweBookmark() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.due = true
}

// offer queues c of the given size, or drops the whole queue when that would
// exceed its bounds. The caller holds the hub's lock.
func (w *watch) offer(c store.Change, size int) {
	if w.lagging {
		return
	}
	if len(w.queue) < w.hub.options.Queue && w.bytes+size <= w.hub.options.QueueBytes {
		w.queue = append(w.queue, c)
		w.bytes += size
		if len(w.queue) == 1 {
			w.signal()
		}
		return
	}
	first := c
	if len(w.queue) > 0 {
		first = w.queue[0]
	}
	w.lagging, w.resume = true, first.Position.Revision-1
	w.queue, w.bytes = nil, 0
	w.signal()
}

// signal wakes the loop up if it waits, and now or later if it does not.
func (w *watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
