package codec

import (
	"bytes"
	"fmt"
	"slices"
)

// What a quantity may be. Reading "1e-2000000000" costs hours, and a sum with
// "1e2000000000" gigabytes, so they must be found before a Go type reads them.
const (
	maxDigits   = 64
	maxExponent = 30
)

// costly reports whether a text, if it were read as a quantity, would cost more
// than an honest one.
func costly(text []byte) bool {
	text = bytes.TrimLeft(bytes.TrimSpace(text), "+-")
	rest := bytes.TrimLeft(text, "0123456789.")
	switch digits := len(text) - len(rest); {
	case digits == 0:
		return false
	case digits > maxDigits:
		return true
	}
	if len(rest) < 2 || rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	exponent := 0
	for _, c := range bytes.TrimLeft(bytes.TrimLeft(rest[1:], "+-"), "0") {
		if c < '0' || c > '9' {
			return false
		}
		if exponent = 10*exponent + int(c-'0'); exponent > maxExponent {
			return true
		}
	}
	return false
}

// disarm makes a costly text none that a quantity can be read from. It stays a
// text of the same length, and base64 if it was.
func disarm(text []byte) {
	if i := bytes.IndexAny(text, "0123456789"); i >= 0 {
		text[i] = 'x'
	}
}

// disarmJSON returns a copy of a JSON document without costly texts and numbers,
// and whether there are any. Most of them are no quantities: only a Go type knows.
func disarmJSON(data []byte) (disarmed []byte, found bool) {
	for i := 0; i < len(data); i++ {
		start, end := i, i
		switch c := data[i]; {
		case c == '"':
			start, end = i+1, endOfString(data, i+1)
			i = end
		case c == '-' || '0' <= c && c <= '9':
			for end = i + 1; end < len(data) && bytes.IndexByte([]byte("0123456789.+-eE"), data[end]) >= 0; end++ {
			}
			i = end - 1
		default:
			continue
		}
		if costly(data[start:end]) {
			if !found {
				disarmed, found = slices.Clone(data), true
			}
			disarm(disarmed[start:end])
		}
	}
	return disarmed, found
}

// endOfString returns where the string that begins at i ends: at its quote.
func endOfString(data []byte, i int) int {
	for i < len(data) {
		next := bytes.IndexAny(data[i:], `"\`)
		switch {
		case next < 0:
			return len(data)
		case data[i+next] == '"':
			return i + next
		}
		i += next + 2
	}
	return len(data)
}

// errCostly refuses a quantity that nobody should read.
var errCostly = fmt.Errorf("a number of at most %d digits with an exponent of at most %d is expected", maxDigits, maxExponent)

// readable refuses a document with costly quantities: decode must be able to read
// it without the costly texts that are none.
func readable(disarmed []byte, found bool, decode func([]byte) error) error {
	if !found {
		return nil
	}
	if err := decode(disarmed); err != nil {
		return fmt.Errorf("%w: %w", errCostly, err)
	}
	return nil
}
