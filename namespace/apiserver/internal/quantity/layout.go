package quantity

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

var errEncoding = errors.New("the protobuf message is not encoded as its Go type encodes it")

// Layout locates the quantities in the messages of a Go type. In protobuf only field numbers
// distinguish them from other texts. A nil Layout is for a type without quantities.
type Layout struct {
	quantity bool // the text of a quantity
	key      bool // the key of a map entry
	fields   map[protowire.Number]*Layout
}

// LayoutOf returns the layout of a Go type that was generated from protobuf.
func LayoutOf(t reflect.Type) *Layout {
	if l := (layouts{}).of(t); l.hasQuantity(map[*Layout]bool{}) {
		return l
	}
	return nil
}

// layouts are the layouts by type. Those of recursive types contain themselves.
type layouts map[reflect.Type]*Layout

// of derives the layout of a type from the tags that its decoder was generated from.
func (seen layouts) of(t reflect.Type) *Layout {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return seen.of(t.Elem())
	case reflect.Map:
		if value := seen.of(t.Elem()); value != nil {
			return &Layout{fields: map[protowire.Number]*Layout{1: {key: true}, 2: value}}
		}
		return nil
	case reflect.Struct:
	default:
		return nil
	}
	if l, ok := seen[t]; ok {
		return l
	}
	l := &Layout{fields: map[protowire.Number]*Layout{}}
	seen[t] = l
	if t == reflect.TypeFor[resource.Quantity]() {
		l.fields[1] = &Layout{quantity: true}
		return l
	}
	for i := range t.NumField() {
		field := t.Field(i)
		parts := strings.Split(field.Tag.Get("protobuf"), ",") // for example "bytes,1,opt,name=hard"
		if len(parts) < 2 {
			continue
		}
		if number, err := strconv.ParseInt(parts[1], 10, 32); err == nil {
			if inner := seen.of(field.Type); inner != nil {
				l.fields[protowire.Number(number)] = inner
			}
		}
	}
	return l
}

// hasQuantity reports whether a message can contain a quantity.
func (l *Layout) hasQuantity(seen map[*Layout]bool) bool {
	if l.quantity {
		return true
	}
	if seen[l] {
		return false
	}
	seen[l] = true
	for _, inner := range l.fields {
		if inner.hasQuantity(seen) {
			return true
		}
	}
	return false
}

// CheckJSON rejects a JSON document with a costly quantity. Only the Go type knows which texts
// are quantities. So CheckJSON makes every costly text unparseable and decodes the copy into the
// type of empty. If that fails, one of them was a quantity.
func (l *Layout) CheckJSON(data []byte, empty runtime.Object) error {
	if l == nil {
		return nil
	}
	disarmed := disarm(data)
	if disarmed == nil {
		return nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(disarmed, empty.DeepCopyObject()); err != nil {
		return fmt.Errorf("%w: %w", errCostly, err)
	}
	return nil
}

// disarm returns a copy of a JSON document with a letter for a digit in each costly string
// and number, or nil if there is none. Strings in base64 remain valid.
func disarm(data []byte) []byte {
	var out []byte
	for i := 0; i < len(data); i++ {
		start, end := i, i
		switch c := data[i]; {
		case c == '"':
			start, end = i+1, endOfString(data, i+1)
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end = i + len(data[i:]) - len(bytes.TrimLeft(data[i:], "0123456789.+-eE"))
			i = end - 1
		default:
			continue
		}
		if text := data[start:end]; costly(text) {
			if out == nil {
				out = bytes.Clone(data)
			}
			out[start+bytes.IndexAny(text, "0123456789")] = 'x'
		}
	}
	return out
}

// endOfString returns the position of the quote that ends the string at i.
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

// CheckProtobuf rejects a message with a costly quantity. The generated decoders accept more
// than protobuf allows, such as any wire type in map entries; whatever they might read
// differently than this function is rejected as well.
func (l *Layout) CheckProtobuf(message []byte) error {
	if l == nil || l.key {
		return nil
	}
	if l.quantity {
		if costly(message) {
			return errCostly
		}
		return nil
	}
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errEncoding
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, wire, message); n < 0 {
			return errEncoding
		}
		if inner := l.fields[number]; inner != nil {
			if wire != protowire.BytesType {
				return errEncoding
			}
			value, _ := protowire.ConsumeBytes(message)
			if err := inner.CheckProtobuf(value); err != nil {
				return err
			}
		}
		message = message[n:]
	}
	return nil
}
