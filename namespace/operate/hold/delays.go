package hold

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// delay returns how long to wait after so many tries before: the first delay doubled as
// often, at most the longest, cut by up to a quarter at random.
func (o *Options) delay(tries uint8) time.Duration {
	d := o.MaxDelay
	if tries < 63 && o.MinDelay <= o.MaxDelay>>tries {
		d = o.MinDelay << tries
	}
	return d - time.Duration(rand.Int64N(int64(d/4)+1))
}

// more counts one up without overflow.
func more(n uint8) uint8 { return max(n, n+1) }

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// timers is a queue of entries by the time at which something is due for them.
type timers struct{ heap timerHeap }

// set makes e due at the given time instead of any earlier set one, here or elsewhere.
func (t *timers) set(e *entry, at time.Time) {
	e.unset()
	e.at, e.timers = at, t
	heap.Push(&t.heap, e)
}

// unset lets nothing be due for e.
func (e *entry) unset() {
	if e.slot >= 0 {
		heap.Remove(&e.timers.heap, e.slot)
	}
}

// next returns how long it takes until the first entry is due.
func (t *timers) next(now time.Time) time.Duration {
	if len(t.heap) == 0 {
		return math.MaxInt64
	}
	return max(0, t.heap[0].at.Sub(now))
}

// pop removes and returns an entry that is due at now, or nil.
func (t *timers) pop(now time.Time) *entry {
	if len(t.heap) == 0 || now.Before(t.heap[0].at) {
		return nil
	}
	return heap.Pop(&t.heap).(*entry)
}

// timerHeap implements [heap.Interface]; each entry knows its slot.
type timerHeap []*entry

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

// Push implements [heap.Interface].
func (h *timerHeap) Push(x any) {
	e := x.(*entry)
	e.slot = len(*h)
	*h = append(*h, e)
}

// Pop implements [heap.Interface].
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.slot = -1
	return e
}
