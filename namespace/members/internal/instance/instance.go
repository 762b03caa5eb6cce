// Package instance identifies the processes that replicas and parties record in the store,
// and checks the parts of their keys and values that users choose.
package instance

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLabel bounds the label of a process, in bytes.
const MaxLabel = 253

// NewID returns a random id. It is never used twice, so a late write of a former instance
// cannot be mistaken for a write of its successor.
func NewID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// DefaultLabel returns the host's name and the process's number.
func DefaultLabel() string {
	host, err := os.Hostname()
	if err != nil || host == "" || CheckText("", host, MaxLabel/2) != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// CheckText returns an error if text is not one line of UTF-8 of at most max bytes, fit for
// a terminal.
func CheckText(field, text string, max int) error {
	switch {
	case len(text) > max:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", field, len(text), max)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not valid UTF-8", field, text)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s %q has a control character", field, text)
	}
	return nil
}
