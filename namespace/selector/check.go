package selector

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
)

func badRequest(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Message: message}
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

// checkKey refuses what cannot be a label's key: "name" or "domain/name".
func checkKey(key string) error {
	domain, name, qualified := strings.Cut(key, "/")
	if !qualified {
		domain, name = "", key
	}
	if qualified && !subdomain(domain) {
		return fmt.Errorf("the prefix of the label key %.80q must be a lower-case DNS name of at most 253 characters", key)
	}
	if name == "" || !labelText(name) {
		return fmt.Errorf("the name part of the label key %.80q must be 1 to 63 characters: letters, digits, '-', '_' or '.', "+
			"beginning and ending with a letter or digit", key)
	}
	return nil
}

func checkValue(key, value string) error {
	if value != "" && !labelText(value) {
		return fmt.Errorf("the value %.80q for the label %s must be at most 63 characters: letters, digits, '-', '_' or '.', "+
			"beginning and ending with a letter or digit", value, key)
	}
	return nil
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func labelText(s string) bool {
	if len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// subdomain reports whether s is a lower-case DNS name.
func subdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || !labelText(label) || strings.ToLower(label) != label || strings.Contains(label, "_") {
			return false
		}
	}
	return true
}
