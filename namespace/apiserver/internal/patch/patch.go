// Package patch applies the PATCH requests of Kubernetes: JSON patches, merge patches,
// strategic merge patches and server-side apply.
//
// Libraries do most of the work: evanphx/json-patch applies JSON patches, apimachinery
// strategic merge patches and server-side apply. This package bounds their effort and keeps
// hostile requests from them. They get documents and patches without blanks and duplicate
// fields; paths that json-patch misunderstands (the whole document as a source, empty names)
// are rejected; and a panic becomes an error.
//
// As in Kubernetes, replacing a missing field adds it, except where its name could be an index
// of a list. Negative indices count from the end, a test compares numbers as they are written,
// a merge patch drops null fields of objects in lists, and server-side apply reads numbers as
// int64 or float64.
package patch

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// Patcher applies patches. Use [New] to create one. It is safe for concurrent use.
type Patcher struct {
	codec    *codec.Codec
	strict   managedfields.TypeConverter // for patches: rejects unknown fields
	managers map[endpoint]*managedfields.FieldManager

	documents *openapi.Documents
	schemas   map[string]*spec.Schema // from documents
}

// endpoint identifies a kind and a sub-resource.
type endpoint struct{ group, version, kind, subresource string }

func endpointOf(k kinds.Kind, subresource string) endpoint {
	return endpoint{k.Group, k.Version, k.Kind, subresource}
}

// New returns a Patcher for the kinds of list and for namespaces, which d describes.
func New(list []kinds.Kind, c *codec.Codec, d *openapi.Documents) (*Patcher, error) {
	p := &Patcher{codec: c, documents: d, schemas: d.Schemas()}
	return p, p.manage(list, d)
}

// Request is a patch.
type Request struct {
	Type            types.PatchType
	Body            []byte
	FieldManager    string                // required for server-side apply
	Force           bool                  // server-side apply takes ownership of conflicting fields
	FieldValidation codec.FieldValidation // of unknown and duplicate fields; empty: Warn
	Now             time.Time             // for managed fields
	// Weigh may reject the result of a JSON patch before it is decoded, since it can be many
	// times larger than the object and the patch. Nil rejects nothing.
	Weigh func(outcome []byte) error
}

// Apply returns the patched object and warnings. It does not modify current. If current is
// nil, server-side apply creates an object, and other patches fail. The errors are:
//
//	[codec.ErrMediaType]        a type of patch that the kind does not have
//	[namespace.ErrNotFound]     no current object
//	[namespace.ErrBadRequest]   a malformed patch, or one that changes the name or namespace
//	[namespace.ErrInvalid]      a patch that cannot be applied, or makes the object invalid
//	[namespace.ErrConflict]     another uid
//	store.ErrTooLarge           a patch or object beyond the bounds; it is ErrInvalid as well
//	a StatusError               conflicts of server-side apply, with one cause for each field
func (p *Patcher) Apply(k kinds.Kind, subresource string, current *registry.Object, r Request) (registry.Object, []string, error) {
	if p.managers[endpointOf(k, subresource)] == nil {
		return registry.Object{}, nil, refuse(k, "", namespace.ErrNotFound, "there are no patches of %s/%s", k.Name(), subresource)
	}
	if r.Type == types.ApplyYAMLPatchType {
		return p.apply(k, subresource, current, r)
	}
	if err := known(k, r.Type); err != nil {
		return registry.Object{}, nil, err
	}
	if current == nil {
		return registry.Object{}, nil, refuse(k, "", namespace.ErrNotFound, "%s not found", k.Name())
	}
	if r.Force {
		return registry.Object{}, nil, invalidOption("force", namespace.FieldForbidden, "Forbidden: may not be specified for non-apply patch")
	}
	next, warnings, err := p.merge(k, *current, r)
	if err != nil {
		return registry.Object{}, nil, err
	}
	if err := identical(k, *current, next); err != nil {
		return registry.Object{}, nil, err
	}
	return p.Updated(k, subresource, *current, keep(*current, next), r.FieldManager, r.Now), warnings, nil
}

// merge applies patches other than server-side apply.
func (p *Patcher) merge(k kinds.Kind, current registry.Object, r Request) (registry.Object, []string, error) {
	doc, err := encode(current)
	if err != nil {
		return registry.Object{}, nil, err
	}
	patched, err := change(k, r.Type, doc, r.Body)
	if err == nil && r.Type == types.JSONPatchType {
		if r.Weigh != nil && len(patched) <= registry.MaxObject {
			if err := r.Weigh(patched); err != nil {
				return registry.Object{}, nil, err
			}
		}
		patched, err = canonical(patched)
	}
	if err != nil {
		return registry.Object{}, nil, refusal(k, current.Name, err)
	}
	repeated := duplicates(r)
	if len(repeated) > 0 && r.FieldValidation == codec.Strict {
		return registry.Object{}, nil, unfit(k, current.Name, r.Body, "strict decoding error: "+strings.Join(repeated, ", "))
	}
	next, warnings, err := p.decode(k, current.Name, patched, r)
	return next, append(repeated, warnings...), err
}

// decode decodes a patched document.
func (p *Patcher) decode(k kinds.Kind, name string, patched []byte, r Request) (registry.Object, []string, error) {
	if len(patched) > registry.MaxObject {
		return registry.Object{}, nil, tooLarge(k, name, fmt.Sprintf("the patched object has %d bytes, at most %d are allowed", len(patched), registry.MaxObject))
	}
	next, warnings, err := p.codec.Decode(k, "application/json", patched, r.FieldValidation)
	if errors.Is(err, namespace.ErrBadRequest) { // the patch is well-formed, but its result is not
		return registry.Object{}, nil, unfit(k, name, r.Body, err.Error())
	}
	return next, warnings, err
}

