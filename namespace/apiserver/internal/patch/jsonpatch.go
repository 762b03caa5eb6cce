package patch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Bounds of JSON patches.
const (
	maxOperations = 10_000
	maxCopied     = registry.MaxObject // bytes for all copy operations
)

var (
	errCopies = fmt.Errorf("the copy operations copy more than %d bytes", maxCopied)
	errWhole  = errors.New("the whole document cannot be removed, moved or copied, or be the place of a copy")
	errNoName = errors.New("a path has an empty name: fields without a name can be changed by a merge patch only")
)

type errOperations int

func (n errOperations) Error() string {
	return fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, int(n))
}

// jsonPatch applies a JSON Patch (RFC 6902) to doc. The result is not in canonical form.
func jsonPatch(doc, body []byte) ([]byte, error) {
	list, err := parseOperations(body)
	if err != nil {
		return nil, err
	}
	tree, err := parse(doc)
	if err != nil {
		return nil, err
	}
	if err := affordable(tree, list, len(doc)+len(body)); err != nil {
		return nil, err
	}
	if doc, err = format(tree); err != nil {
		return nil, err
	}
	patch, err := decoded(list)
	if err != nil {
		return nil, err
	}
	var out []byte
	err = guarded(func() error {
		out, err = patch.ApplyWithOptions(doc, &jsonpatch.ApplyOptions{SupportNegativeIndices: true, AccumulatedCopySizeLimit: maxCopied})
		return err
	})
	var copies *jsonpatch.AccumulatedCopySizeError
	if errors.As(err, &copies) {
		err = errCopies
	}
	if err != nil {
		return nil, errors.Join(errUnmergeable, err)
	}
	if len(out) == 0 || out[0] != '{' {
		return nil, errors.Join(errUnmergeable, errors.New("the patched document is not an object"))
	}
	return out, nil
}

// decoded converts operations for the library, without duplicate fields and blanks.
func decoded(list []operation) (patch jsonpatch.Patch, err error) {
	fields := make([]map[string]any, len(list))
	for i := range list {
		fields[i] = list[i].fields
	}
	body, err := format(fields)
	if err != nil {
		return nil, err
	}
	err = guarded(func() error {
		patch, err = jsonpatch.DecodePatch(body)
		return err
	})
	return patch, err
}

// operation is a step of a patch.
type operation struct {
	fields     map[string]any
	kind       string
	path, from []string
}

// parseOperations decodes a patch and rejects operations that the library misunderstands.
func parseOperations(body []byte) ([]operation, error) {
	tree, err := parse(body)
	if err != nil {
		return nil, err
	}
	steps, ok := tree.([]any)
	if !ok {
		return nil, errors.New("it is not a list of operations")
	}
	if len(steps) > maxOperations {
		return nil, errOperations(len(steps))
	}
	list := make([]operation, len(steps))
	for i, step := range steps {
		if list[i], err = parseOperation(step); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return list, nil
}

func parseOperation(step any) (o operation, err error) {
	fields, ok := step.(map[string]any)
	if !ok {
		return o, errors.New("it is not an object")
	}
	o.fields = fields
	o.kind, _ = fields["op"].(string)
	path, ok := fields["path"].(string)
	if !ok {
		return o, errors.New("the path is missing")
	}
	if o.path, err = pointer(path); err != nil {
		return o, err
	}
	switch o.kind {
	case "add", "replace", "test":
		if _, ok := fields["value"]; !ok {
			return o, fmt.Errorf("%s without value", o.kind)
		}
		o.addMissing()
		return o, nil
	case "copy", "move":
		from, ok := fields["from"].(string)
		if !ok {
			return o, fmt.Errorf("%s without from", o.kind)
		}
		if o.from, err = pointer(from); err == nil && len(o.from) == 0 {
			err = errWhole
		}
	case "remove":
	default:
		return o, fmt.Errorf("there is no operation %.20q", o.kind)
	}
	if err == nil && len(o.path) == 0 {
		err = errWhole
	}
	return o, err
}

// addMissing turns a replacement into an addition, so that a missing field is added as in
// Kubernetes. It does not change a path that may end in the index of a list.
func (o *operation) addMissing() {
	if o.kind != "replace" || len(o.path) == 0 {
		return
	}
	last := o.path[len(o.path)-1]
	if _, err := strconv.Atoi(last); err != nil && last != "-" {
		o.fields["op"] = "add"
	}
}

// pointer splits a JSON pointer (RFC 6901). It keeps escapes, since only the number of names
// matters.
func pointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("the path %.100q does not begin with a slash", s)
	}
	if strings.Contains(s+"/", "//") {
		return nil, errNoName // the library would read the unpatched document
	}
	if strings.Count(s, "/") > maxDepth+1 {
		return nil, errDepth
	}
	return strings.Split(s[1:], "/"), nil
}

// affordable rejects operations that would take the library too long or nest too deeply. It
// assumes the worst case: every operation on the widest container, which grows by an item each
// time.
func affordable(doc any, list []operation, size int) error {
	all := measure(doc)
	longest, tests, copies := 0, 0, false
	for i := range list {
		o := &list[i]
		longest = max(longest, len(o.path), len(o.from))
		switch o.kind {
		case "copy", "move":
			all.depth = max(all.depth, len(o.path)+all.depth-len(o.from))
			copies = copies || o.kind == "copy"
		case "test":
			tests++
			fallthrough
		default:
			value := measure(o.fields["value"])
			all.depth = max(all.depth, len(o.path)+value.depth)
			all.width = max(all.width, value.width)
		}
		if all.depth > maxDepth {
			return errDepth
		}
	}
	if copies {
		size += maxCopied
	}
	if len(list)*(all.width+len(list)/2) > maxSteps || (longest+tests)*size > maxScanned {
		return errEffort
	}
	return nil
}
