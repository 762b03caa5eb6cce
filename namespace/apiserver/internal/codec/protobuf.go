package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// magic begins every protobuf body. A runtime.Unknown follows: the kind and the encoded
// object.
const magic = "k8s\x00"

// message is implemented by the generated Go types of Kubernetes.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// envelope decodes the runtime.Unknown of the body.
func (d *decoding) envelope() (runtime.Unknown, error) {
	var unknown runtime.Unknown
	raw, ok := bytes.CutPrefix(d.body, []byte(magic))
	switch {
	case len(d.body) == 0:
		return unknown, d.unrecognized(errors.New("empty data"))
	case !ok:
		return unknown, d.unrecognized(fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(magic)))
	case len(raw) == 0:
		return unknown, d.unrecognized(errors.New("empty body"))
	}
	if err := unknown.Unmarshal(raw); err != nil {
		return unknown, d.unrecognized(err)
	}
	return unknown, nil
}

// protobuf decodes the body. There are no warnings, since unknown fields have no names.
func (d *decoding) protobuf() (registry.Object, error) {
	unknown, err := d.envelope()
	if err != nil {
		return registry.Object{}, err
	}
	if err := d.expected(unknown.Kind, unknown.APIVersion); err != nil {
		return registry.Object{}, err
	}
	typed, m, err := newMessage(d.kind)
	if err != nil {
		return registry.Object{}, err
	}
	err = d.form.quantities.CheckProtobuf(unknown.Raw)
	if err == nil {
		err = m.Unmarshal(unknown.Raw)
	}
	if err != nil {
		return registry.Object{}, d.unfit("", "", err)
	}
	o, err := d.stored(typed)
	if err != nil {
		return registry.Object{}, err
	}
	if err := checkUTF8(o); err != nil {
		return registry.Object{}, d.unfit("", "", err)
	}
	return o, nil
}

func newMessage(k kinds.Kind) (runtime.Object, message, error) {
	typed := k.Object.DeepCopyObject()
	m, ok := typed.(message)
	if !ok {
		return nil, nil, fmt.Errorf("codec: the Go type %T of %s has no protobuf form", typed, k.Name())
	}
	return typed, m, nil
}

// checkUTF8 rejects an object with invalid UTF-8, which the protobuf decoders accept.
// encoding/json replaces it by the escape of U+FFFD, and leaves that character itself
// unescaped; it copies managed fields as they are.
func checkUTF8(o registry.Object) error {
	metadata, err := json.Marshal(o.Meta)
	if err != nil {
		return err
	}
	invalid := func(value []byte) bool {
		return !utf8.Valid(value) || bytes.Contains(bytes.ReplaceAll(value, []byte(`\\`), nil), []byte(`\ufffd`))
	}
	if invalid(metadata) {
		return errUTF8
	}
	for _, value := range o.Fields {
		if invalid(value) {
			return errUTF8
		}
	}
	return nil
}

// protobufObject encodes o in its envelope.
func protobufObject(f Format, k kinds.Kind, o registry.Object) ([]byte, error) {
	m, err := messageOf(f, k, o)
	if err != nil {
		return nil, err
	}
	kind, apiVersion := f.typeOf(k, "")
	return envelope(kind, apiVersion, m)
}

// messageOf converts o to the message that f asks for.
func messageOf(f Format, k kinds.Kind, o registry.Object) (message, error) {
	if f.as == asMetadata {
		meta, err := toMeta(o.Meta)
		return &metav1.PartialObjectMetadata{ObjectMeta: meta}, err
	}
	if f.as != asItIs || !k.BuiltIn() {
		return nil, fmt.Errorf("codec: %s has no such protobuf form", k.Name())
	}
	typed, m, err := newMessage(k)
	if err != nil {
		return nil, err
	}
	return m, fill(k, typed, o)
}

// Tags of protobuf fields with a length: their number and wire type 2.
const (
	tag1 = 0x0a
	tag2 = 0x12
	tag3 = 0x1a
	tag4 = 0x22
)

