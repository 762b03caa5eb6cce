package namespace

import "errors"

// The kinds of refusal, for namespaces and for content. Match them with
// [errors.Is]; [*Error] carries the details.
var (
	ErrNotFound       = errors.New("not found")
	ErrExists         = errors.New("already exists")
	ErrConflict       = errors.New("conflict")            // the object was modified, or a precondition failed
	ErrTerminating    = errors.New("is being terminated") // no content is created in it any more (rule R6)
	ErrForbidden      = errors.New("forbidden")
	ErrInvalid        = errors.New("invalid")     // a field breaks a rule; [*Error] lists all violations
	ErrBadRequest     = errors.New("bad request") // the request makes no sense, whatever is stored
	ErrGone           = errors.New("gone")        // the resource version or continue token is too old: list again
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown")
	ErrUnavailable    = errors.New("unavailable") // the storage cannot serve the call now, nothing was changed: try again later
)

// Error is a refusal: what was asked of which object, why it was refused.
type Error struct {
	Kind     error       // one of the kinds above; [errors.Is] matches it
	Resource string      // such as "namespaces" or "widgets.example.com"
	Name     string      // of the object; may be empty
	Message  string      // for people: upstream's text where upstream has one
	Causes   []Violation // the fields at fault, in the order of the document
	Err      error       // what lies beneath, such as a store error; may be nil
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
