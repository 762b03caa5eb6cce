package store

import (
	"errors"
	"fmt"
	"strconv"
)

// The errors of every store. Match them with [errors.Is].
var (
	ErrNotFound       = errors.New("not found")
	ErrConflict       = errors.New("a condition of the transaction failed") // always a [*ConflictError]
	ErrGone           = errors.New("the position is no longer in the history, list again")
	ErrFuture         = errors.New("the position is ahead of the store") // always a [*FutureError]
	ErrInvalid        = errors.New("invalid")
	ErrTooLarge       = errors.New("too large")
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown, read the keys to find out")
	ErrUnavailable    = errors.New("the store is unavailable, nothing was written, try again later") // the engine cannot be reached, is starting or stopping, or lacks a leader or resources
	ErrFull           = errors.New("the store has no space left, nothing was written")
	ErrClosed         = errors.New("the store is closed")
	ErrInUse          = errors.New("the store is in use by another process")
)

// Error reports which operation failed on which key or prefix.
type Error struct {
	Op  string // "get", "list", "count", "commit", "watch", "compact", "open", "close"
	Key string // the prefix of a listing or watch, the key of a failed condition; may be empty
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

// quote quotes a key for an error message and cuts a long one.
func quote(key string) string {
	const limit = 200
	if len(key) <= limit {
		return strconv.Quote(key)
	}
	return fmt.Sprintf("%q... (%d bytes)", key[:limit], len(key))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ConflictError reports that a condition of a transaction failed. It matches [ErrConflict].
type ConflictError struct {
	Condition Condition
	Current   *Entry // the current entry of the key; nil if absent
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Current == nil {
		return fmt.Sprintf("conflict: expected that %v, but it is absent", e.Condition)
	}
	return fmt.Sprintf("conflict: expected that %v, but it is at revision %d", e.Condition, e.Current.Revision)
}

// Is makes the error match [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// FutureError reports a revision that lies ahead of the store. It matches [ErrFuture].
type FutureError struct {
	Asked   Revision
	Current Revision // of the store at that time, less than Asked
}

// Error implements error.
func (e *FutureError) Error() string {
	return fmt.Sprintf("%v: revision %d, the store is at %d", ErrFuture, e.Asked, e.Current)
}

// Is makes the error match [ErrFuture].
func (e *FutureError) Is(target error) bool { return target == ErrFuture }
