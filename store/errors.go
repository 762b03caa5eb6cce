package store

import (
	"errors"
	"fmt"
	"strconv"
)

// The errors of every store; match them with [errors.Is].
var (
	ErrNotFound       = errors.New("not found")
	ErrConflict       = errors.New("a condition does not hold") // always a [*ConflictError]
	ErrGone           = errors.New("the position is gone, list again")
	ErrFuture         = errors.New("the position lies ahead of the store") // always a [*FutureError]
	ErrInvalid        = errors.New("invalid")
	ErrTooLarge       = errors.New("too large")
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown, read back")
	ErrUnavailable    = errors.New("the store is unavailable, nothing was written, try again later") // the engine cannot be reached, is starting or stopping, or lacks a leader or resources
	ErrFull           = errors.New("the store has no space left, nothing was written")
	ErrClosed         = errors.New("the store is closed")
	ErrInUse          = errors.New("the store is in use by another process")
)

// Error says which operation on which key (or prefix) failed.
type Error struct {
	Op  string // "get", "list", "count", "commit", "watch", "compact", "open", "close"
	Key string // the prefix of a listing or watch, the key of the condition of a conflict; may be empty
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Key == "" {
		return "store: " + e.Op + ": " + e.Err.Error()
	}
	return "store: " + e.Op + " " + quote(e.Key) + ": " + e.Err.Error()
}

// Wrap returns err as an [*Error] of an operation on key, or nil if err is nil. For a
// [*ConflictError] the key is that of the failed condition.
func Wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		key = conflict.Condition.Key
	}
	return &Error{Op: op, Key: key, Err: err}
}

// quote quotes a key for a text, and cuts a long one: what is too large for a
// store is too large for a log as well.
func quote(key string) string {
	const most = 200
	if len(key) <= most {
		return strconv.Quote(key)
	}
	return fmt.Sprintf("%q... (%d bytes)", key[:most], len(key))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ConflictError is a transaction refused by one of its conditions. It matches
// [ErrConflict].
type ConflictError struct {
	Condition Condition
	Current   *Entry // what the key is now; nil: absent
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Current == nil {
		return fmt.Sprintf("conflict: wanted %v, it is absent", e.Condition)
	}
	return fmt.Sprintf("conflict: wanted %v, it is at revision %d", e.Condition, e.Current.Revision)
}

// Is makes the error match [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// FutureError is a revision that lies ahead of the store. It matches [ErrFuture].
type FutureError struct {
	Asked   Revision
	Current Revision // of the store, when it refused: less than Asked
}

// Error implements error.
func (e *FutureError) Error() string {
	return fmt.Sprintf("%v: revision %d, the store is at %d", ErrFuture, e.Asked, e.Current)
}

// Is makes the error match [ErrFuture].
func (e *FutureError) Is(target error) bool { return target == ErrFuture }
