package broadcast

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/store"
)

// Change is a [store.Change] whose events are decoded on demand. Watchers share it, so it must
// not change.
type Change[T any] struct {
	Position  store.Position
	Events    []Event[T] // use them by pointer; none: a bookmark
	Resume    string     // the resourceVersion at which a watch resumes after the change
	Encodings Encodings  // of the bookmark
}

// Event is a [store.Event] with its decoded objects.
type Event[T any] struct {
	store.Event
	Resume    string    // the resourceVersion at which a watch resumes; before the change unless the event is its last
	Encodings Encodings // of the event

	revision store.Revision
	decode   Decode[T]
	now      cell[T]
	before   cell[T]
}

func (s *Shared[T]) wrap(change store.Change) *Change[T] {
	revision := change.Position.Revision
	c := &Change[T]{Position: change.Position, Resume: strconv.FormatInt(int64(revision), 10)}
	if len(change.Events) == 0 {
		return c
	}
	c.Events = make([]Event[T], len(change.Events))
	last := len(change.Events) - 1
	before := ""
	if last > 0 {
		before = strconv.FormatInt(int64(revision-1), 10)
	}
	for i := range c.Events {
		e := &c.Events[i]
		e.Event, e.revision, e.decode = change.Events[i], revision, s.decode
		e.Resume = before
	}
	c.Events[last].Resume = c.Resume
	return c
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

// cell is an object that is decoded at its first use.
type cell[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (c *cell[T]) get(decode Decode[T], e store.Entry) (T, error) {
	c.once.Do(func() { c.value, c.err = decode(e) })
	return c.value, c.err
}

// Now returns the object after the change, and the zero value after a deletion. The caller
// must not change it.
func (e *Event[T]) Now() (T, error) {
	if e.Deleted {
		var zero T
		return zero, nil
	}
	return e.now.get(e.decode, store.Entry{Key: e.Key, Value: e.Value, Revision: e.revision})
}

// Before returns the object before the change, and the zero value if it did not exist. The
// caller must not change it.
func (e *Event[T]) Before() (T, error) {
	if e.Prev == nil {
		var zero T
		return zero, nil
	}
	return e.before.get(e.decode, *e.Prev)
}

// Encodings caches the encodings of one event or bookmark for all watchers. The zero value is
// empty.
type Encodings struct {
	last atomic.Pointer[encoding]
}

// encoding is an element of a linked list. Since an event has few encodings, a list is faster
// than a map, and it needs no lock.
type encoding struct {
	as   uint8
	form string
	next *encoding // added earlier

	once  sync.Once
	bytes []byte
	err   error
}

// errPanicked is the error of watchers that share an encoding whose encoder panicked.
var errPanicked = errors.New("the encoder of the event panicked")

// Get returns the result of the first call of encode for the same as and form, which must
// determine it. Concurrent calls wait for that call.
func (s *Encodings) Get(as uint8, form string, encode func() ([]byte, error)) ([]byte, error) {
	e := s.find(as, form)
	e.once.Do(func() {
		e.err = errPanicked
		e.bytes, e.err = encode()
	})
	return e.bytes, e.err
}

// find returns the encoding for as and form, and adds it if there is none.
func (s *Encodings) find(as uint8, form string) *encoding {
	var added *encoding
	for {
		last := s.last.Load()
		for e := last; e != nil; e = e.next {
			if e.as == as && e.form == form {
				return e
			}
		}
		if added == nil {
			added = &encoding{as: as, form: form}
		}
		added.next = last
		if s.last.CompareAndSwap(last, added) {
			return added
		}
	}
}
