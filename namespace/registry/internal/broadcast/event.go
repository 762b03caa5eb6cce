package broadcast

import (
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// Change is a [store.Change] whose events decode themselves. It is shared:
// nobody changes it.
type Change[T any] struct {
	Position  store.Position
	Events    []Event[T] // use them by pointer; none: a bookmark
	Resume    string     // where to go on after the change, as a resourceVersion
	Encodings Encodings  // of the bookmark
}

// size returns the bytes of the keys and values of c.
func (c *Change[T]) size() int {
	n := 0
	for i := range c.Events {
		e := &c.Events[i]
		n += len(e.Key) + len(e.Value)
		if e.Prev != nil {
			n += len(e.Prev.Value)
		}
	}
	return n
}

// Event is a [store.Event] with the objects that its values hold.
type Event[T any] struct {
	store.Event
	Resume    string    // where to go on after the event; within the change: before it
	Encodings Encodings // as the watchers see it

	revision store.Revision
	decode   Decode[T]
	now      cell[T]
	before   cell[T]
}

// cell is an object that is decoded when somebody wants it first.
type cell[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (c *cell[T]) get(decode Decode[T], e store.Entry) (T, error) {
	c.once.Do(func() { c.value, c.err = decode(e) })
	return c.value, c.err
}

// Now returns the object after the change; the zero value after a deletion. The
// caller must not change it.
func (e *Event[T]) Now() (T, error) {
	if e.Deleted {
		var zero T
		return zero, nil
	}
	return e.now.get(e.decode, store.Entry{Key: e.Key, Value: e.Value, Revision: e.revision})
}

// Before returns the object before the change; the zero value when there was
// none. The caller must not change it.
func (e *Event[T]) Before() (T, error) {
	if e.Prev == nil {
		var zero T
		return zero, nil
	}
	return e.before.get(e.decode, *e.Prev)
}
