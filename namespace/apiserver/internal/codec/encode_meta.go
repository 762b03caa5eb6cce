package codec

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// appendMeta appends what json.Marshal would return for m, byte by byte. It is most
// of the work for an answer with many small objects.
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
	if len(m.OwnerReferences) > 0 { // the rest is rare
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

// metaWriter appends the fields of a JSON object, up to the first error.
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
	var few [8]string // spares the allocation for most objects
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

// appendEscaped appends s as json.Marshal writes a string, escapes for HTML
// included.
func appendEscaped(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // strings always encode
				quoted = []byte(`""`)
			}
			return append(buf, quoted...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}
