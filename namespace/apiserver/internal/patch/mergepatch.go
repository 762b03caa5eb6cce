package patch

import "errors"

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
	mergeInto(tree, patch)
	return format(tree)
}

// mergeInto applies a merge patch to an object. It adds no null fields.
func mergeInto(object, patch map[string]any) {
	for name, value := range patch {
		before, there := object[name].(map[string]any)
		change, ok := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, name)
		case there && ok:
			mergeInto(before, change)
		default:
			dropNulls(value)
			object[name] = value
		}
	}
}

// dropNulls removes the null fields of all objects in a tree. RFC 7386 keeps null fields of
// objects in lists, Kubernetes does not.
func dropNulls(tree any) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			dropNulls(item)
		}
	case map[string]any:
		for name, value := range tree {
			if value == nil {
				delete(tree, name)
			} else {
				dropNulls(value)
			}
		}
	}
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
