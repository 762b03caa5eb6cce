package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// guard runs f, which calls the engine. The engine panics on damaged pages, and a
// page that is no longer in the file is a memory fault: both become ErrCorrupt.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the engine failed: %v", ErrCorrupt, p)
		}
	}()
	return f()
}

// errBroken refuses calls when the engine has failed with its locks held.
var errBroken = fmt.Errorf("%w: the engine cannot read its file any more, restart the process", ErrCorrupt)

// begin begins a transaction of the engine for reading. One that panics keeps the
// engine's locks, so they take turns, and the last is the last.
func (s *Store) begin() (tx *bbolt.Tx, err error) {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	err = s.engine(func() (err error) {
		tx, err = s.db.Begin(false)
		return err
	})
	return tx, err
}

// engine guards a call after whose panic the engine cannot be used.
func (s *Store) engine(f func() error) error {
	if s.broken.Load() {
		return errBroken
	}
	err := guard(f)
	if errors.Is(err, ErrCorrupt) {
		s.broken.Store(true)
	}
	return err
}
