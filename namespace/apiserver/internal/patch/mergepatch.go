package patch

import (
	"errors"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// mergePatch returns what doc becomes by a JSON Merge Patch (RFC 7386).
func mergePatch(doc, body []byte) ([]byte, error) {
	patch, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	tree, err := parseObject(doc)
	if err != nil {
		return nil, err
	}
	if mergeSteps(tree, patch) > maxSteps || measure(patch).depth*(len(doc)+len(body)) > maxScanned {
		return nil, errEffort
	}
	if doc, err = format(tree); err != nil {
		return nil, err
	}
	if body, err = format(patch); err != nil { // without repeated fields
		return nil, err
	}
	var out []byte
	err = guarded(func() error {
		out, err = jsonpatch.MergePatch(doc, body)
		return err
	})
	if err != nil {
		return nil, errors.Join(errUnmergeable, err)
	}
	return canonical(out)
}

// mergeSteps returns how many names of fields the library compares: it looks for
// each by going through all of its object.
func mergeSteps(doc map[string]any, patch any) int {
	steps := 0
	switch patch := patch.(type) {
	case []any:
		for _, item := range patch {
			steps += mergeSteps(nil, item)
		}
	case map[string]any:
		steps = len(patch) * len(doc)
		for name, value := range patch {
			if doc != nil || value == nil {
				steps += len(patch)
			}
			before, _ := doc[name].(map[string]any)
			steps += mergeSteps(before, value)
		}
	}
	return steps
}

// parseObject decodes a JSON value that must be an object.
func parseObject(body []byte) (map[string]any, error) {
	tree, err := parse(body)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return object, nil
}
