package selector

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func badRequest(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Message: message}
}

// tooMany refuses a selector that costs too much.
func tooMany(what string) error {
	return badRequest(fmt.Sprintf("the %s has too many requirements, at most %d are allowed", what, MaxRequirements))
}

// checkText refuses what no selector can be.
func checkText(what, text string) error {
	if len(text) > MaxLength {
		return badRequest(fmt.Sprintf("the %s has %d bytes, at most %d are allowed", what, len(text), MaxLength))
	}
	if !utf8.ValidString(text) {
		return badRequest(fmt.Sprintf("the %s is not valid UTF-8", what))
	}
	return nil
}

// checkKey refuses what cannot be a label's key.
func checkKey(key string) error {
	if wrong := syntax.QualifiedName(key); len(wrong) > 0 {
		return fmt.Errorf("key: Invalid value: %.80q: %s", key, strings.Join(wrong, "; "))
	}
	return nil
}

// checkValue refuses what cannot be the value of a label.
func checkValue(key, value string) error {
	if wrong := syntax.LabelValue(value); len(wrong) > 0 {
		return fmt.Errorf("values[%s]: Invalid value: %.80q: %s", key, value, strings.Join(wrong, "; "))
	}
	return nil
}
