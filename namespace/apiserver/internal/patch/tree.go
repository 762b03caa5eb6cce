package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A tree is a decoded JSON value: nil, bool, json.Number, string, []any or
// map[string]any. Numbers stay as they were written.

// maxDepth is how deeply values may be nested, in patches and in what becomes of
// them.
const maxDepth = 500

var (
	errDepth = fmt.Errorf("values are nested more than %d deep", maxDepth)
	errUTF8  = errors.New("the document is not valid UTF-8")
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
	return tree, checkDepth(tree, 0)
}

// format encodes a tree.
func format(tree any) ([]byte, error) {
	if err := checkDepth(tree, 0); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(tree); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func checkDepth(tree any, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			if err := checkDepth(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, value := range tree {
			if err := checkDepth(value, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// equal reports whether two trees are the same JSON value: numbers by their value,
// objects whatever the order of their fields.
func equal(a, b any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(x, y any) bool { return equal(x, y, depth+1) })
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, func(x, y any) bool { return equal(x, y, depth+1) })
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	}
	switch b.(type) {
	case []any, map[string]any, json.Number: // never compare these with ==
		return false
	}
	return a == b
}

func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseInt(string(a), 10, 64)
	y, errY := strconv.ParseInt(string(b), 10, 64)
	if errX == nil && errY == nil {
		return x == y
	}
	f, errX := strconv.ParseFloat(string(a), 64)
	g, errY := strconv.ParseFloat(string(b), 64)
	return errX == nil && errY == nil && f == g
}

// copier copies trees, up to a number of bytes.
type copier struct{ left int }

// copy returns a tree that shares nothing with the one given.
func (c *copier) copy(tree any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if c.left--; c.left < 0 {
		return nil, errCopies
	}
	switch tree := tree.(type) {
	case []any:
		out := make([]any, len(tree))
		for i, item := range tree {
			var err error
			if out[i], err = c.copy(item, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(tree))
		for name, value := range tree {
			c.left -= len(name)
			var err error
			if out[name], err = c.copy(value, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		c.left -= len(tree)
	case json.Number:
		c.left -= len(tree)
	}
	return tree, nil
}
