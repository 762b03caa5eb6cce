package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// maxMarkers bounds the documents of a stream, of which all but one must be empty.
const maxMarkers = 100

// Aliases repeat what they name, so that a small document can stand for a huge one. These
// constants bound the JSON form, relative to the size of the body and at least.
const (
	maxExpansion = 8
	minExpansion = 1 << 20
)

// fromYAML returns the document of a YAML stream as a JSON object. Unlike
// sigs.k8s.io/yaml it refuses further documents instead of dropping them, and bounds the
// memory for strings that aliases repeat. Duplicate fields are an error.
func fromYAML(body []byte) ([]byte, error) {
	d := yaml.NewDecoder(bytes.NewReader(body))
	d.SetStrict(true)
	var document any
	if err := d.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	for range maxMarkers {
		var another any
		err := d.Decode(&another)
		switch {
		case errors.Is(err, io.EOF):
			return asJSON(document, len(body))
		case err != nil:
			return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
		case another != nil: // otherwise a marker without a document
			return nil, errors.New("error converting YAML to JSON: there is more than one document")
		}
	}
	return nil, fmt.Errorf("error converting YAML to JSON: there are more than %d documents", maxMarkers)
}

// asJSON encodes a YAML mapping, whose source has size bytes, as a JSON object.
func asJSON(document any, size int) ([]byte, error) {
	if _, ok := document.(map[any]any); !ok {
		return nil, errors.New("couldn't get version/kind; the document is not a YAML mapping")
	}
	w := yamlWriter{limit: max(minExpansion, maxExpansion*size)}
	if err := w.value(document); err != nil {
		return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	return w.buf, nil
}

// yamlWriter encodes decoded YAML as JSON, up to a limit.
type yamlWriter struct {
	buf   []byte
	limit int
}

func (w *yamlWriter) value(v any) error {
	if len(w.buf) > w.limit {
		return errors.New("the aliases of the document repeat too much")
	}
	switch v := v.(type) {
	case nil:
		w.buf = append(w.buf, null...)
	case bool:
		w.buf = strconv.AppendBool(w.buf, v)
	case int:
		w.buf = strconv.AppendInt(w.buf, int64(v), 10)
	case int64:
		w.buf = strconv.AppendInt(w.buf, v, 10)
	case uint64:
		w.buf = strconv.AppendUint(w.buf, v, 10)
	case float64:
		number, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("%v has no JSON form", v)
		}
		w.buf = append(w.buf, number...)
	case string:
		if !utf8.ValidString(v) {
			return errors.New("a binary value has no JSON form: write it in base64, without the tag !!binary")
		}
		w.buf = appendString(w.buf, v)
	case []any:
		return w.list(v)
	case map[any]any:
		return w.mapping(v)
	default:
		return fmt.Errorf("a value of type %T has no JSON form", v)
	}
	return nil
}

func (w *yamlWriter) list(list []any) error {
	w.buf = append(w.buf, '[')
	for i, item := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, ']')
	return nil
}

func (w *yamlWriter) mapping(mapping map[any]any) error {
	fields := make(map[string]any, len(mapping))
	for key, value := range mapping {
		name, err := yamlKey(key)
		if err != nil {
			return err
		}
		if _, twice := fields[name]; twice {
			return fmt.Errorf("key %q is already set in map", excerpt(name))
		}
		fields[name] = value
	}
	w.buf = append(w.buf, '{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(appendString(w.buf, name), ':')
		if err := w.value(fields[name]); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, '}')
	return nil
}

// yamlKey converts a key to the name of a field, scalars in the same way as Kubernetes.
func yamlKey(key any) (string, error) {
	switch key := key.(type) {
	case string:
		if !utf8.ValidString(key) {
			return "", errors.New("a key is not valid UTF-8")
		}
		return key, nil
	case bool:
		return strconv.FormatBool(key), nil
	case int:
		return strconv.Itoa(key), nil
	case int64:
		return strconv.FormatInt(key, 10), nil
	case float64:
		if math.IsInf(key, 0) || math.IsNaN(key) {
			break
		}
		return strconv.FormatFloat(key, 'g', -1, 64), nil
	}
	return "", fmt.Errorf("%v cannot be the name of a field", key)
}

// toYAML converts a JSON document to YAML. Unlike sigs.k8s.io/yaml it does not parse the
// JSON as YAML, which fails on characters that YAML requires to be escaped.
func toYAML(document []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return yaml.Marshal(withNumbers(tree))
}

// withNumbers replaces each json.Number in a decoded document, in place, by an integer if it
// is one and fits, otherwise by a float.
func withNumbers(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = withNumbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = withNumbers(value)
		}
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String() // larger than any float
	}
	return tree
}
