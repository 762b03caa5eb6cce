package etcd

import (
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nslifecycle/nslifecycle/store"
)

// layout holds the keys of a store in the key space of the cluster.
//
//	{prefix}             the marker
//	{prefix}:{key}       the entry at key
//	{prefix}!compactor   the election of a compactor
type layout struct {
	marker    string
	base      string
	compactor string
}

// longestPrefix bounds the prefix, which is part of every key of a request.
const longestPrefix = 128

// layoutOf refuses a prefix other than "/" and plain segments, since other characters could make
// two prefixes overlap.
func layoutOf(prefix string) (layout, error) {
	l := layout{marker: prefix, base: prefix + ":", compactor: prefix + "!compactor"}
	rest, rooted := strings.CutPrefix(prefix, "/")
	if !rooted || len(prefix) > longestPrefix {
		return l, badPrefix(prefix)
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, odd) {
			return l, badPrefix(prefix)
		}
	}
	return l, nil
}

func odd(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}

func badPrefix(prefix string) error {
	return fmt.Errorf("%w: prefix %.140q: use the form /segment/segment with letters, digits, '.', '_' and '-', and at most %d bytes",
		store.ErrInvalid, prefix, longestPrefix)
}

// of returns the cluster's key for a key of the store.
func (l layout) of(key string) []byte {
	b := make([]byte, 0, len(l.base)+len(key))
	return append(append(b, l.base...), key...)
}

// keyOf is the reverse of of.
func (l layout) keyOf(key []byte) string { return string(key[len(l.base):]) }

// span returns the range of the cluster's keys that start with prefix and are greater than after.
// The range is empty if from is not less than end.
func (l layout) span(prefix, after string) (from, end []byte) {
	from = l.of(prefix)
	end = []byte(clientv3.GetPrefixRangeEnd(string(from))) // the prefix contains ':', so it has a successor
	if after != "" && after >= prefix {
		from = append(l.of(after), 0)
	}
	return from, end
}
