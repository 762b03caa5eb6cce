package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// FieldValidation says what becomes of fields that a kind does not have, and of
// fields given twice: the parameter fieldValidation of a request. Empty means
// Warn.
type FieldValidation string

// The validations of fields.
const (
	Strict FieldValidation = "Strict" // they are refused
	Warn   FieldValidation = "Warn"   // unknown ones are dropped, the last of several counts; there is a warning for each
	Ignore FieldValidation = "Ignore" // as with Warn, but silently
)

// Decode reads the body of a request, in JSON, YAML or protobuf, as an object of
// kind k, and returns it with warnings. Kind and apiVersion may be missing, others
// than those of k are [namespace.ErrBadRequest], as is a body that is no such
// object. A value that the schema of a custom kind has no room for is
// [namespace.ErrInvalid] with the path of the field. An empty contentType is JSON,
// an unknown one [ErrMediaType]. The caller bounds the size of the body.
func (c *Codec) Decode(k kinds.Kind, contentType string, body []byte, v FieldValidation) (registry.Object, []string, error) {
	switch v {
	case "", Strict, Warn, Ignore:
	default:
		return registry.Object{}, nil, refuse(k, "", namespace.ErrBadRequest,
			"fieldValidation: Unsupported value: %q: supported values: \"Ignore\", \"Strict\", \"Warn\"", excerpt.Of(string(v)))
	}
	d := decoding{kind: k, body: body, validation: v}
	e, err := encodingOf(contentType, k.BuiltIn())
	if err != nil {
		return registry.Object{}, nil, err
	}
	f, err := c.form(k)
	if err != nil {
		return registry.Object{}, nil, err
	}
	if e == encodeProtobuf {
		o, err := d.protobuf(f.quantities)
		return o, nil, err
	}
	data, err := documentOf(e, body)
	if err != nil {
		return registry.Object{}, nil, d.unrecognized(err)
	}
	if k.BuiltIn() {
		o, err := d.builtIn(data)
		return o, d.warnings, err
	}
	o, err := d.custom(data, f.schema)
	return o, d.warnings, err
}

// DecodeDeleteOptions reads the body of a DELETE request. An empty body has no
// options. Clients name whatever group and version they work with.
func (c *Codec) DecodeDeleteOptions(contentType string, body []byte) (metav1.DeleteOptions, error) {
	var options metav1.DeleteOptions
	if len(body) == 0 {
		return options, nil
	}
	d := decoding{kind: kinds.Kind{ResourceType: registry.ResourceType{Kind: "DeleteOptions"}}, body: body}
	e, err := encodingOf(contentType, true)
	if err != nil {
		return options, err
	}
	if e == encodeProtobuf {
		unknown, err := d.envelope()
		if err != nil {
			return metav1.DeleteOptions{}, err
		}
		if err := options.Unmarshal(unknown.Raw); err != nil {
			return metav1.DeleteOptions{}, d.unrecognized(err)
		}
		options.Kind, options.APIVersion = unknown.Kind, unknown.APIVersion
	} else {
		data, err := documentOf(e, body)
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(data, &options)
		}
		if err != nil {
			return metav1.DeleteOptions{}, d.unrecognized(err)
		}
	}
	if options.Kind != "" && options.Kind != "DeleteOptions" {
		return metav1.DeleteOptions{}, d.unfit(options.Kind, options.APIVersion,
			fmt.Errorf("the kind in the data (%s) does not match the expected kind (DeleteOptions)", excerpt.Of(options.Kind)))
	}
	return options, nil
}

// encodingOf returns the encoding that a Content-Type names.
func encodingOf(contentType string, protobuf bool) (encoding, error) {
	if contentType == "" {
		return encodeJSON, nil
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) {
		switch mediaType {
		case mediaTypes[encodeJSON]:
			return encodeJSON, nil
		case mediaTypes[encodeYAML]:
			return encodeYAML, nil
		case mediaTypes[encodeProtobuf]:
			if protobuf {
				return encodeProtobuf, nil
			}
		}
	}
	accepted := allMediaTypes
	if !protobuf {
		accepted = "application/json, application/yaml"
	}
	return 0, &namespace.Error{
		Kind: ErrMediaType, Message: "the body of the request was in an unknown format - accepted media types include: " + accepted,
	}
}

// documentOf returns a body as one JSON object.
func documentOf(e encoding, body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the document is not valid UTF-8")
	}
	if e == encodeYAML {
		return fromYAML(body)
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return nil, errors.New("couldn't get version/kind; json parse error: unexpected end of JSON input")
	case trimmed[0] != '{':
		return nil, errors.New("couldn't get version/kind; json parse error: the document is not a JSON object")
	}
	return body, nil
}

// decoding is one body that is being decoded.
type decoding struct {
	kind       kinds.Kind
	body       []byte
	validation FieldValidation
	warnings   []string
}

