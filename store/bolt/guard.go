package bolt

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"

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

// begin begins a transaction of the engine.
func (s *Store) begin(writable bool) (tx *bbolt.Tx, err error) {
	if s.broken.Load() {
		return nil, errBroken
	}
	db := s.db
	err = guard(func() (err error) {
		tx, err = db.Begin(writable)
		return err
	})
	if errors.Is(err, ErrCorrupt) && !release(db, writable) {
		s.broken.Store(true)
	}
	return tx, err
}

// release unlocks what DB.Begin holds when it panics: the engine reads its meta pages
// under locks that it does not unlock with defer, and every other transaction waits for
// them. It reports false if the engine has no such locks.
func release(db *bbolt.DB, writable bool) bool {
	fields := reflect.ValueOf(db).Elem()
	writers, ok := lockOf[sync.Mutex](fields, "rwlock")
	if writable {
		if ok {
			writers.Unlock()
		}
		return ok
	}
	metas, ok := lockOf[sync.Mutex](fields, "metalock")
	mapping, known := lockOf[sync.RWMutex](fields, "mmaplock")
	if !ok || !known {
		return false
	}
	mapping.RUnlock()
	metas.Unlock()
	return true
}

func lockOf[L any](fields reflect.Value, name string) (lock *L, ok bool) {
	field := fields.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[L]() {
		return nil, false
	}
	return (*L)(field.Addr().UnsafePointer()), true
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
