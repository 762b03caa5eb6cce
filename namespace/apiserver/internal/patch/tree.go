package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A tree is a decoded JSON value: nil, bool, json.Number, string, []any or
// map[string]any. Numbers stay as they were written.

// maxDepth bounds the nesting of patches and patched objects.
const maxDepth = 500

// Bounds of the effort of the library. It iterates over a whole object for one field, and
// parses the document again for each level of a path and for each test.
const (
	maxSteps   = 100_000_000 // items and fields
	maxScanned = 100_000_000 // bytes
)

var (
	errEffort = errors.New("the patch takes too many steps: change large lists and objects as a whole, or in several patches")
	errDepth  = fmt.Errorf("values are nested more than %d deep", maxDepth)
	errUTF8   = errors.New("the document is not valid UTF-8")
)

// parse decodes one JSON value.
func parse(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errUTF8
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one JSON value")
	}
	return tree, checkDepth(tree)
}

// format encodes a tree.
func format(tree any) ([]byte, error) {
	if err := checkDepth(tree); err != nil {
		return nil, err
	}
	return encode(tree)
}

// encode returns the JSON form of a value. It does not escape < > &: escapes take six times
// the memory.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// canonical returns the form that format gives to a JSON value.
func canonical(data []byte) ([]byte, error) {
	tree, err := parse(data)
	if err != nil {
		return nil, err
	}
	return format(tree)
}

// extent is the nesting of a tree and the size of its largest list or object.
type extent struct{ depth, width int }

func measure(tree any) extent {
	var e extent
	within := func(value any) {
		inner := measure(value)
		e.depth, e.width = max(e.depth, inner.depth+1), max(e.width, inner.width)
	}
	switch tree := tree.(type) {
	case []any:
		e.width = len(tree)
		for _, item := range tree {
			within(item)
		}
	case map[string]any:
		e.width = len(tree)
		for _, value := range tree {
			within(value)
		}
	}
	return e
}

func checkDepth(tree any) error {
	if measure(tree).depth > maxDepth {
		return errDepth
	}
	return nil
}
