package codec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Object returns the body of an answer with one object.
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

// appendObject appends the JSON form of o, rendered.
func (c *Codec) appendObject(buf []byte, f Format, k kinds.Kind, o registry.Object, t TableOptions) ([]byte, error) {
	switch f.as {
	case asTable:
		return c.appendTable(buf, f, k, namespace.ListMeta{ResourceVersion: o.ResourceVersion}, []registry.Object{o}, t)
	case asMetadata:
		buf, err := appendDocument(buf, "PartialObjectMetadata", f.apiVersion(), o.Meta)
		return append(buf, '}'), err
	}
	if buf == nil {
		buf = make([]byte, 0, roomFor(o))
	}
	buf, err := appendDocument(buf, k.Kind, k.APIVersion(), o.Meta)
	if err != nil {
		return nil, err
	}
	return append(appendFields(buf, o.Fields), '}'), nil
}

// roomFor is about what the JSON form of o takes.
func roomFor(o registry.Object) int {
	size := 512
	for name, value := range o.Fields {
		size += len(name) + len(value) + len(`,"":`)
	}
	return size
}

// appendDocument appends the beginning of an object: what all of them have.
func appendDocument(buf []byte, kind, apiVersion string, m namespace.Meta) ([]byte, error) {
	buf = appendString(append(buf, `{"kind":`...), kind)
	buf = appendString(append(buf, `,"apiVersion":`...), apiVersion)
	return appendMeta(append(buf, `,"metadata":`...), m)
}

// appendFields appends the further fields of an object, ordered by name. Their
// values are JSON: the registry has checked them.
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

// List returns the body of an answer with a list.
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
	kind, apiVersion := k.Kind+"List", k.APIVersion()
	if f.as == asMetadata {
		kind, apiVersion = "PartialObjectMetadataList", f.apiVersion()
	}
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

// RawList returns the body of an answer with a list of documents that are in the
// form to give out already, if f needs nothing else.
func (c *Codec) RawList(f Format, k kinds.Kind, meta namespace.ListMeta, items []json.RawMessage) ([]byte, bool) {
	if !f.raw() {
		return nil, false
	}
	size := 160 + len(k.Kind) + len(k.Group) + len(meta.Continue) + len(meta.ResourceVersion) + len(items)
	for _, item := range items {
		size += len(item)
	}
	buf := appendListHead(make([]byte, 0, size), k.Kind+"List", k.APIVersion(), meta)
	for i, item := range items {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, item...)
	}
	return append(buf, "]}\n"...), true
}

// RawObject returns the body of an answer with a document that is in the form to
// give out already, if f needs nothing else.
func (c *Codec) RawObject(f Format, document json.RawMessage) ([]byte, bool) {
	if !f.raw() {
		return nil, false
	}
	return append(append(make([]byte, 0, len(document)+1), document...), '\n'), true
}

func appendListHead(buf []byte, kind, apiVersion string, meta namespace.ListMeta) []byte {
	buf = appendString(append(buf, `{"kind":`...), kind)
	buf = appendString(append(buf, `,"apiVersion":`...), apiVersion)
	buf = appendListMeta(append(buf, `,"metadata":`...), meta)
	return append(buf, `,"items":[`...)
}

func appendListMeta(buf []byte, meta namespace.ListMeta) []byte {
	buf = append(buf, '{')
	for _, field := range []struct{ name, value string }{
		{`"resourceVersion":`, meta.ResourceVersion}, {`"continue":`, meta.Continue},
	} {
		if field.value != "" {
			buf = append(appendString(append(buf, field.name...), field.value), ',')
		}
	}
	if meta.RemainingItemCount != nil {
		buf = append(strconv.AppendInt(append(buf, `"remainingItemCount":`...), *meta.RemainingItemCount, 10), ',')
	}
	return append(bytes.TrimSuffix(buf, []byte(",")), '}')
}

// Status returns the body of an answer that is a Status. It is never rendered as
// something else.
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

// finish turns a JSON document into the body of an answer.
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

// appendString appends s as a JSON string.
func appendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := marshal(s)
			if err != nil { // strings always encode
				quoted = []byte(`""`)
			}
			return append(buf, quoted...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}
