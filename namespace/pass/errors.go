package pass

import (
	"fmt"
	"time"
)

// StorageError is a failed read or write of the namespace, as opposed to a failed deletion of
// its content.
type StorageError struct {
	Op  string // "read", "write status" or "finalize"
	Err error
}

// Error implements error.
func (e *StorageError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// PatienceError is the cause of a deleter's context that ended after [Request.Patience].
type PatienceError struct{ Patience time.Duration }

// Error returns a text that conditions carry; package explain recognizes it.
func (e *PatienceError) Error() string {
	return fmt.Sprintf("the deleter did not answer within %v", e.Patience)
}