// builtIn reads a JSON object through the Go type of the kind.
func (d *decoding) builtIn(data []byte) (registry.Object, error) {
	if err := inexpensive(d.kind, data); err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	typed := d.kind.Object.DeepCopyObject()
	strict, err := d.unmarshal(data, typed)
	found := typed.GetObjectKind().GroupVersionKind()
	if err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	apiVersion, kind := found.ToAPIVersionAndKind()
	if err := d.expected(kind, apiVersion); err != nil {
		return registry.Object{}, err
	}
	meta, err := metaOf(d.kind, typed)
	if err != nil {
		return registry.Object{}, err
	}
	if err := d.judge(strict); err != nil {
		return registry.Object{}, err
	}
	return d.stored(typed, meta)
}

// inexpensive refuses a JSON document of a built-in kind with quantities that
// nobody should read.
func inexpensive(k kinds.Kind, data []byte) error {
	disarmed, found := disarmJSON(data)
	return readable(disarmed, found, func(data []byte) error {
		return kjson.UnmarshalCaseSensitivePreserveInts(data, k.Object.DeepCopyObject())
	})
}

// unmarshal decodes data, and returns which fields are unknown or given twice.
func (d *decoding) unmarshal(data []byte, into any, strict ...kjson.StrictOption) ([]error, error) {
	if d.validation == Ignore {
		return nil, kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	}
	return kjson.UnmarshalStrict(data, into, strict...)
}

// stored returns a decoded object as the registry has it, if it can be read back:
// some moments, for one, have no JSON form.
func (d *decoding) stored(typed runtime.Object, meta *metav1.ObjectMeta) (registry.Object, error) {
	o, err := untyped(d.kind, typed, meta)
	if err == nil {
		err = fill(d.kind, d.kind.Object.DeepCopyObject(), o)
	}
	if err != nil {
		return registry.Object{}, d.unfit("", "", err)
	}
	return o, nil
}

// judge turns fields that are unknown or given twice into a refusal or warnings.
func (d *decoding) judge(strict []error) error {
	if len(strict) == 0 || d.validation == Ignore {
		return nil
	}
	if d.validation == Strict {
		return d.unfit("", "", runtime.NewStrictDecodingError(strict))
	}
	for _, err := range strict {
		d.warnings = append(d.warnings, err.Error())
	}
	return nil
}

// expected refuses another kind or version than that of the request.
func (d *decoding) expected(kind, apiVersion string) error {
	if kind != "" && kind != d.kind.Kind {
		return d.unfit(kind, apiVersion, fmt.Errorf("the kind in the data (%s) does not match the expected kind (%s)", excerpt.Of(kind), d.kind.Kind))
	}
	if apiVersion != "" && apiVersion != d.kind.APIVersion() {
		return refuse(d.kind, "", namespace.ErrBadRequest, "the API version in the data (%s) does not match the expected API version (%s)",
			excerpt.Of(apiVersion), d.kind.APIVersion())
	}
	return nil
}

// malformed is the refusal of a document that could not be decoded: because it is
// of another kind, because of its syntax, or because of a value.
func (d *decoding) malformed(data []byte, err error) error {
	if syntax, _ := kjson.SyntaxErrorOffset(err); syntax {
		return d.unrecognized(fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	var found metav1.TypeMeta
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &found) == nil {
		if other := d.expected(found.Kind, found.APIVersion); other != nil {
			return other
		}
	}
	return d.unfit("", "", err)
}

// unfit refuses an object that cannot be one of this kind. Without a kind of its
// own it is called what it should be.
func (d *decoding) unfit(kind, apiVersion string, err error) error {
	if kind == "" {
		kind = d.kind.Kind
	}
	if apiVersion == "" {
		apiVersion = d.kind.APIVersion()
	}
	version := apiVersion[strings.LastIndex(apiVersion, "/")+1:]
	refusal := refuse(d.kind, "", namespace.ErrBadRequest, "%s in version %q cannot be handled as a %s: %v", excerpt.Of(kind), excerpt.Of(version), d.kind.Kind, err)
	refusal.Err = err
	return refusal
}

// unrecognized refuses a body that is no object at all.
func (d *decoding) unrecognized(err error) error {
	refusal := refuse(d.kind, "", namespace.ErrBadRequest, "the object provided is unrecognized (must be of type %s): %v (%s)",
		d.kind.Kind, err, summary(d.body))
	refusal.Err = err
	return refusal
}

// summary returns how a body begins.
func summary(body []byte) string {
	const shown = 30
	if len(body) == 0 {
		return "<empty>"
	}
	text, more := body, ""
	if len(text) > shown {
		text, more = text[:shown], " ..."
	}
	if body[0] == '{' {
		return strings.ToValidUTF8(string(text), "\uFFFD") + more
	}
	return hex.EncodeToString(text) + more
}
