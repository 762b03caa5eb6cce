package codec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// FieldValidation selects how unknown and duplicate fields are handled: the parameter
// fieldValidation of a request. Empty means Warn.
type FieldValidation string

// The values of FieldValidation.
const (
	Strict FieldValidation = "Strict" // reject the request
	Warn   FieldValidation = "Warn"   // drop unknown fields, keep the last of duplicate ones, return a warning for each
	Ignore FieldValidation = "Ignore" // like Warn, without warnings
)

// Decode reads a request body in JSON, YAML or protobuf as an object of kind k, and returns
// it with warnings. An empty contentType means JSON. The body may omit kind and apiVersion.
// The caller bounds the size of the body.
//
// The errors are [ErrMediaType]; [namespace.ErrBadRequest] if the body is no object of kind
// k; and [namespace.ErrInvalid], with the path of each field, if the schema of a custom kind
// does not allow a value.
func (c *Codec) Decode(k kinds.Kind, contentType string, body []byte, v FieldValidation) (registry.Object, []string, error) {
	switch v {
	case "", Strict, Warn, Ignore:
	default:
		return registry.Object{}, nil, refuse(k, "", namespace.ErrBadRequest, nil,
			"fieldValidation: Unsupported value: %q: supported values: \"Ignore\", \"Strict\", \"Warn\"", excerpt(string(v)))
	}
	d := decoding{kind: k, body: body, validation: v}
	e, err := encodingOf(contentType, k.BuiltIn())
	if err != nil {
		return registry.Object{}, nil, err
	}
	if d.form, err = c.form(k); err != nil {
		return registry.Object{}, nil, err
	}
	if e == encodeProtobuf {
		o, err := d.protobuf()
		return o, nil, err
	}
	data, err := documentOf(e, body)
	if err != nil {
		return registry.Object{}, nil, d.unrecognized(err)
	}
	decode := d.custom
	if k.BuiltIn() {
		decode = d.builtIn
	}
	o, err := decode(data)
	return o, d.warnings, err
}

// DecodeDeleteOptions reads the body of a DELETE request, which may be empty. Clients send
// the group and version of the object in the options.
func (c *Codec) DecodeDeleteOptions(contentType string, body []byte) (metav1.DeleteOptions, error) {
	var options metav1.DeleteOptions
	if len(body) == 0 {
		return options, nil
	}
	d := decoding{kind: kinds.Kind{Type: registry.Type{Kind: "DeleteOptions"}}, body: body}
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
			fmt.Errorf("the kind in the data (%s) does not match the expected kind (DeleteOptions)", excerpt(options.Kind)))
	}
	return options, nil
}

// Document returns a YAML or JSON document as one JSON object. Duplicate fields are an
// error, and the expansion of aliases is bounded.
func Document(body []byte) ([]byte, error) { return documentOf(encodeYAML, body) }

