package codec

import (
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Event returns one complete frame of a watch: an event of a type such as "ADDED"
// with its object. For a BOOKMARK the object has a resourceVersion, and perhaps
// annotations, and nothing else. In JSON a frame is a document that ends with a
// newline; in protobuf a WatchEvent behind its length, in which the object has an
// envelope of its own.
//
// In a Table only the first event of a watch declares the columns: set
// [TableOptions.NoHeaders] for the others.
func (c *Codec) Event(f Format, k kinds.Kind, eventType string, o registry.Object, t TableOptions) ([]byte, error) {
	if f.encoding == encodeProtobuf {
		m, err := messageOf(f, k, o)
		if err != nil {
			return nil, err
		}
		if f.as == asMetadata {
			return frame(eventType, "PartialObjectMetadata", f.apiVersion(), m)
		}
		return frame(eventType, k.Kind, k.APIVersion(), m)
	}
	room := roomFor(o)
	if f.as != asItIs {
		room = renderedRoom
	}
	buf := appendEventHead(make([]byte, 0, len(eventType)+eventRoom+room), eventType)
	buf, err := c.appendObject(buf, f, k, o, t)
	if err != nil {
		return nil, err
	}
	return append(buf, "}\n"...), nil
}

// RawEvent returns a frame with a document that is in the form to give out
// already, if f needs nothing else.
func (c *Codec) RawEvent(f Format, eventType string, document []byte) ([]byte, bool) {
	if !f.raw() {
		return nil, false
	}
	buf := appendEventHead(make([]byte, 0, len(eventType)+len(document)+eventRoom), eventType)
	return append(append(buf, document...), "}\n"...), true
}

// ErrorEvent returns a frame with an event of type ERROR: the last of a watch.
func (c *Codec) ErrorEvent(f Format, s metav1.Status) ([]byte, error) {
	const eventType = "ERROR"
	if f.encoding == encodeProtobuf {
		return frame(eventType, "Status", "v1", &s)
	}
	status, err := statusJSON(s)
	if err != nil {
		return nil, err
	}
	return append(append(appendEventHead(nil, eventType), status...), "}\n"...), nil
}

const (
	eventRoom    = len(`{"type":"","object":}`) + len("\n")
	renderedRoom = 1024 // what a rendered object takes, as a rule
)

func appendEventHead(buf []byte, eventType string) []byte {
	return append(appendString(append(buf, `{"type":`...), eventType), `,"object":`...)
}

// frame returns a WatchEvent behind its length. Its object is a RawExtension, whose
// one field is the envelope.
func frame(eventType, kind, apiVersion string, m sized) ([]byte, error) {
	object, err := envelope(kind, apiVersion, m)
	if err != nil {
		return nil, err
	}
	extension := 1 + uvarintSize(len(object)) + len(object)
	size := 1 + uvarintSize(len(eventType)) + len(eventType) + 1 + uvarintSize(extension) + extension
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	buf = append(binary.AppendUvarint(append(buf, tag1), uint64(len(eventType))), eventType...)
	buf = binary.AppendUvarint(append(buf, tag2), uint64(extension))
	buf = binary.AppendUvarint(append(buf, tag1), uint64(len(object)))
	return append(buf, object...), nil
}

// uvarintSize is how many bytes n takes as a varint.
func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
