package namespace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/phase"
)

// The kinds of errors, for namespaces and for content. Match them with [errors.Is]. [*Error]
// carries the details, and [HTTPStatus] maps them to status codes.
var (
	ErrNotFound       = errors.New("not found")
	ErrExists         = errors.New("already exists")
	ErrConflict       = errors.New("conflict")            // the object was modified, or a precondition failed
	ErrTerminating    = errors.New("is being terminated") // the namespace takes no new content (rule R6)
	ErrForbidden      = errors.New("forbidden")
	ErrInvalid        = errors.New("invalid")     // a field breaks a rule; [*Error] lists all violations
	ErrBadRequest     = errors.New("bad request") // the request is malformed and can never succeed
	ErrGone           = errors.New("gone")        // the resource version or continue token is too old: list again
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown")
	ErrUnavailable    = errors.New("unavailable") // the storage cannot serve the call now and changed nothing: retry later
)

// httpStatuses maps errors to status codes. The first match counts: the outcome of a write that
// was interrupted is unknown, whatever interrupted it.
var httpStatuses = []struct {
	kind   error
	status int
}{
	{ErrUnknownOutcome, 500}, // not a timeout, after which clients may retry
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

// HTTPStatus returns the HTTP status code of the Kubernetes API for an error of this library:
// 200 for nil and 500 for an unknown error. It knows the kinds above. Package apiserver is more
// exact about errors of the store: 413 too large, 504 a future version, 507 full, 503 closed.
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

// Violation is one field that breaks one rule.
type Violation struct {
	Type    string // one of the types below, or "NamespaceTerminating"
	Field   string // the path, such as "spec.finalizers[0]"
	Message string // such as `Invalid value: "x": must not contain dots`
}

// The types of violations, as Kubernetes names them.
const (
	FieldRequired     = "FieldValueRequired"
	FieldInvalid      = "FieldValueInvalid"
	FieldNotSupported = "FieldValueNotSupported"
	FieldForbidden    = "FieldValueForbidden"
	FieldDuplicate    = "FieldValueDuplicate"
	FieldTooLong      = "FieldValueTooLong"
)

// InvalidField returns a violation of a rule by the value of a field.
func InvalidField(field, value, rule string) Violation {
	return Violation{FieldInvalid, field, "Invalid value: " + quoted(value) + ": " + rule}
}

// ForbiddenField returns a violation by a field that may not be set or changed.
func ForbiddenField(field, rule string) Violation {
	return Violation{FieldForbidden, field, "Forbidden: " + rule}
}

// Invalid returns an [*Error] of kind [ErrInvalid] with all violations and Kubernetes' message,
// such as
//
//	Namespace "x" is invalid: metadata.name: Invalid value: "x": must not contain dots
//
// The message lists several violations in brackets. Kind is "Namespace", or includes the group:
// "Widget.example.com". Invalid returns nil if there are no violations.
func Invalid(kind, resource, name string, violations []Violation) error {
	if len(violations) == 0 {
		return nil
	}
	seen := make(map[string]bool, len(violations))
	var texts []string
	for _, v := range violations {
		text := v.Field + ": " + v.Message
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	message := texts[0]
	if len(texts) > 1 {
		message = "[" + strings.Join(texts, ", ") + "]"
	}
	return &Error{
		Kind: ErrInvalid, Resource: resource, Name: name, Causes: violations,
		Message: fmt.Sprintf("%s %s is invalid: %s", kind, quoted(name), message),
	}
}

// quoted returns s, or the beginning of a long s, in quotes. Quotes escape invalid UTF-8.
func quoted(s string) string {
	const limit = 1024
	if len(s) > limit {
		s = phase.Truncate(s, limit)
	}
	return strconv.Quote(s)
}

// violations collects the violations of one document.
type violations []Violation

func (vs *violations) add(v ...Violation) { *vs = append(*vs, v...) }

func (vs *violations) required(field, text string) {
	if text != "" {
		text = ": " + text
	}
	vs.add(Violation{FieldRequired, field, "Required value" + text})
}

func (vs *violations) invalid(field, value, rule string) { vs.add(InvalidField(field, value, rule)) }

// broken reports an invalid value without repeating it.
func (vs *violations) broken(field, rule string) {
	vs.add(Violation{FieldInvalid, field, "Invalid value: " + rule})
}

func (vs *violations) forbidden(field, rule string) { vs.add(ForbiddenField(field, rule)) }

// problems reports the results of package syntax for one value.
func (vs *violations) problems(field, value string, rules []string) {
	for _, rule := range rules {
		vs.invalid(field, value, rule)
	}
}

// limit refuses a size in bytes above limit.
func (vs *violations) limit(field string, size, limit int) {
	if size > limit {
		vs.add(Violation{FieldTooLong, field, fmt.Sprintf("Too long: may not be more than %d bytes", limit)})
	}
}

// utf8 refuses a string that JSON cannot represent.
func (vs *violations) utf8(field, value string) {
	if !utf8.ValidString(value) {
		vs.broken(field, "must be valid UTF-8")
	}
}

// time refuses a time that JSON cannot represent.
func (vs *violations) time(field string, t phase.Time) {
	if t.IsZero() {
		return
	}
	if _, err := t.MarshalJSON(); err != nil {
		vs.broken(field, err.Error())
	}
}

// unchanged refuses a change of a field that no request may change.
func (vs *violations) unchanged(field, before, after string) {
	if before != after {
		vs.invalid(field, after, "field is immutable")
	}
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