// encodingOf returns the encoding for a Content-Type.
func encodingOf(contentType string, protobuf bool) (encoding, error) {
	if contentType == "" {
		return encodeJSON, nil
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) {
		for e, known := range mediaTypes {
			if mediaType == known && (protobuf || encoding(e) != encodeProtobuf) {
				return encoding(e), nil
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

// documentOf returns a body in JSON or YAML as one JSON object.
func documentOf(e encoding, body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errUTF8
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

var errUTF8 = errors.New("the document is not valid UTF-8")

// decoding is the state of one call of Decode.
type decoding struct {
	kind       kinds.Kind
	form       *form
	body       []byte
	validation FieldValidation
	warnings   []string
}

// builtIn decodes a JSON object into the Go type of the kind.
func (d *decoding) builtIn(data []byte) (registry.Object, error) {
	if err := d.form.quantities.CheckJSON(data, d.kind.Object); err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	typed := d.kind.Object.DeepCopyObject()
	strict, err := d.unmarshal(data, typed)
	if err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	apiVersion, kind := typed.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if err := d.expected(kind, apiVersion); err != nil {
		return registry.Object{}, err
	}
	if err := d.judge(strict); err != nil {
		return registry.Object{}, err
	}
	return d.stored(typed)
}

// unmarshal decodes data. Unless they are ignored it returns an error for each unknown and
// duplicate field.
func (d *decoding) unmarshal(data []byte, into any) ([]error, error) {
	if d.validation == Ignore {
		return nil, kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	}
	return kjson.UnmarshalStrict(data, into)
}

// stored converts a decoded object for the registry. It fails if the stored form could not
// be decoded: some timestamps, for example, have no JSON form.
func (d *decoding) stored(typed runtime.Object) (registry.Object, error) {
	meta, err := metaOf(d.kind, typed)
	if err != nil {
		return registry.Object{}, err
	}
	o, err := untyped(d.kind, typed, meta)
	if err == nil {
		err = fill(d.kind, d.kind.Object.DeepCopyObject(), o)
	}
	if err != nil {
		return registry.Object{}, d.unfit("", "", err)
	}
	return o, nil
}

// custom decodes a JSON object without a Go type. Its values remain as the client sent them
// unless fields are removed; then they are encoded again.
func (d *decoding) custom(data []byte) (registry.Object, error) {
	var tree any
	duplicates, err := kjson.UnmarshalStrict(data, &tree, kjson.DisallowDuplicateFields)
	if err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	var head struct {
		metav1.TypeMeta
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	if err := d.expected(head.Kind, head.APIVersion); err != nil {
		return registry.Object{}, err
	}
	if len(head.Metadata) == 0 {
		head.Metadata = json.RawMessage("{}") // validation rejects an object without a name
	}
	o, strict, err := d.customMeta(head.Metadata)
	if err != nil {
		return registry.Object{}, err
	}
	unknown, wrong := d.form.schema.check(tree)
	if err := d.judge(append(append(duplicates, strict...), unknown...)); err != nil {
		return registry.Object{}, err
	}
	if len(wrong) > 0 {
		return registry.Object{}, namespace.Invalid(d.qualified(), d.kind.Name().String(), excerpt(o.Name), wrong)
	}
	if len(duplicates)+len(unknown) > 0 {
		if data, err = d.pruned(data); err != nil {
			return registry.Object{}, err
		}
	}
	if err := json.Unmarshal(data, &o.Fields); err != nil {
		return registry.Object{}, err
	}
	o.Fields = withoutOwn(o.Fields)
	return o, nil
}

// customMeta decodes metadata into the Go type that all kinds share.
func (d *decoding) customMeta(data []byte) (registry.Object, []error, error) {
	var meta metav1.ObjectMeta
	strict, err := kjson.UnmarshalStrict(data, &meta, kjson.DisallowUnknownFields)
	if err != nil {
		return registry.Object{}, nil, d.unfit("", "", fmt.Errorf("metadata: %w", err))
	}
	for _, err := range strict {
		if field, ok := err.(kjson.FieldError); ok {
			field.SetFieldPath("metadata." + field.FieldPath())
		}
	}
	var o registry.Object
	if o.Meta, err = fromMeta(&meta); err != nil {
		return registry.Object{}, nil, d.unfit("", "", err)
	}
	o.Kind, o.APIVersion = d.kind.Kind, d.kind.APIVersion()
	return o, strict, nil
}

// pruned encodes a document again, without duplicate fields and fields that the schema does
// not have. Numbers keep all their digits.
func (d *decoding) pruned(data []byte) ([]byte, error) {
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	d.form.schema.check(tree)
	return marshal(tree)
}

// withoutOwn removes the fields that are not part of [registry.Object.Fields].
func withoutOwn(fields map[string]json.RawMessage) map[string]json.RawMessage {
	for _, own := range []string{"kind", "apiVersion", "metadata"} {
		delete(fields, own)
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// judge turns unknown and duplicate fields into an error or warnings.
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

// expected rejects a kind or version other than the requested one.
func (d *decoding) expected(kind, apiVersion string) error {
	if kind != "" && kind != d.kind.Kind {
		return d.unfit(kind, apiVersion, fmt.Errorf("the kind in the data (%s) does not match the expected kind (%s)", excerpt(kind), d.kind.Kind))
	}
	if apiVersion != "" && apiVersion != d.kind.APIVersion() {
		return refuse(d.kind, "", namespace.ErrBadRequest, nil, "the API version in the data (%s) does not match the expected API version (%s)",
			excerpt(apiVersion), d.kind.APIVersion())
	}
	return nil
}

// malformed returns the error for a document that cannot be decoded: another kind, a syntax
// error, or an unsuitable value.
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

// unfit returns the error for an object that is not of the expected kind. Empty kind and
// apiVersion default to the expected ones.
func (d *decoding) unfit(kind, apiVersion string, err error) error {
	if kind == "" {
		kind = d.kind.Kind
	}
	if apiVersion == "" {
		apiVersion = d.kind.APIVersion()
	}
	version := apiVersion[strings.LastIndex(apiVersion, "/")+1:]
	return refuse(d.kind, "", namespace.ErrBadRequest, err, "%s in version %q cannot be handled as a %s: %v", excerpt(kind), excerpt(version), d.kind.Kind, err)
}

// unrecognized returns the error for a body that is no object.
func (d *decoding) unrecognized(err error) error {
	return refuse(d.kind, "", namespace.ErrBadRequest, err, "the object provided is unrecognized (must be of type %s): %v (%s)",
		d.kind.Kind, err, summary(d.body))
}

// qualified returns the kind as messages about invalid objects name it.
func (d *decoding) qualified() string {
	if d.kind.Group == "" {
		return d.kind.Kind
	}
	return d.kind.Kind + "." + d.kind.Group
}

// summary returns the beginning of a body.
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