// protobufList encodes a list item by item. Field 1 of every list type is its metadata,
// field 2 its items.
func protobufList(f Format, k kinds.Kind, l registry.ObjectList) ([]byte, error) {
	raw, err := appendMessage(nil, tag1, &metav1.ListMeta{
		ResourceVersion: l.ResourceVersion, Continue: l.Continue, RemainingItemCount: l.RemainingItemCount,
	})
	if err != nil {
		return nil, err
	}
	for _, o := range l.Items {
		m, err := messageOf(f, k, o)
		if err != nil {
			return nil, err
		}
		if raw, err = appendMessage(raw, tag2, m); err != nil {
			return nil, err
		}
	}
	kind, apiVersion := f.typeOf(k, "List")
	buf := appendHead(kind, apiVersion, len(raw))
	return append(append(buf, raw...), tag3, 0, tag4, 0), nil
}

// appendMessage appends a field that contains m.
func appendMessage(buf []byte, tag byte, m message) ([]byte, error) {
	size := m.Size()
	buf = binary.AppendUvarint(append(buf, tag), uint64(size))
	start := len(buf)
	if cap(buf)-start < size {
		buf = append(make([]byte, 0, 2*(start+size)), buf...)
	}
	buf = buf[:start+size]
	if _, err := m.MarshalToSizedBuffer(buf[start:]); err != nil {
		return nil, fmt.Errorf("codec: encoding %T: %w", m, err)
	}
	return buf, nil
}

// envelope encodes m in a runtime.Unknown. The last two fields, the content encoding and
// the content type, are empty.
func envelope(kind, apiVersion string, m message) ([]byte, error) {
	size := m.Size()
	buf := appendHead(kind, apiVersion, size)
	if _, err := m.MarshalToSizedBuffer(buf[len(buf) : len(buf)+size]); err != nil {
		return nil, fmt.Errorf("codec: encoding %T: %w", m, err)
	}
	return append(buf[:len(buf)+size], tag3, 0, tag4, 0), nil
}

// appendHead returns the beginning of an envelope, with room for the rest: an object of the
// given size and the last fields.
func appendHead(kind, apiVersion string, size int) []byte {
	buf := make([]byte, 0, len(magic)+len(kind)+len(apiVersion)+size+6*binary.MaxVarintLen32)
	meta := runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}
	buf = binary.AppendUvarint(append(append(buf, magic...), tag1), uint64(meta.Size()))
	buf = appendBytes(appendBytes(buf, tag1, apiVersion), tag2, kind)
	return binary.AppendUvarint(append(buf, tag2), uint64(size))
}

// appendBytes appends a field with text or bytes.
func appendBytes[T string | []byte](buf []byte, tag byte, value T) []byte {
	return append(binary.AppendUvarint(append(buf, tag), uint64(len(value))), value...)
}

// protobufEvent returns a WatchEvent after its length. The object of the event is a
// RawExtension, whose only field is an envelope.
func protobufEvent(eventType, kind, apiVersion string, m message) ([]byte, error) {
	object, err := envelope(kind, apiVersion, m)
	if err != nil {
		return nil, err
	}
	extension := 1 + uvarintSize(len(object)) + len(object)
	size := 1 + uvarintSize(len(eventType)) + len(eventType) + 1 + uvarintSize(extension) + extension
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	buf = appendBytes(buf, tag1, eventType)
	buf = binary.AppendUvarint(append(buf, tag2), uint64(extension))
	return appendBytes(buf, tag1, object), nil
}

// uvarintSize returns the number of bytes of n as a varint.
func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// typeOf returns the kind and apiVersion of a response with objects of k; suffix is "List"
// for lists.
func (f Format) typeOf(k kinds.Kind, suffix string) (kind, apiVersion string) {
	if f.as == asMetadata {
		return "PartialObjectMetadata" + suffix, f.apiVersion()
	}
	return k.Kind + suffix, k.APIVersion()
}
