// Package quantity keeps costly quantities from Kubernetes' parser, which writes out the number:
// it needs hours for "1e-2000000000", and a sum with "1e2000000000" takes gigabytes. [Parse]
// reads one value, and a [Layout] finds quantities in a request body before a Go type parses
// them.
package quantity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a quantity.
const (
	maxDigits   = 64
	maxExponent = 30
)

var errCostly = fmt.Errorf("a number of at most %d digits with an exponent of at most %d is expected", maxDigits, maxExponent)

// ErrSyntax is the error for a value that is no quantity, in Kubernetes' words.
var ErrSyntax = errors.New("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")

// ErrNegative is the error for a quantity below zero, in Kubernetes' words.
var ErrNegative = errors.New("must be greater than or equal to 0")

// Parse reads a JSON string, or a number as a json.Number, as a quantity that is not negative.
func Parse(value any) (resource.Quantity, error) {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		return resource.Quantity{}, ErrSyntax
	}
	if costly([]byte(text)) {
		return resource.Quantity{}, ErrSyntax
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, ErrSyntax
	}
	if q.Sign() < 0 {
		return resource.Quantity{}, ErrNegative
	}
	return q, nil
}

// costly reports whether text begins with a number beyond the bounds.
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
	for _, c := range bytes.TrimLeft(rest[1:], "+-") {
		if c < '0' || c > '9' {
			return false
		}
		if exponent = 10*exponent + int(c-'0'); exponent > maxExponent {
			return true
		}
	}
	return false
}
