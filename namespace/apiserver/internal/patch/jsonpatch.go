package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// This is JSON Patch, RFC 6902, with the leniency of Kubernetes: a replacement of a
// field that is not there adds it, and negative indices count from the end. It is
// not done by a library since those that there are bound copies by a setting of the
// whole process, if at all, and can be made to panic.

// Bounds of JSON patches.
const (
	maxOperations = 10_000
	maxCopied     = registry.MaxObject // bytes that all copy operations together may copy
	maxShifted    = 50_000_000         // items of lists that insertions and removals may shift
)

var (
	errTest   = errors.New("the test failed")
	errCopies = fmt.Errorf("the copy operations copy more than %d bytes", maxCopied)
	errShifts = errors.New("insertions into lists and removals shift too many items: change the list as a whole")
)

// operation is one step of a patch.
type operation struct {
	Op    string           `json:"op"`
	Path  *string          `json:"path"`
	From  *string          `json:"from"`
	Value *json.RawMessage `json:"value"`

	path, from []string
	value      any
}

// parseOperations reads a patch.
func parseOperations(body []byte) ([]operation, error) {
	if !utf8.Valid(body) {
		return nil, errUTF8
	}
	if body = bytes.TrimSpace(body); len(body) == 0 || body[0] != '[' {
		return nil, errors.New("it is not a list of operations")
	}
	var list []operation
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	if len(list) > maxOperations {
		return nil, errOperations(len(list))
	}
	for i := range list {
		if err := list[i].parse(); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return list, nil
}

type errOperations int

func (n errOperations) Error() string {
	return fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, int(n))
}

func (o *operation) parse() error {
	var err error
	if o.Path == nil {
		return errors.New("the path is missing")
	}
	if o.path, err = pointer(*o.Path); err != nil {
		return err
	}
	switch o.Op {
	case "remove":
		return nil
	case "add", "replace", "test":
		o.value, err = o.operand()
		return err
	case "copy", "move":
		if o.From == nil {
			return fmt.Errorf("%s without from", o.Op)
		}
		o.from, err = pointer(*o.From)
		return err
	}
	return fmt.Errorf("there is no operation %.20q", o.Op)
}

// operand returns the value. One that is null is decoded as if it were missing: RFC
// 6902 requires it, but nothing is gained by a refusal.
func (o *operation) operand() (any, error) {
	if o.Value == nil {
		return nil, nil
	}
	return parse(*o.Value)
}

// pointer splits a JSON pointer (RFC 6901).
func pointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("the path %.100q does not begin with a slash", s)
	}
	if strings.Count(s, "/") > maxDepth+1 {
		return nil, errDepth
	}
	parts := strings.Split(s[1:], "/")
	if strings.Contains(s, "~") {
		unescape := strings.NewReplacer("~1", "/", "~0", "~")
		for i := range parts {
			parts[i] = unescape.Replace(parts[i])
		}
	}
	return parts, nil
}

// patching is the document that operations change.
type patching struct {
	root    any
	copies  copier
	shifted int
}

// applyOperations returns what doc becomes. Parts of it may be shared with doc, which
// must not be used afterwards.
func applyOperations(doc any, list []operation) (any, error) {
	p := &patching{root: doc, copies: copier{left: maxCopied}}
	for i := range list {
		if err := p.apply(&list[i]); err != nil {
			return nil, fmt.Errorf("operation %d, %s %.200q: %w", i, list[i].Op, *list[i].Path, err)
		}
	}
	return p.root, nil
}

func (p *patching) apply(o *operation) error {
	switch o.Op {
	case "add":
		return p.add(o.path, o.value)
	case "remove":
		return p.remove(o.path)
	case "replace":
		return p.replace(o.path, o.value)
	case "test":
		return p.test(o.path, o.value)
	case "copy":
		value, err := p.get(o.from)
		if err != nil {
			return err
		}
		if value, err = p.copies.copy(value, 0); err != nil {
			return err
		}
		return p.add(o.path, value)
	}
	return p.move(o.from, o.path)
}

