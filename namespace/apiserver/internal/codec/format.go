package codec

import (
	"strings"

	"github.com/munnerz/goautoneg"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Format is the encoding of a response. The zero Format is JSON. Formats are comparable.
type Format struct {
	encoding encoding
	as       rendering
	beta     bool // the rendering is of meta.k8s.io/v1beta1, which equals v1
	pretty   bool
	watch    bool
}

type encoding uint8

const (
	encodeJSON encoding = iota
	encodeYAML
	encodeProtobuf
)

// mediaTypes are the media types of the encodings, in the order of preference.
var mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

const allMediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

type rendering uint8

const (
	asItIs rendering = iota
	asTable
	asMetadata
)

// ContentType returns the Content-Type of the response.
func (f Format) ContentType() string {
	if f.watch && f.encoding != encodeJSON {
		return mediaTypes[f.encoding] + ";stream=watch"
	}
	return mediaTypes[f.encoding]
}

// YAML reports whether the response is in YAML.
func (f Format) YAML() bool { return f.encoding == encodeYAML }

// Table reports whether the response is a Table.
func (f Format) Table() bool { return f.as == asTable }

// Raw reports whether stored documents are sent without decoding them.
func (f Format) Raw() bool { return f.encoding == encodeJSON && f.as == asItIs && !f.pretty }

// Key returns a short text that is equal for equal formats only, for
// [registry.Event.Encoded]. For a Table add the Key of the [TableOptions].
func (f Format) Key() string {
	key := [...]byte{'0' + byte(f.encoding), '0' + byte(f.as), '0', '0', '0'}
	for i, set := range []bool{f.beta, f.pretty, f.watch} {
		if set {
			key[2+i]++
		}
	}
	return string(key[:])
}

// Plain returns the format of a Status in the same encoding.
func (f Format) Plain() Format { return Format{encoding: f.encoding, pretty: f.pretty} }

// Pretty returns the format with indented JSON.
func (f Format) Pretty() Format {
	f.pretty = f.encoding == encodeJSON && !f.watch
	return f
}

// Negotiate returns the format that an Accept header prefers for objects of k. An empty
// header means JSON. The zero Kind stands for a Status. The error is [ErrNotAcceptable].
//
// Protobuf is available for built-in kinds and for metadata, a Table in JSON and YAML, a
// watch in JSON and protobuf.
func (c *Codec) Negotiate(accept string, k kinds.Kind, watch bool) (Format, error) {
	if accept == "" || accept == mediaTypes[encodeJSON] {
		return Format{watch: watch}, nil
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if !(clause.Q > 0 && clause.Q <= 1) {
			continue
		}
		for e, mediaType := range mediaTypes {
			if !matches(clause, mediaType) {
				continue
			}
			if f, ok := format(clause, encoding(e), k, watch); ok {
				return f, nil
			}
		}
	}
	served, resource := allMediaTypes, ""
	if watch {
		served = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	}
	if k.Resource != "" {
		resource = k.Name().String()
	}
	return Format{}, &namespace.Error{
		Kind: ErrNotAcceptable, Resource: resource, Message: "only the following media types are accepted: " + served,
	}
}

func matches(c goautoneg.Accept, mediaType string) bool {
	kind, subtype, _ := strings.Cut(mediaType, "/")
	switch {
	case c.Type == "*":
		return c.SubType == "*"
	case !strings.EqualFold(c.Type, kind):
		return false
	}
	return c.SubType == "*" || strings.EqualFold(c.SubType, subtype)
}

// format returns the format of a clause in an encoding that it allows, and whether it is
// available.
func format(c goautoneg.Accept, e encoding, k kinds.Kind, watch bool) (Format, bool) {
	f := Format{encoding: e, watch: watch}
	switch c.Params["as"] {
	case "":
	case "Table":
		f.as = asTable
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		f.as = asMetadata
	default:
		return f, false
	}
	if f.as != asItIs {
		version := c.Params["v"]
		if f.beta = version == "v1beta1"; c.Params["g"] != "meta.k8s.io" || !f.beta && version != "v1" {
			return f, false
		}
	}
	if stream := c.Params["stream"]; stream != "" && stream != "watch" {
		return f, false
	}
	if c.Params["pretty"] == "1" {
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

// apiVersion returns the apiVersion of a Table or of metadata.
func (f Format) apiVersion() string {
	if f.beta {
		return "meta.k8s.io/v1beta1"
	}
	return "meta.k8s.io/v1"
}