// change returns the patched document.
func change(k kinds.Kind, kind types.PatchType, doc, body []byte) ([]byte, error) {
	switch kind {
	case types.StrategicMergePatchType:
		return strategicMerge(k, doc, body)
	case types.MergePatchType:
		return mergePatch(doc, body)
	}
	return jsonPatch(doc, body)
}

// known rejects types of patches that a kind does not have.
func known(k kinds.Kind, kind types.PatchType) error {
	switch kind {
	case types.JSONPatchType, types.MergePatchType:
		return nil
	case types.StrategicMergePatchType:
		if k.BuiltIn() {
			return nil
		}
	}
	return unsupported(k)
}

func unsupported(k kinds.Kind) error {
	list := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	if k.BuiltIn() {
		list = append(list, string(types.StrategicMergePatchType))
	}
	return refuse(k, "", codec.ErrMediaType, "the body of the request was in an unknown format - accepted media types include: %s", strings.Join(list, ", "))
}

// duplicates returns a warning for each duplicate field of a patch.
func duplicates(r Request) []string {
	if r.FieldValidation == codec.Ignore || r.Type == types.JSONPatchType {
		return nil
	}
	var patch map[string]any
	strict, err := kjson.UnmarshalStrict(r.Body, &patch, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil // it was decoded before
	}
	var out []string
	for _, s := range strict {
		out = append(out, s.Error())
	}
	return out
}

// identical rejects a change of the name, namespace or uid.
func identical(k kinds.Kind, current, next registry.Object) error {
	switch {
	case next.Name != current.Name:
		return refuse(k, current.Name, namespace.ErrBadRequest,
			"the name of the object (%s) does not match the name on the URL (%s)", clip(next.Name), current.Name)
	case next.Namespace != current.Namespace:
		return refuse(k, current.Name, namespace.ErrBadRequest,
			"the namespace of the object (%s) does not match the namespace on the request (%s)", clip(next.Namespace), current.Namespace)
	case next.UID != "" && next.UID != current.UID:
		return refuse(k, current.Name, namespace.ErrConflict,
			"Operation cannot be fulfilled on %s %q: Precondition failed: UID in precondition: %s, UID in object meta: %s",
			k.Name(), current.Name, clip(next.UID), current.UID)
	}
	return nil
}

// keep restores the metadata that no patch changes, and the bytes of unchanged fields, so that
// a patch without effect does not create a new version.
func keep(current, next registry.Object) registry.Object {
	next.SelfLink, next.UID, next.Generation = current.SelfLink, current.UID, current.Generation
	next.CreationTimestamp, next.DeletionTimestamp = current.CreationTimestamp, current.DeletionTimestamp
	next.DeletionGracePeriodSeconds = current.DeletionGracePeriodSeconds
	for name, value := range next.Fields {
		before, ok := current.Fields[name]
		if !ok || string(before) == string(value) {
			continue
		}
		a, errA := parse(before)
		b, errB := parse(value)
		if errA == nil && errB == nil && reflect.DeepEqual(a, b) {
			next.Fields[name] = slices.Clone(before)
		}
	}
	return next
}

func refuse(k kinds.Kind, name string, kind error, format string, args ...any) *namespace.Error {
	return &namespace.Error{Kind: kind, Resource: k.Name().String(), Name: name, Message: fmt.Sprintf(format, args...)}
}

// refusal returns the error for a patch that could not be applied.
func refusal(k kinds.Kind, name string, err error) error {
	var e *namespace.Error
	var operations errOperations
	switch {
	case errors.As(err, &operations), errors.Is(err, errCopies), errors.Is(err, errEffort), errors.Is(err, errMatches):
		return tooLarge(k, name, strings.TrimPrefix(err.Error(), errUnmergeable.Error()+"\n"))
	case errors.Is(err, errUnmergeable), errors.Is(err, errDepth), errors.Is(err, errWhole), errors.Is(err, errNoName):
		why := clip(strings.ReplaceAll(strings.TrimPrefix(err.Error(), errUnmergeable.Error()+"\n"), "\n", ": "))
		e = refuse(k, name, namespace.ErrInvalid, "the server rejected our request due to an error in our request: %s", why)
		// kubectl shows only the causes.
		e.Causes = []namespace.Violation{{Type: namespace.FieldInvalid, Field: "patch", Message: why}}
	default:
		e = refuse(k, name, namespace.ErrBadRequest, "the patch is malformed: %s", clip(err.Error()))
	}
	e.Err = err
	return e
}

func tooLarge(k kinds.Kind, name, message string) error {
	e := refuse(k, name, namespace.ErrInvalid, "%s", message)
	e.Err = store.ErrTooLarge
	return e
}

// unfit returns the error for a patch that makes an object invalid.
func unfit(k kinds.Kind, name string, value []byte, why string) error {
	return namespace.Invalid(qualified(k), k.Name().String(), name, []namespace.Violation{{
		Type: namespace.FieldInvalid, Field: "patch", Message: fmt.Sprintf("Invalid value: %q: %s", clip(string(value)), why),
	}})
}

func qualified(k kinds.Kind) string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// invalidOption returns the error for a parameter of the request.
func invalidOption(field, kind, message string) error {
	return namespace.Invalid("PatchOptions.meta.k8s.io", "", "", []namespace.Violation{{Type: kind, Field: field, Message: message}})
}

// clip returns the beginning of a long text.
func clip(s string) string { return phase.Truncate(s, 500) }

// guarded converts a panic in f to an error. The libraries panic on some hostile patches, for
// example on list items whose keys are not comparable, and on nulls in lists.
func guarded(f func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = errors.Join(errUnmergeable, fmt.Errorf("%v", fault))
		}
	}()
	return f()
}