func (p *patching) get(path []string) (any, error) {
	value := p.root
	for i, part := range path {
		switch container := value.(type) {
		case map[string]any:
			next, ok := container[part]
			if !ok {
				return nil, missing(path[:i+1])
			}
			value = next
		case []any:
			n, err := index(part, len(container)-1)
			if err != nil {
				return nil, err
			}
			value = container[n]
		default:
			return nil, missing(path[:i+1])
		}
	}
	return value, nil
}

// index returns the place that part names in a list, at most last.
func index(part string, last int) (int, error) {
	n, err := strconv.Atoi(part)
	if err != nil || part != strconv.Itoa(n) {
		return 0, fmt.Errorf("%.50q is no index of a list", part)
	}
	if n < 0 {
		n += last + 1
	}
	if n < 0 || n > last {
		return 0, fmt.Errorf("the list has no index %s", part)
	}
	return n, nil
}

func missing(path []string) error {
	return fmt.Errorf("the document has no %.200q", "/"+strings.Join(path, "/"))
}

// change replaces the container of a path by what f makes of it.
func (p *patching) change(path []string, f func(container any, last string) (any, error)) error {
	parent, last := path[:len(path)-1], path[len(path)-1]
	container, err := p.get(parent)
	if err != nil {
		return err
	}
	changed, err := f(container, last)
	if err != nil {
		return err
	}
	if list, ok := changed.([]any); ok { // its length is another: put it where it was
		return p.put(parent, list)
	}
	return nil
}

// put replaces what is at a path that is there.
func (p *patching) put(path []string, value any) error {
	if len(path) == 0 {
		p.root = value
		return nil
	}
	last := path[len(path)-1]
	container, err := p.get(path[:len(path)-1])
	if err != nil {
		return err
	}
	switch container := container.(type) {
	case map[string]any:
		container[last] = value
		return nil
	case []any:
		n, err := index(last, len(container)-1)
		if err != nil {
			return err
		}
		container[n] = value
		return nil
	}
	return missing(path)
}

func (p *patching) add(path []string, value any) error {
	if len(path) == 0 {
		p.root = value
		return nil
	}
	return p.change(path, func(container any, last string) (any, error) {
		switch container := container.(type) {
		case map[string]any:
			container[last] = value
			return container, nil
		case []any:
			if last == "-" {
				return append(container, value), nil
			}
			n, err := index(last, len(container))
			if err != nil {
				return nil, err
			}
			return slices.Insert(container, n, value), p.shift(len(container) - n)
		}
		return nil, missing(path)
	})
}

func (p *patching) remove(path []string) error {
	if len(path) == 0 {
		return errors.New("the whole document cannot be removed")
	}
	return p.change(path, func(container any, last string) (any, error) {
		switch container := container.(type) {
		case map[string]any:
			if _, ok := container[last]; !ok {
				return nil, missing(path)
			}
			delete(container, last)
			return container, nil
		case []any:
			n, err := index(last, len(container)-1)
			if err != nil {
				return nil, err
			}
			return slices.Delete(container, n, n+1), p.shift(len(container) - n)
		}
		return nil, missing(path)
	})
}

func (p *patching) shift(items int) error {
	if p.shifted += items; p.shifted > maxShifted {
		return errShifts
	}
	return nil
}

func (p *patching) replace(path []string, value any) error { return p.put(path, value) }

func (p *patching) move(from, to []string) error {
	if len(to) > len(from) && slices.Equal(from, to[:len(from)]) {
		return errors.New("a value cannot be moved into itself")
	}
	value, err := p.get(from)
	if err != nil {
		return err
	}
	if slices.Equal(from, to) {
		return nil
	}
	if err := p.remove(from); err != nil {
		return err
	}
	return p.add(to, value)
}

// test compares. A field that is not there is as good as one that is null, as in
// Kubernetes.
func (p *patching) test(path []string, want any) error {
	if len(path) > 0 && want == nil {
		container, err := p.get(path[:len(path)-1])
		if err != nil {
			return err
		}
		if fields, ok := container.(map[string]any); ok && fields[path[len(path)-1]] == nil {
			return nil
		}
	}
	value, err := p.get(path)
	if err != nil {
		return errors.Join(errTest, err)
	}
	if !equal(value, want, 0) {
		return errTest
	}
	return nil
}
