// Package priority has a priority queue whose members can be moved and removed.
package priority

import "container/heap"

// Queue orders members, timers by the time at which they are due, say. Every operation
// but [Queue.First] takes time with the logarithm of the number of members.
type Queue[E any] struct{ members members[E] }

// New returns an empty queue, ordered by less. The queue stores the position of each
// member in slot(member), which only the queue may write. Zero means not queued.
func New[E any](less func(a, b E) bool, slot func(E) *int32) *Queue[E] {
	return &Queue[E]{members[E]{less: less, slot: slot}}
}

// Set adds e, or restores the order after a change of e.
func (q *Queue[E]) Set(e E) {
	if slot := *q.members.slot(e); slot > 0 {
		heap.Fix(&q.members, int(slot)-1)
		return
	}
	heap.Push(&q.members, e)
}

// Remove removes e, if it is in the queue.
func (q *Queue[E]) Remove(e E) {
	if slot := *q.members.slot(e); slot > 0 {
		heap.Remove(&q.members, int(slot)-1)
	}
}

// First returns the least member, and false if the queue is empty.
func (q *Queue[E]) First() (e E, ok bool) {
	if len(q.members.list) == 0 {
		return e, false
	}
	return q.members.list[0], true
}

// members implements [heap.Interface]. A slot is the index of a member plus one.
type members[E any] struct {
	list []E
	less func(a, b E) bool
	slot func(E) *int32
}

func (m *members[E]) Len() int           { return len(m.list) }
func (m *members[E]) Less(i, j int) bool { return m.less(m.list[i], m.list[j]) }

func (m *members[E]) Swap(i, j int) {
	m.list[i], m.list[j] = m.list[j], m.list[i]
	*m.slot(m.list[i]), *m.slot(m.list[j]) = int32(i)+1, int32(j)+1
}

func (m *members[E]) Push(x any) {
	m.list = append(m.list, x.(E))
	*m.slot(x.(E)) = int32(len(m.list))
}

func (m *members[E]) Pop() any {
	last := len(m.list) - 1
	e := m.list[last]
	clear(m.list[last:])
	m.list = m.list[:last]
	*m.slot(e) = 0
	return e
}
