package fieldpath

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// What a quantity may be. The text of an honest one is short, and its exponent
// small; with a great one every sum would cost gigabytes.
const (
	maxQuantity = 64 // bytes
	maxExponent = 30
)

// ErrQuantity is the fault of a value that is no quantity, in Kubernetes' words.
var ErrQuantity = errors.New("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")

// ErrNegative is the fault of a quantity below zero, in Kubernetes' words.
var ErrNegative = errors.New("must be greater than or equal to 0")

// Quantity reads a JSON string or number ([Found]) as a quantity that is not
// negative.
func Quantity(value any) (resource.Quantity, error) {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		return resource.Quantity{}, ErrQuantity
	}
	if len(text) > maxQuantity || !smallExponent(text) {
		return resource.Quantity{}, ErrQuantity
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, ErrQuantity
	}
	if q.Sign() < 0 {
		return resource.Quantity{}, ErrNegative
	}
	return q, nil
}

// smallExponent looks at the part after e or E; without digits that is a suffix. Its
// digits are read with 64 bits on every platform, as Kubernetes does.
func smallExponent(text string) bool {
	i := strings.IndexAny(text, "eE")
	if i < 0 || i == len(text)-1 {
		return true
	}
	exponent, err := strconv.ParseInt(text[i+1:], 10, 64)
	return err != nil || -maxExponent <= exponent && exponent <= maxExponent // what is no exponent fails later
}

// Show returns a value for a message, cut when it is long.
func Show(value any) string {
	text, ok := value.(string)
	if !ok {
		raw, err := json.Marshal(value)
		if err != nil {
			return "?"
		}
		text = string(raw)
		if len(text) <= maxQuantity {
			return text
		}
	}
	if len(text) > maxQuantity {
		text = strings.ToValidUTF8(text[:maxQuantity], "") + "..."
	}
	return strconv.Quote(text)
}
