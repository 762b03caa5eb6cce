package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// RawJSON is a JSON value that is kept as it is. Empty means none; null decodes
// to it.
type RawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *RawJSON) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*r = nil
		return nil
	}
	*r = slices.Clone(data)
	return nil
}

// Decode reads one namespace from JSON. It is as lenient as Kubernetes' own
// types: fields that it does not know are dropped, nothing is required. What is
// not JSON, or of the wrong type, is refused with an [*Error] of kind
// [ErrBadRequest] that says where.
func Decode(data []byte) (Namespace, error) {
	var n Namespace
	if err := json.Unmarshal(data, &n); err != nil {
		return Namespace{}, malformed(err)
	}
	return n, nil
}

func malformed(err error) *Error {
	message := "the document is malformed: " + err.Error()
	var syntax *json.SyntaxError
	kind, typed := err.(*json.UnmarshalTypeError) // one that a field returned would not name it
	switch {
	case errors.As(err, &syntax):
		message = fmt.Sprintf("the document is malformed at byte %d: %v", syntax.Offset, err)
	case typed && kind.Field == "":
		message = "the document cannot be a JSON " + kind.Value
	case typed:
		message = fmt.Sprintf("the field %q cannot be a JSON %s", kind.Field, kind.Value)
	}
	return &Error{Kind: ErrBadRequest, Resource: Resource, Message: message, Err: err}
}
