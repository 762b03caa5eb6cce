// Package selector implements label and field selectors, in the syntax of Kubernetes, for lists and
// watches of namespaces and content (design proposal of Kubernetes, "REST API").
//
// Selectors are immutable values and safe for concurrent use. The zero [Labels] and the zero
// [Fields] match everything.
package selector

import (
	"fmt"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// MaxLength is the limit of a selector in text form, in bytes.
const MaxLength = 64 << 10

// MaxRequirements is the limit of the different requirements of a selector. Every requirement is
// checked against every object, once for every watch; the values of a set are searched.
const MaxRequirements = 1000

func badRequest(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Message: message}
}

func tooMany(kind string) error {
	return badRequest(fmt.Sprintf("the %s has too many requirements, at most %d are allowed", kind, MaxRequirements))
}

// checkText checks the length and the encoding of a selector.
func checkText(kind, text string) error {
	if len(text) > MaxLength {
		return badRequest(fmt.Sprintf("the %s has %d bytes, at most %d are allowed", kind, len(text), MaxLength))
	}
	if !utf8.ValidString(text) {
		return badRequest(fmt.Sprintf("the %s is not valid UTF-8", kind))
	}
	return nil
}
