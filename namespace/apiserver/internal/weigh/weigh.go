// Package weigh estimates the memory for decoding and encoding a document, by a scan that
// costs a fraction of the decoding. A small document can have many values: `[{},{},...]`
// takes 50 times its size, and more in YAML.
package weigh

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
)

// costs are estimates in bytes, measured from all allocations of the decoders. The cost of a
// value is the cost of its largest form.
type costs struct{ empty, parent, field, scalar int64 }

var (
	// free is for untyped fields: they become maps and interfaces, twice.
	free = costs{empty: 160, parent: 512, field: 224, scalar: 112}
	// typed is for Go types of the API, and for metadata of every kind: the smallest object
	// becomes a large struct, in a growing slice, several times.
	typed = costs{empty: 2048, parent: 2048, field: 512, scalar: 112}
)

const (
	jsonByte    = 8 // the body, the raw fields, the stored form, the answer
	yamlByte    = 16
	yamlValue   = 448 // the parser builds a tree of nodes before it decodes values
	yamlAliases = 32 << 20
	protoByte   = 16
	protoField  = 256
)

// JSON returns the weight of a JSON document, which need not be valid. builtIn selects the
// cost of a built-in kind; the fields of other kinds are untyped.
func JSON(document []byte, builtIn bool) int64 {
	weight := int64(len(document)) * jsonByte
	cost, depth, metadata := free, 0, false
	if builtIn {
		cost = typed
	}
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '"':
			end := endOfString(document, i)
			if depth == 1 && !builtIn { // a field of the object, or its value
				if name := document[i:min(end, len(document))]; metadata || string(name) == `"metadata` || bytes.IndexByte(name, '\\') >= 0 {
					cost, metadata = typed, true
				}
			}
			i = end
		case '{', '[':
			depth++
			if next := skipSpace(document, i+1); next < len(document) && (document[next] == '}' || document[next] == ']') {
				weight += cost.empty
			} else {
				weight += cost.parent
			}
		case '}', ']':
			if depth--; depth == 1 && metadata {
				cost, metadata = free, false
			}
		case ':':
			weight += cost.field
		case ',':
			weight += cost.scalar
		}
	}
	return weight
}

// endOfString returns the end of the string that begins at i.
func endOfString(document []byte, i int) int {
	for i++; ; {
		end := bytes.IndexByte(document[i:], '"')
		if end < 0 {
			return len(document)
		}
		escapes := 0
		for at := i + end - 1; at >= i && document[at] == '\\'; at-- {
			escapes++
		}
		if i += end; escapes%2 == 0 {
			return i
		}
		i++
	}
}

func skipSpace(document []byte, i int) int {
	for i < len(document) && (document[i] == ' ' || document[i] == '\t' || document[i] == '\r' || document[i] == '\n') {
		i++
	}
	return i
}

// YAML returns the weight of parsing a YAML document, which may be JSON. It does not include
// the weight of the resulting JSON document. Text within scalars counts as structure, since
// only a parser can distinguish them.
func YAML(document []byte) int64 {
	values := 0
	if json.Valid(document) {
		for i := 0; i < len(document); i++ {
			switch document[i] {
			case '"':
				i = endOfString(document, i)
			case '{', '[', ':', ',':
				values++
			}
		}
	} else {
		for _, mark := range []byte(",:\n-[{?") {
			values += bytes.Count(document, []byte{mark})
		}
	}
	weight := int64(len(document))*yamlByte + int64(values)*yamlValue
	if named(document, '&') && named(document, '*') {
		weight += yamlAliases
	}
	return weight
}

// Protobuf returns the weight of a document in protobuf.
func Protobuf(document []byte) int64 {
	document = bytes.TrimPrefix(document, []byte("k8s\x00"))
	return int64(len(document))*protoByte + fields(document, 0)*protoField
}

// named reports whether a document may have an anchor (&) or an alias (*).
func named(document []byte, mark byte) bool {
	for i := 0; ; i++ {
		at := bytes.IndexByte(document[i:], mark)
		if at < 0 || i+at+1 == len(document) {
			return false
		}
		if i += at; bytes.IndexByte([]byte(" \t\r\n,]}"), document[i+1]) < 0 {
			return true
		}
	}
}

// maxDepth bounds the recursion of fields. Objects of built-in kinds are shallow.
const maxDepth = 8

// fields counts the fields of a message and of all its values that may be messages.
func fields(message []byte, depth int) int64 {
	var count int64
	for len(message) > 0 {
		_, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 1 // text
		}
		message = message[n:]
		count++
		if n = protowire.ConsumeFieldValue(1, wire, message); n < 0 {
			return 1
		}
		if wire == protowire.BytesType && depth < maxDepth {
			value, _ := protowire.ConsumeBytes(message)
			count += fields(value, depth+1)
		}
		message = message[n:]
	}
	return count
}
