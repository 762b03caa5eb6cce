package broadcast

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Encodings are the encoded forms of one event or bookmark, each made by the
// watcher that wants it first, and kept for as long as somebody holds the event.
// The zero value has none.
type Encodings struct {
	last atomic.Pointer[encoding]
}

// encoding is one form. Forms of an event are few: a list beats a map, and needs
// no lock.
type encoding struct {
	as   uint8
	form string
	next *encoding // older

	once  sync.Once
	bytes []byte
	err   error
}

// errPanicked is what those get who share an encoding whose encoder panicked.
var errPanicked = errors.New("the encoder of the event panicked")

// Get returns what encode returned for the first call with the same as and form,
// which must determine it. Calls that come while it is running wait for it.
func (s *Encodings) Get(as uint8, form string, encode func() ([]byte, error)) ([]byte, error) {
	e := s.find(as, form)
	e.once.Do(func() {
		e.err = errPanicked
		e.bytes, e.err = encode()
	})
	return e.bytes, e.err
}

// find returns the encoding for as and form, which it adds when there is none.
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
