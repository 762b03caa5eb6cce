package codec

import (
	"encoding/binary"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// sized is a message that can be written.
type sized interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// protobufObject returns o in its envelope.
func protobufObject(f Format, k kinds.Kind, o registry.Object) ([]byte, error) {
	m, err := messageOf(f, k, o)
	if err != nil {
		return nil, err
	}
	if f.as == asMetadata {
		return envelope("PartialObjectMetadata", f.apiVersion(), m)
	}
	return envelope(k.Kind, k.APIVersion(), m)
}

// messageOf returns o, rendered, as a protobuf message.
func messageOf(f Format, k kinds.Kind, o registry.Object) (sized, error) {
	if f.as == asMetadata {
		meta, err := toMeta(o.Meta)
		return &metav1.PartialObjectMetadata{ObjectMeta: meta}, err
	}
	if f.as != asItIs || !k.BuiltIn() {
		return nil, fmt.Errorf("codec: %s has no such protobuf form", k.Name())
	}
	typed := k.Object.DeepCopyObject()
	if err := fill(k, typed, o); err != nil {
		return nil, err
	}
	m, ok := typed.(sized)
	if !ok {
		return nil, fmt.Errorf("codec: the Go type %T of %s has no protobuf form", typed, k.Name())
	}
	return m, nil
}

// Tags of protobuf fields with a length: their number and wire type 2.
const (
	tag1 = 0x0a
	tag2 = 0x12
	tag3 = 0x1a
	tag4 = 0x22
)

// protobufList writes a list item by item: every list type has its metadata as
// field 1 and its items as field 2.
func protobufList(f Format, k kinds.Kind, l registry.ObjectList) ([]byte, error) {
	kind, apiVersion := k.Kind+"List", k.APIVersion()
	if f.as == asMetadata {
		kind, apiVersion = "PartialObjectMetadataList", f.apiVersion()
	}
	raw, err := appendMessage(nil, tag1, listMeta(l.ListMeta))
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
	return seal(kind, apiVersion, raw), nil
}

func listMeta(m namespace.ListMeta) *metav1.ListMeta {
	return &metav1.ListMeta{ResourceVersion: m.ResourceVersion, Continue: m.Continue, RemainingItemCount: m.RemainingItemCount}
}

// appendMessage appends a field that is a message.
func appendMessage(buf []byte, tag byte, m sized) ([]byte, error) {
	size := m.Size()
	buf = binary.AppendUvarint(append(buf, tag), uint64(size))
	buf, room := extend(buf, size)
	if _, err := m.MarshalToSizedBuffer(room); err != nil {
		return nil, fmt.Errorf("codec: encoding %T: %w", m, err)
	}
	return buf, nil
}

// extend makes buf longer by n bytes, and returns these too.
func extend(buf []byte, n int) (whole, added []byte) {
	start := len(buf)
	if cap(buf)-start < n {
		grown := make([]byte, start, 2*(start+n))
		copy(grown, buf)
		buf = grown
	}
	buf = buf[:start+n]
	return buf, buf[start:]
}

// envelope returns m behind the magic, in a runtime.Unknown that names its kind.
func envelope(kind, apiVersion string, m sized) ([]byte, error) {
	return appendEnvelope(nil, kind, apiVersion, m)
}

func appendEnvelope(buf []byte, kind, apiVersion string, m sized) ([]byte, error) {
	if buf == nil {
		buf = make([]byte, 0, envelopeSize(kind, apiVersion, m.Size()))
	}
	buf = appendTypeMeta(append(buf, magic...), kind, apiVersion)
	buf, err := appendMessage(buf, tag2, m)
	if err != nil {
		return nil, err
	}
	return append(buf, tag3, 0, tag4, 0), nil // no content encoding, no content type
}

// seal is envelope for a message that is encoded already.
func seal(kind, apiVersion string, raw []byte) []byte {
	buf := make([]byte, 0, envelopeSize(kind, apiVersion, len(raw)))
	buf = appendTypeMeta(append(buf, magic...), kind, apiVersion)
	buf = binary.AppendUvarint(append(buf, tag2), uint64(len(raw)))
	return append(append(buf, raw...), tag3, 0, tag4, 0)
}

func appendTypeMeta(buf []byte, kind, apiVersion string) []byte {
	meta := runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}
	buf = binary.AppendUvarint(append(buf, tag1), uint64(meta.Size()))
	buf = append(binary.AppendUvarint(append(buf, tag1), uint64(len(apiVersion))), apiVersion...)
	return append(binary.AppendUvarint(append(buf, tag2), uint64(len(kind))), kind...)
}

// envelopeSize is at least what an envelope takes.
func envelopeSize(kind, apiVersion string, raw int) int {
	return len(magic) + len(kind) + len(apiVersion) + raw + 6*binary.MaxVarintLen32
}
