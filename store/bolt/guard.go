package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// guard runs f, which calls the engine. The engine panics on damaged pages and causes a
// memory fault if a mapped page is no longer in the file. guard turns both into ErrCorrupt.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the engine failed: %v", ErrCorrupt, p)
		}
	}()
	return f()
}

// errBroken is returned after the engine has failed with its locks held.
var errBroken = fmt.Errorf("%w: the engine cannot read its file any more, restart the process", ErrCorrupt)

// engine guards a call during which the engine holds locks that it does not unlock with
// defer. After a failure the engine is unusable and never called again.
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

// begin begins a transaction of the engine.
func (s *Store) begin(writable bool) (tx *bbolt.Tx, err error) {
	err = s.engine(func() (err error) {
		tx, err = s.db.Begin(writable)
		return err
	})
	return tx, err
}
