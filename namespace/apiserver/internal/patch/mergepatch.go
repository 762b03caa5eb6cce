package patch

import "errors"

// mergePatch returns what doc becomes by a JSON Merge Patch (RFC 7386). The two are
// used up.
func mergePatch(doc, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := doc.(map[string]any)
	if !ok {
		out = make(map[string]any, len(fields))
	}
	for name, value := range fields {
		if value == nil {
			delete(out, name)
			continue
		}
		out[name] = mergePatch(out[name], value)
	}
	return out
}

// parseObject decodes a patch that must be a JSON object.
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
