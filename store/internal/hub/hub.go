// Package hub carries the committed changes of a store to the watches that want
// them. The drivers memory and bolt share it: a driver keeps a log and calls
// [Hub.Publish] after each commit, the hub does everything that [store.Store]
// asks of Watch.
//
// A commit costs what its keys and the watches that follow them cost; watches of
// other prefixes are not touched. A watch holds a bounded number of changes; one
// that falls behind further gives up what it holds and reads the driver's log
// until it has caught up. The hub starts no goroutine: a watch runs in the
// goroutine that loops over it, Publish in the committer's.
package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Log is what a driver gives: the changes it retains. The hub calls it without
// holding a lock of its own, from the goroutines of the watches.
type Log interface {
	// Replay returns the next changes to keys that start with prefix, in commit
	// order, each with those of its events only ([Filter]). They are a chunk of
	// bounded size of what follows after. Every such change up to through is among
	// them or is not after after; through is greater than after unless nothing was
	// committed since.
	//
	// It fails with [store.ErrGone] when after lies before the compacted revision,
	// and with [store.ErrClosed] when the store is closed.
	Replay(ctx context.Context, prefix string, after store.Revision) (changes []store.Change, through store.Revision, err error)
}

// Options tunes a [Hub]. Zero fields take the defaults.
type Options struct {
	Queue      int           // changes that a watch holds before it falls back to the log; default 1024
	QueueBytes int           // bytes of memory among them, about; default 4 MiB
	Bookmarks  time.Duration // how long a watch of a quiet prefix stays without news of other commits; default 1 s
}

const (
	defaultQueue      = 1024
	defaultQueueBytes = 4 << 20
	defaultBookmarks  = time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Queue < 0 || o.QueueBytes < 0 || o.Bookmarks < 0 {
		return o, fmt.Errorf("%w: an option is negative: Queue %d, QueueBytes %d, Bookmarks %v",
			store.ErrInvalid, o.Queue, o.QueueBytes, o.Bookmarks)
	}
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = defaultQueueBytes
	}
	if o.Bookmarks == 0 {
		o.Bookmarks = defaultBookmarks
	}
	return o, nil
}

// Hub is the fan-out of one store. Its methods may be called by any number of
// goroutines, except Publish, see there.
type Hub struct {
	log     Log
	epoch   string
	options Options
	closed  chan struct{} // closed by Close

	mu       sync.Mutex
	last     store.Revision // the newest published revision
	interest interest
	pulse    *time.Timer // set while a round of bookmarks is due
}

// New returns the hub of a store that stands at position. Negative options are
// [store.ErrInvalid].
func New(log Log, position store.Position, options Options) (*Hub, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Hub{
		log:      log,
		epoch:    position.Epoch,
		options:  options,
		closed:   make(chan struct{}),
		last:     position.Revision,
		interest: newInterest(),
	}, nil
}

// Publish hands changes to the watches. The driver calls it in commit order, one
// call at a time, once the commits are decided and before Get or List shows them. So a
// later watch from "now" begins at or after every revision that was read. Replay must
// include the changes if it is called after Publish; it may wait for them. A published
// Change is complete, has its full position, and is shared: it must not be modified.
func (h *Hub) Publish(changes ...store.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		if !h.interest.empty() {
			h.interest.each(changes[i].Events, func(g *group, whole bool) {
				c := changes[i]
				if !whole {
					c, _ = Filter(c, g.prefix)
				}
				h.enqueue(g, c)
			})
		}
		h.last = changes[i].Position.Revision
	}
	if h.pulse == nil && len(changes) > 0 && !h.interest.empty() && !h.isClosed() {
		h.pulse = time.AfterFunc(h.options.Bookmarks, h.round)
	}
}

// enqueue gives c to the watches of g. The caller holds the lock.
func (h *Hub) enqueue(g *group, c store.Change) {
	size := sizeOf(c)
	for _, w := range g.watches {
		w.offer(c, size)
	}
}

// round makes every watch that is not up to date yield a bookmark. It runs once,
// some time after the first commit that follows the round before: in a store
// without commits nothing ticks.
func (h *Hub) round() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pulse = nil
	for _, g := range h.interest.groups {
		for _, w := range g.watches {
			w.due = true
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

// Check reports whether position can be one of this store: [store.ErrGone] when it
// is of another epoch, [store.ErrFuture] when it lies ahead, [store.ErrInvalid]
// when it is negative, [store.ErrClosed] after Close. Only the driver can check whether
// it was compacted.
func (h *Hub) Check(position store.Position) error {
	if h.isClosed() {
		return store.ErrClosed
	}
	if position.Epoch != "" && position.Epoch != h.epoch {
		return fmt.Errorf("%w: it is of epoch %.64q and the store of %q", store.ErrGone, position.Epoch, h.epoch)
	}
	if position.Revision < 0 {
		return fmt.Errorf("%w: the revision %d is negative", store.ErrInvalid, position.Revision)
	}
	if last := h.Position().Revision; position.Revision > last {
		return &store.FutureError{Asked: position.Revision, Current: last}
	}
	return nil
}

// Close ends all watches with [store.ErrClosed]. It does not wait for them: a
// loop may be the one that closes the store. Log must therefore be able to
// answer after Close, with [store.ErrClosed]. A second Close does nothing.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed() {
		return
	}
	close(h.closed)
	if h.pulse != nil {
		h.pulse.Stop()
		h.pulse = nil
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

// errBreak ends a watch whose caller broke its loop.
var errBreak = errors.New("the loop was broken")
