// Package keypath has the rules for store keys that several packages keep below one prefix, so
// that all of them accept the same prefixes.
package keypath

import (
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// DefaultPrefix begins all keys unless the host chooses another prefix.
const DefaultPrefix = "registry"

// Check returns an error if path is not one or more segments of a key, separated by slashes, of
// at most 253 bytes together. name names path in the error.
func Check(name, path string) error {
	if len(path) > syntax.MaxSubdomain {
		return fmt.Errorf("%s has %d bytes: it must have at most %d", name, len(path), syntax.MaxSubdomain)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if fault := Segment(segment); fault != "" {
			return fmt.Errorf("%s is %q: a segment %s", name, path, fault)
		}
	}
	return nil
}

// Segment returns why s cannot be a segment of a key, or "". Segments that begin with a dot are
// reserved for keys of the library.
func Segment(s string) string {
	if strings.HasPrefix(s, ".") {
		return "must not begin with '.'"
	}
	if faults := syntax.PathSegment(s); len(faults) > 0 {
		return faults[0]
	}
	return ""
}
