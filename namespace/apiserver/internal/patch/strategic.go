package patch

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// maxMatches bounds how many items of lists a strategic merge patch may have
// compared with each other: each item that it has is looked for among those of the
// document, and among its own, which are in the list then.
const maxMatches = 1_000_000

var errMatches = errors.New("the lists of the patch and of the object are too long to be merged by key: use a merge patch")

// errUnmergeable marks failures that depend on the object, not on the patch alone.
var errUnmergeable = errors.New("the patch cannot be applied to the object")

// strategicMerge returns what doc becomes by a strategic merge patch, which the tags
// of the Go type of the kind direct.
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

// numbered decodes a JSON object with its numbers as the libraries of Kubernetes
// have them: int64 and float64.
func numbered(data []byte) (map[string]any, error) {
	if _, err := parseObject(data); err != nil { // UTF-8, depth, what follows the object
		return nil, err
	}
	var object map[string]any
	return object, kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
}

// items returns how many items the lists of a tree have together.
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
