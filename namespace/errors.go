package namespace

import (
	"context"
	"errors"
)

// The kinds of errors, for namespaces and for content. Match them with [errors.Is].
// [*Error] carries the details, and [HTTPStatus] maps them to status codes.
var (
	ErrNotFound       = errors.New("not found")
	ErrExists         = errors.New("already exists")
	ErrConflict       = errors.New("conflict")            // the object was modified, or a precondition failed
	ErrTerminating    = errors.New("is being terminated") // the namespace takes no new content (rule R6)
	ErrForbidden      = errors.New("forbidden")
	ErrInvalid        = errors.New("invalid")     // a field breaks a rule; [*Error] lists all violations
	ErrBadRequest     = errors.New("bad request") // the request is wrong in every state of the storage
	ErrGone           = errors.New("gone")        // the resource version or continue token is too old: list again
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown")
	ErrUnavailable    = errors.New("unavailable") // the storage cannot serve the call now and changed nothing: retry later
)

// Error is a refused or failed request for one object.
type Error struct {
	Kind     error       // one of the kinds above
	Resource string      // such as "namespaces" or "widgets.example.com"
	Name     string      // of the object; may be empty
	Message  string      // Kubernetes' text where Kubernetes has one
	Causes   []Violation // in the order of the document
	Err      error       // the cause, such as a store error; may be nil
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// httpStatuses lists an error before others that it may wrap. The outcome of a write that was
// interrupted is unknown, whatever interrupted it.
var httpStatuses = []struct {
	kind   error
	status int
}{
	{ErrUnknownOutcome, 500}, // no timeout, since clients retry after those
	{ErrUnavailable, 503},
	{ErrNotFound, 404},
	{ErrExists, 409},
	{ErrConflict, 409},
	{ErrTerminating, 403},
	{ErrForbidden, 403},
	{ErrInvalid, 422},
	{ErrBadRequest, 400},
	{ErrGone, 410},
	{context.DeadlineExceeded, 504},
	{context.Canceled, 504},
}

// HTTPStatus returns the HTTP status code for an error of this library, as the Kubernetes API
// uses them: 200 for nil and 500 for an unknown error.
func HTTPStatus(err error) int {
	if err == nil {
		return 200
	}
	for _, s := range httpStatuses {
		if errors.Is(err, s.kind) {
			return s.status
		}
	}
	return 500
}
