package patch

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// mergePatch applies a JSON Merge Patch (RFC 7386) to doc.
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

// maxMatches bounds the comparisons of list items by a strategic merge patch, which looks for
// each of its items in the lists of the object and in its own lists.
const maxMatches = 1_000_000

var errMatches = errors.New("the lists of the patch and of the object are too long to be merged by key: use a merge patch")

// errUnmergeable marks failures that depend on the object, not on the patch alone.
var errUnmergeable = errors.New("the patch cannot be applied to the object")

// strategicMerge applies a strategic merge patch to doc by the tags of the kind's Go type.
func strategicMerge(k kinds.Kind, doc, body []byte) ([]byte, error) {
	patch, err := numbered(body)
	if err != nil {
		return nil, err
	}
	original, err := numbered(doc)
	if err != nil {
		return nil, err
	}
	if n := items(patch); n*(n+items(original)) > maxMatches {
		return nil, errMatches
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(k.Object)
	if err != nil {
		return nil, err
	}
	var merged strategicpatch.JSONMap
	err = guarded(func() error {
		merged, err = strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, patch, meta)
		return err
	})
	if err != nil {
		for _, malformed := range []error{
			mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
			mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat,
		} {
			if errors.Is(err, malformed) {
				return nil, err
			}
		}
		return nil, errors.Join(errUnmergeable, err)
	}
	return format(map[string]any(merged))
}

// numbered decodes a JSON object with numbers as int64 and float64, as the libraries of
// Kubernetes expect.
func numbered(data []byte) (map[string]any, error) {
	if _, err := parseObject(data); err != nil { // checks UTF-8, depth and trailing data
		return nil, err
	}
	var object map[string]any
	return object, kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
}

// items returns the number of items in all lists of a tree.
func items(tree any) int {
	n := 0
	switch tree := tree.(type) {
	case []any:
		n = len(tree)
		for _, item := range tree {
			n += items(item)
		}
	case map[string]any:
		for _, value := range tree {
			n += items(value)
		}
	}
	return n
}
