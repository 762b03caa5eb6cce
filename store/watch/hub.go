// Package watch implements the Watch method of a [store.Store] for drivers that keep a log of
// their changes. The driver supplies one function that reads the log and calls [Hub.Publish]
// or [Hub.Advance] after each commit. The package does the rest: it replays the past, follows
// new commits without a gap or a duplicate, filters by prefix, emits bookmarks, bounds memory,
// and ends watches when their context ends or the store closes.
//
//	hub := watch.New(s.read, position, watch.Options{})  // in the constructor
//	hub.Advance(revision)                                // in Commit, with the commit's lock held
//	hub.Close()                                          // in Close
//
//	func (s *Store) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
//		return s.hub.Watch(ctx, prefix, after)
//	}
//
// The example of this package is a complete driver that passes package storetest.
//
// The hub starts no goroutine. A watch runs in the goroutine that loops over it. A commit
// costs time for the watches that follow its keys, not for watches of other prefixes. Each
// watch queues a bounded number of changes. A watch that exceeds the bound drops its queue and
// reads the log until it has caught up, so a slow caller never delays commits or other watches.
package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// ReadFunc reads the log of a driver. It returns changes in commit order, starting with the
// first one after the revision after and ending at or before upTo, which is a published
// revision. It may return part of the range, so that memory stays bounded: through is the last
// revision of the part, less than or equal to upTo and greater than after.
//
// The driver may leave out changes and events whose keys do not start with prefix; the hub
// drops them in any case ([Filter]). It must not split the events of one commit.
//
// ReadFunc fails with [store.ErrGone] if after lies before the compacted revision, and with
// [store.ErrClosed] if the store is closed. The hub calls it from the goroutines of the
// watches, without holding a lock.
type ReadFunc func(ctx context.Context, prefix string, after, upTo store.Revision) (changes []store.Change, through store.Revision, err error)

// Options tunes a [Hub]. Fields that are not positive take the defaults, because New has no error:
// a driver with options of its own checks them there.
type Options struct {
	Queue      int           // changes that a watch queues before it falls back to the log; default 1024
	QueueBytes int           // approximate memory of these changes; default 4 MiB
	Bookmarks  time.Duration // the interval of bookmarks on quiet prefixes while other keys change; default 1 s
}

func (o Options) withDefaults() Options {
	if o.Queue <= 0 {
		o.Queue = 1024
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 4 << 20
	}
	if o.Bookmarks <= 0 {
		o.Bookmarks = time.Second
	}
	return o
}

// Hub distributes the changes of one store to its watches. All methods are safe for concurrent
// use, but calls of Publish and Advance must be serialized in commit order.
type Hub struct {
	read    ReadFunc
	epoch   string
	options Options
	closed  chan struct{} // closed by Close

	mu       sync.Mutex
	last     store.Revision // the newest published revision
	watches  prefixIndex
	bookmark *time.Timer // set while bookmarks are due later
}

// New returns the hub of a store whose newest commit is at position.
func New(read ReadFunc, position store.Position, options Options) *Hub {
	return &Hub{
		read:    read,
		epoch:   position.Epoch,
		options: options.withDefaults(),
		closed:  make(chan struct{}),
		last:    position.Revision,
		watches: prefixIndex{groups: map[string]*group{}},
	}
}

// Publish delivers committed changes to the watches. The driver calls it after the commits are
// durable and before any read can return them: a watch from "now" then begins at or after every
// revision that a caller has read. ReadFunc must be able to return the
// changes as soon as Publish is called; it may block until then. Watches share the published
// values, so they are read-only. Each change needs its full position.
func (h *Hub) Publish(changes ...store.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		c := changes[i]
		h.watches.match(c.Events, func(g *group, all bool) {
			c := c
			if !all {
				c, _ = Filter(c, g.prefix)
			}
			size := sizeOf(c)
			for _, w := range g.watches {
				w.enqueue(c, size)
			}
		})
		h.last = c.Position.Revision
	}
	if len(changes) > 0 {
		h.scheduleBookmarks()
	}
}

// Advance is the simple form of Publish: it reports that the store has reached revision, and
// every watch reads the new changes from the log. A commit then costs each watch of the store a
// call of ReadFunc, whatever its prefix.
func (h *Hub) Advance(revision store.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.watches.groups {
		for _, w := range g.watches {
			w.overflow(h.last)
		}
	}
	h.last = revision
	h.scheduleBookmarks()
}

// scheduleBookmarks starts the timer for the next bookmarks unless it is running. A store
// without commits therefore has no timer. The caller holds the lock.
func (h *Hub) scheduleBookmarks() {
	if h.bookmark == nil && len(h.watches.groups) > 0 && !h.isClosed() {
		h.bookmark = time.AfterFunc(h.options.Bookmarks, h.sendBookmarks)
	}
}

// sendBookmarks asks every watch to yield a bookmark unless it is up to date.
func (h *Hub) sendBookmarks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bookmark = nil
	for _, g := range h.watches.groups {
		for _, w := range g.watches {
			w.bookmarkDue = true
			w.signal()
		}
	}
}

// Position returns the newest published position.
func (h *Hub) Position() store.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return store.Position{Epoch: h.epoch, Revision: h.last}
}

// Check returns an error if position cannot belong to this store: [store.ErrGone] if it has
// another epoch, [store.ErrFuture] if it lies ahead, [store.ErrInvalid] if its revision is
// negative, and [store.ErrClosed] after Close. It does not know the compacted revision.
func (h *Hub) Check(position store.Position) error {
	if h.isClosed() {
		return store.ErrClosed
	}
	if position.Epoch != "" && position.Epoch != h.epoch {
		return fmt.Errorf("%w: the position has epoch %.64q, the store has %q", store.ErrGone, position.Epoch, h.epoch)
	}
	if position.Revision < 0 {
		return fmt.Errorf("%w: revision %d is negative", store.ErrInvalid, position.Revision)
	}
	if last := h.Position().Revision; position.Revision > last {
		return &store.FutureError{Asked: position.Revision, Current: last}
	}
	return nil
}

// Close ends all watches with [store.ErrClosed]. It does not wait for them, because a watch
// loop may be the caller of Close. ReadFunc may therefore still be called after Close. Further
// calls of Close do nothing.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed() {
		return
	}
	close(h.closed)
	if h.bookmark != nil {
		h.bookmark.Stop()
		h.bookmark = nil
	}
}

func (h *Hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// errBreak reports that the caller ended its loop.
var errBreak = errors.New("the caller ended the loop")
