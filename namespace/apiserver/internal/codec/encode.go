package codec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

var null = json.RawMessage("null")

// Object encodes a response with one object.
func (c *Codec) Object(f Format, k kinds.Kind, o registry.Object, t TableOptions) ([]byte, error) {
	if f.encoding == encodeProtobuf {
		return protobufObject(f, k, o)
	}
	data, err := c.appendObject(nil, f, k, o, t)
	if err != nil {
		return nil, err
	}
	return f.finish(data)
}

// appendObject appends o in JSON.
func (c *Codec) appendObject(buf []byte, f Format, k kinds.Kind, o registry.Object, t TableOptions) ([]byte, error) {
	if f.as == asTable {
		return c.appendTable(buf, f, k, namespace.ListMeta{ResourceVersion: o.ResourceVersion}, []registry.Object{o}, t)
	}
	if buf == nil && f.as == asItIs {
		buf = make([]byte, 0, headSize+sizeOf(o))
	}
	kind, apiVersion := f.typeOf(k, "")
	buf, err := appendMeta(append(appendType(buf, kind, apiVersion), `,"metadata":`...), o.Meta)
	if err != nil {
		return nil, err
	}
	if f.as == asItIs {
		buf = appendFields(buf, o.Fields)
	}
	return append(buf, '}'), nil
}

// headSize estimates the size of an object without its fields.
const headSize = 512

// sizeOf returns the size of the fields of o in JSON.
func sizeOf(o registry.Object) int {
	size := len("{}")
	for name, value := range o.Fields {
		size += len(name) + len(value) + len(`,"":`)
	}
	return size
}

// appendType appends the beginning of an object.
func appendType(buf []byte, kind, apiVersion string) []byte {
	buf = appendString(append(buf, `{"kind":`...), kind)
	return appendString(append(buf, `,"apiVersion":`...), apiVersion)
}

// appendFields appends the fields of an object, sorted by name. The registry has checked
// that their values are JSON.
func appendFields(buf []byte, fields map[string]json.RawMessage) []byte {
	var few [8]string
	names := few[:0]
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		buf = append(appendString(append(buf, ','), name), ':')
		if len(fields[name]) == 0 {
			buf = append(buf, null...)
		}
		buf = append(buf, fields[name]...)
	}
	return buf
}

// List encodes a response with a list.
func (c *Codec) List(f Format, k kinds.Kind, l registry.ObjectList, t TableOptions) ([]byte, error) {
	if f.encoding == encodeProtobuf {
		return protobufList(f, k, l)
	}
	if f.as == asTable {
		data, err := c.appendTable(nil, f, k, l.ListMeta, l.Items, t)
		if err != nil {
			return nil, err
		}
		return f.finish(data)
	}
	kind, apiVersion := f.typeOf(k, "List")
	buf := appendListHead(nil, kind, apiVersion, l.ListMeta)
	for i, o := range l.Items {
		if i > 0 {
			buf = append(buf, ',')
		}
		var err error
		if buf, err = c.appendObject(buf, f, k, o, t); err != nil {
			return nil, err
		}
	}
	return f.finish(append(buf, "]}"...))
}

// RawList returns the beginning and the end of a list of stored documents, for a
// [Format.Raw]. The caller writes the documents in between, separated by commas.
func (c *Codec) RawList(k kinds.Kind, meta namespace.ListMeta) (head, end []byte) {
	size := 160 + len(k.Kind) + len(k.Group) + len(meta.Continue) + len(meta.ResourceVersion)
	return appendListHead(make([]byte, 0, size), k.Kind+"List", k.APIVersion(), meta), []byte("]}\n")
}

// RawObject encodes a response with a stored document, for a [Format.Raw].
func (c *Codec) RawObject(document json.RawMessage) []byte {
	return append(append(make([]byte, 0, len(document)+1), document...), '\n')
}

func appendListHead(buf []byte, kind, apiVersion string, meta namespace.ListMeta) []byte {
	buf = appendListMeta(append(appendType(buf, kind, apiVersion), `,"metadata":`...), meta)
	return append(buf, `,"items":[`...)
}

func appendListMeta(buf []byte, meta namespace.ListMeta) []byte {
	w := metaWriter{buf: append(buf, '{')}
	w.text("resourceVersion", meta.ResourceVersion)
	w.text("continue", meta.Continue)
	if meta.RemainingItemCount != nil {
		w.field("remainingItemCount")
		w.buf = strconv.AppendInt(w.buf, *meta.RemainingItemCount, 10)
	}
	return append(w.buf, '}')
}

// Status encodes a response that is a Status.
func (c *Codec) Status(f Format, s metav1.Status) ([]byte, error) {
	if f.encoding == encodeProtobuf {
		return envelope("Status", "v1", &s)
	}
	data, err := statusJSON(s)
	if err != nil {
		return nil, err
	}
	return f.finish(data)
}

func statusJSON(s metav1.Status) ([]byte, error) {
	s.Kind, s.APIVersion = "Status", "v1"
	return json.Marshal(s)
}

// finish turns a JSON document into the body of a response.
func (f Format) finish(document []byte) ([]byte, error) {
	switch {
	case f.encoding == encodeYAML:
		return toYAML(document)
	case f.pretty:
		var b bytes.Buffer
		if err := json.Indent(&b, document, "", "  "); err != nil {
			return nil, err
		}
		document = b.Bytes()
	}
	return append(document, '\n'), nil
}

