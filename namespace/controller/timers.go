package controller

import (
	"container/heap"
	"time"
)

// timers is a queue of entries by the time at which something is due for them.
// One runtime timer serves all.
type timers struct{ heap timerHeap }

// set makes e due at the given time instead of any earlier set one.
func (t *timers) set(e *entry, due time.Duration) {
	e.due = due
	if e.slot < 0 {
		heap.Push(&t.heap, e)
		return
	}
	heap.Fix(&t.heap, int(e.slot))
}

func (t *timers) remove(e *entry) {
	if e.slot >= 0 {
		heap.Remove(&t.heap, int(e.slot))
	}
}

// next returns when the first entry is due.
func (t *timers) next() (time.Duration, bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].due, true
}

// pop removes and returns an entry that is due at now, or nil.
func (t *timers) pop(now time.Duration) *entry {
	if len(t.heap) == 0 || t.heap[0].due > now {
		return nil
	}
	return heap.Pop(&t.heap).(*entry)
}

// timerHeap implements [heap.Interface]; each entry knows its slot.
type timerHeap []*entry

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = int32(i), int32(j)
}

// Push implements [heap.Interface].
func (h *timerHeap) Push(x any) {
	e := x.(*entry)
	e.slot = int32(len(*h))
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
