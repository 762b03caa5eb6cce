package codec

import (
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Format is how an answer is encoded. The zero Format is JSON. Formats are
// comparable.
type Format struct {
	encoding encoding
	as       rendering
	beta     bool // the rendering is of meta.k8s.io/v1beta1, which is like v1
	pretty   bool
	watch    bool
}

type encoding uint8

const (
	encodeJSON encoding = iota
	encodeYAML
	encodeProtobuf
)

// mediaTypes are those of the encodings, the one preferred first.
var mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

const allMediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

type rendering uint8

const (
	asItIs rendering = iota
	asTable
	asMetadata
)

// ContentType returns the media type of the answer, for its header.
func (f Format) ContentType() string {
	if f.watch && f.encoding != encodeJSON {
		return mediaTypes[f.encoding] + ";stream=watch"
	}
	return mediaTypes[f.encoding]
}

// YAML reports whether the answer is in YAML.
func (f Format) YAML() bool { return f.encoding == encodeYAML }

// Key returns a short text that is the same for equal formats only, as
// [registry.Event.Encoded] asks for. What a Table contains depends on
// [TableOptions] too: add their Key.
func (f Format) Key() string {
	key := [...]byte{'0' + byte(f.encoding), '0' + byte(f.as), '0', '0', '0'}
	for i, set := range []bool{f.beta, f.pretty, f.watch} {
		if set {
			key[2+i]++
		}
	}
	return string(key[:])
}

// Plain returns the format of an answer that is neither rendered nor streamed, in
// the same encoding: that of a Status instead of what was asked for.
func (f Format) Plain() Format { return Format{encoding: f.encoding, pretty: f.pretty} }

// Pretty returns the format with JSON indented, for people.
func (f Format) Pretty() Format {
	f.pretty = f.encoding == encodeJSON && !f.watch
	return f
}

// Table reports whether objects are rendered as a Table.
func (f Format) Table() bool { return f.as == asTable }

// raw reports whether stored documents can be given out as they are.
func (f Format) raw() bool { return f.encoding == encodeJSON && f.as == asItIs && !f.pretty }

// Negotiate chooses the format of an answer about objects of k from an Accept
// header: the clause with the greatest quality that can be served, of equal ones
// the more specific, then the first. An empty header means JSON. A zero Kind is
// for answers that are no objects: a Status.
//
// Protobuf is for built-in kinds, and for the metadata of all; a Table is JSON or
// YAML; a watch is JSON or protobuf. When nothing fits the error is
// [ErrNotAcceptable].
func (c *Codec) Negotiate(accept string, k kinds.Kind, watch bool) (Format, error) {
	if strings.TrimSpace(accept) == "" {
		return Format{watch: watch}, nil
	}
	for _, clause := range parseAccept(accept) {
		for i, mediaType := range mediaTypes {
			if !clause.matches(mediaType) {
				continue
			}
			if f, ok := clause.format(encoding(i), k, watch); ok {
				return f, nil
			}
		}
	}
	served := allMediaTypes
	if watch {
		served = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	}
	return Format{}, &namespace.Error{
		Kind: ErrNotAcceptable, Resource: resourceOf(k), Message: "only the following media types are accepted: " + served,
	}
}

// format returns what a clause asks for in an encoding that it allows, and whether
// that can be had.
func (c clause) format(e encoding, k kinds.Kind, watch bool) (Format, bool) {
	f := Format{encoding: e, watch: watch}
	if !f.render(c) {
		return f, false
	}
	if stream := c.params["stream"]; stream != "" && stream != "watch" {
		return f, false
	}
	if c.params["pretty"] == "1" {
		f = f.Pretty()
	}
	switch e {
	case encodeYAML:
		return f, !watch
	case encodeProtobuf:
		return f, f.as == asMetadata || f.as == asItIs && (k.BuiltIn() || k.Resource == "")
	}
	return f, true
}

// render takes over the rendering that a clause asks for, if there is such a one.
func (f *Format) render(c clause) bool {
	switch c.params["as"] {
	case "":
		return true
	case "Table":
		f.as = asTable
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		f.as = asMetadata
	default:
		return false
	}
	f.beta = c.params["v"] == "v1beta1"
	return c.params["g"] == "meta.k8s.io" && slices.Contains([]string{"v1", "v1beta1"}, c.params["v"])
}

// apiVersion is that of a rendering.
func (f Format) apiVersion() string {
	if f.beta {
		return "meta.k8s.io/v1beta1"
	}
	return "meta.k8s.io/v1"
}

func resourceOf(k kinds.Kind) string {
	if k.Resource == "" {
		return ""
	}
	return k.Name().String()
}
