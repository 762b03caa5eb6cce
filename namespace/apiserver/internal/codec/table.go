package codec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// TableOptions select the content of a Table. They are comparable.
type TableOptions struct {
	// IncludeObject is the part of the object in a row: "Metadata" (the default), "None" or
	// "Object".
	IncludeObject string
	// NoHeaders omits the column definitions.
	NoHeaders bool
}

// Key returns a short text that is equal for equivalent options.
func (t TableOptions) Key() string {
	return cmp.Or(t.IncludeObject, "Metadata") + strconv.FormatBool(t.NoHeaders)
}

// headerOf encodes the columns as a Table declares them.
func headerOf(columns []kinds.Column) (json.RawMessage, error) {
	header := make([]metav1.TableColumnDefinition, len(columns))
	for i, c := range columns {
		header[i] = metav1.TableColumnDefinition{
			Name: c.Name, Type: cmp.Or(c.Type, "string"), Format: c.Format, Description: c.Description, Priority: c.Priority,
		}
	}
	return marshal(header)
}

// appendTable appends a Table with a row for each object.
func (c *Codec) appendTable(buf []byte, f Format, k kinds.Kind, meta namespace.ListMeta, items []registry.Object, t TableOptions,
) ([]byte, error) {
	known, err := c.form(k)
	if err != nil {
		return nil, err
	}
	buf = appendListMeta(append(appendType(buf, "Table", f.apiVersion()), `,"metadata":`...), meta)
	buf = append(buf, `,"columnDefinitions":`...)
	if t.NoHeaders {
		buf = append(buf, null...)
	} else {
		buf = append(buf, known.header...)
	}
	buf = append(buf, `,"rows":[`...)
	for i, o := range items {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = c.appendRow(buf, f, k, known.columns, o, t); err != nil {
			return nil, err
		}
	}
	return append(buf, "]}"...), nil
}

func (c *Codec) appendRow(buf []byte, f Format, k kinds.Kind, columns []kinds.Column, o registry.Object, t TableOptions) ([]byte, error) {
	buf = append(buf, `{"cells":[`...)
	var err error
	for i, column := range columns {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = appendCell(buf, column.Value(o)); err != nil {
			return nil, fmt.Errorf("codec: column %q of %s %q: %w", column.Name, k.Name(), o.Name, err)
		}
	}
	buf = append(buf, `],"object":`...)
	if t.IncludeObject == "None" {
		return append(append(buf, null...), '}'), nil
	}
	f.as = asMetadata
	if t.IncludeObject == "Object" {
		f.as = asItIs
	}
	buf, err = c.appendObject(buf, f, k, o, t)
	return append(buf, '}'), err
}

// appendCell appends the value of a cell. The usual types need no reflection.
func appendCell(buf []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(buf, null...), nil
	case string:
		return appendString(buf, v), nil
	case int64:
		return strconv.AppendInt(buf, v, 10), nil
	case int:
		return strconv.AppendInt(buf, int64(v), 10), nil
	case bool:
		return strconv.AppendBool(buf, v), nil
	}
	data, err := marshal(value)
	return append(buf, data...), err
}