// Event encodes an event of a watch. In JSON it ends with a newline; in protobuf it follows
// its length. Only the first event of a watch as a Table declares the columns: set
// [TableOptions.NoHeaders] for the others.
func (c *Codec) Event(f Format, k kinds.Kind, eventType string, o registry.Object, t TableOptions) ([]byte, error) {
	if f.encoding == encodeProtobuf {
		m, err := messageOf(f, k, o)
		if err != nil {
			return nil, err
		}
		kind, apiVersion := f.typeOf(k, "")
		return protobufEvent(eventType, kind, apiVersion, m)
	}
	size := 1024
	if f.as == asItIs {
		size = headSize + sizeOf(o)
	}
	buf, err := c.appendObject(eventHead(eventType, size), f, k, o, t)
	if err != nil {
		return nil, err
	}
	return append(buf, "}\n"...), nil
}

// RawEvent encodes an event with a stored document, for a [Format.Raw].
func (c *Codec) RawEvent(eventType string, document []byte) []byte {
	return append(append(eventHead(eventType, len(document)), document...), "}\n"...)
}

// ErrorEvent encodes an event of type ERROR, the last of a watch.
func (c *Codec) ErrorEvent(f Format, s metav1.Status) ([]byte, error) {
	const eventType = "ERROR"
	if f.encoding == encodeProtobuf {
		return protobufEvent(eventType, "Status", "v1", &s)
	}
	status, err := statusJSON(s)
	if err != nil {
		return nil, err
	}
	return append(append(eventHead(eventType, len(status)), status...), "}\n"...), nil
}

// eventHead returns the beginning of an event, with room for an object of the given size.
func eventHead(eventType string, size int) []byte {
	buf := make([]byte, 0, len(`{"type":"","object":}`)+len(eventType)+size+len("\n"))
	return append(appendString(append(buf, `{"type":`...), eventType), `,"object":`...)
}

// appendMeta appends the same bytes as json.Marshal, which would take most of the time of a
// response with many small objects.
func appendMeta(buf []byte, m namespace.Meta) ([]byte, error) {
	w := metaWriter{buf: append(buf, '{')}
	w.text("name", m.Name)
	w.text("generateName", m.GenerateName)
	w.text("namespace", m.Namespace)
	w.text("selfLink", m.SelfLink)
	w.text("uid", m.UID)
	w.text("resourceVersion", m.ResourceVersion)
	if m.Generation != 0 {
		w.field("generation")
		w.buf = strconv.AppendInt(w.buf, m.Generation, 10)
	}
	w.time("creationTimestamp", m.CreationTimestamp)
	w.time("deletionTimestamp", m.DeletionTimestamp)
	if m.DeletionGracePeriodSeconds != nil {
		w.field("deletionGracePeriodSeconds")
		w.buf = strconv.AppendInt(w.buf, *m.DeletionGracePeriodSeconds, 10)
	}
	w.texts("labels", m.Labels)
	w.texts("annotations", m.Annotations)
	if len(m.OwnerReferences) > 0 {
		w.value("ownerReferences", m.OwnerReferences)
	}
	if !m.Finalizers.IsZero() {
		w.value("finalizers", m.Finalizers)
	}
	if len(m.ManagedFields) > 0 {
		w.value("managedFields", m.ManagedFields)
	}
	return append(w.buf, '}'), w.err
}

// metaWriter appends the fields of a JSON object. It keeps the first error.
type metaWriter struct {
	buf []byte
	err error
}

func (w *metaWriter) field(name string) {
	if w.buf[len(w.buf)-1] != '{' {
		w.buf = append(w.buf, ',')
	}
	w.buf = append(append(append(w.buf, '"'), name...), `":`...)
}

func (w *metaWriter) text(name, value string) {
	if value != "" {
		w.field(name)
		w.buf = appendEscaped(w.buf, value)
	}
}

func (w *metaWriter) texts(name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	w.field(name)
	w.buf = append(w.buf, '{')
	var few [8]string // most objects need no allocation
	keys := few[:0]
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(appendEscaped(w.buf, key), ':')
		w.buf = appendEscaped(w.buf, values[key])
	}
	w.buf = append(w.buf, '}')
}

func (w *metaWriter) time(name string, t phase.Time) {
	if t.IsZero() {
		return
	}
	utc := t.UTC()
	if year := utc.Year(); year < 0 || year > 9999 {
		w.value(name, t) // for its error
		return
	}
	w.field(name)
	w.buf = append(utc.AppendFormat(append(w.buf, '"'), time.RFC3339), '"')
}

func (w *metaWriter) value(name string, v any) {
	w.field(name)
	data, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.buf = append(w.buf, data...)
}

// appendString appends s as a JSON string, without the escapes that only HTML needs.
func appendString(buf []byte, s string) []byte { return appendQuoted(buf, s, false) }

// appendEscaped appends s as json.Marshal encodes it.
func appendEscaped(buf []byte, s string) []byte { return appendQuoted(buf, s, true) }

func appendQuoted(buf []byte, s string, html bool) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f || html && (c == '<' || c == '>' || c == '&') {
			var quoted []byte // strings always encode
			if html {
				quoted, _ = json.Marshal(s)
			} else {
				quoted, _ = marshal(s)
			}
			return append(buf, quoted...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}

// marshal encodes v without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
