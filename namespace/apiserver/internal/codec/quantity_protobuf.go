package codec

import (
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// layout is where a protobuf message has quantities, or messages with quantities.
// Nothing in a protobuf body tells a quantity from any other text but the number of
// its field, and those of the messages around it; they are in the tags of the Go
// type, from which its decoder was made.
type layout struct {
	quantity bool // field 1 is the text of a quantity
	entry    bool // the message is an entry of a map
	fields   map[int32]*layout
}

// layoutOf returns the layout of a Go type, nil if it has no quantities.
func layoutOf(typed runtime.Object) *layout {
	l := layouts{}.of(reflect.TypeOf(typed))
	if !l.reaches(map[*layout]bool{}) {
		return nil
	}
	return l
}

// layouts are those of the types that have been seen: a type may contain itself.
type layouts map[reflect.Type]*layout

func (seen layouts) of(t reflect.Type) *layout {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return seen.of(t.Elem())
	case reflect.Map:
		if value := seen.of(t.Elem()); value != nil {
			return &layout{entry: true, fields: map[int32]*layout{2: value}}
		}
		return nil
	case reflect.Struct:
	default:
		return nil
	}
	if l, ok := seen[t]; ok {
		return l
	}
	l := &layout{quantity: t == reflect.TypeFor[resource.Quantity](), fields: map[int32]*layout{}}
	seen[t] = l
	for i := range t.NumField() {
		field := t.Field(i)
		parts := strings.Split(field.Tag.Get("protobuf"), ",") // such as "bytes,1,opt,name=hard"
		if len(parts) < 2 {
			continue
		}
		if number, err := strconv.ParseInt(parts[1], 10, 32); err == nil {
			if inner := seen.of(field.Type); inner != nil {
				l.fields[int32(number)] = inner
			}
		}
	}
	return l
}

// reaches reports whether there is a quantity in a message.
func (l *layout) reaches(seen map[*layout]bool) bool {
	if l == nil || seen[l] {
		return false
	}
	seen[l] = true
	if l.quantity {
		return true
	}
	for _, inner := range l.fields {
		if inner.reaches(seen) {
			return true
		}
	}
	return false
}

// costly reports whether a message has a quantity that nobody should read. It goes
// through a body as the decoders of Kubernetes do, whatever they tolerate: numbers in
// more bytes than they need, and entries of maps whose fields have any wire type and
// end behind the entry. Where they would fail it stops: what is behind is not read.
func (l *layout) costly(data []byte) bool {
	return l != nil && l.within(data, len(data))
}

// within looks at the fields of a message that begin before end; one of an entry may
// reach further.
func (l *layout) within(data []byte, end int) bool {
	r := wire{data: data}
	for r.at < end {
		number, kind := r.tag()
		if r.failed {
			return false
		}
		inner := l.fields[number]
		text := l.quantity && number == 1
		if kind != bytesKind && !(l.entry && (number == 1 || number == 2)) {
			if r.skip(kind); r.failed || inner != nil || text {
				return false
			}
			continue
		}
		size, start := r.length()
		if r.failed {
			return false
		}
		switch {
		case text && costly(data[start:start+size]):
			return true
		case inner != nil && inner.entry && inner.within(data[start:], size):
			return true
		case inner != nil && !inner.entry && inner.within(data[start:start+size], size):
			return true
		}
	}
	return false
}

// wire reads the encoding of protobuf.
type wire struct {
	data   []byte
	at     int
	failed bool
}

// Wire types.
const (
	varintKind  = 0
	fixed64Kind = 1
	bytesKind   = 2
	groupKind   = 3
	endKind     = 4
	fixed32Kind = 5
)

func (r *wire) varint() uint64 {
	var value uint64
	for shift := 0; shift < 64 && r.at < len(r.data); shift += 7 {
		b := r.data[r.at]
		r.at++
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return value
		}
	}
	r.failed = true
	return 0
}

// tag begins a field. Its number has 32 bits for the decoders, whatever was sent.
func (r *wire) tag() (number int32, kind int) {
	tag := r.varint()
	return int32(tag >> 3), int(tag & 7)
}

// length reads the length of bytes, which has as many bits as the decoders take, and
// goes behind them.
func (r *wire) length() (size, start int) {
	size, start = int(r.varint()), r.at
	if r.failed = r.failed || size < 0 || size > len(r.data)-start; r.failed {
		return 0, start
	}
	r.at += size
	return size, start
}

// skip goes behind a field that is of no interest.
func (r *wire) skip(kind int) {
	for depth := 0; !r.failed; {
		switch kind {
		case varintKind:
			r.varint()
		case fixed64Kind:
			r.advance(8)
		case bytesKind:
			r.length()
		case groupKind:
			depth++
		case endKind:
			depth--
		case fixed32Kind:
			r.advance(4)
		default:
			r.failed = true
		}
		if depth <= 0 {
			r.failed = r.failed || depth < 0
			return
		}
		_, kind = r.tag()
	}
}

func (r *wire) advance(n int) {
	r.at += n
	r.failed = r.failed || r.at > len(r.data)
}
