// Package patch changes objects as the PATCH requests of Kubernetes ask for: by JSON
// patches, merge patches, strategic merge patches and server-side apply.
//
// JSON patches are applied by evanphx/json-patch, of which Kubernetes has an older
// version, strategic merge patches and server-side apply by apimachinery.
// What is here are the bounds, and what keeps a hostile request from those libraries:
// they are given documents and patches in one form, without blanks and repeated
// fields; paths that json-patch misunderstands (the whole document as a source, names
// that are empty) are refused; and a panic is a refusal.
//
// Where the two versions of json-patch differ, Kubernetes is followed: replacing a
// field that is not there adds it, which clients rely on (but not one whose name could
// be an index of a list: only Kubernetes adds that). The rest is as json-patch has it,
// in both versions: negative indices count from the end, a test compares numbers as
// they are written, and a merge patch drops null fields of objects in lists too.
package patch

import (
	"context"
	"errors"
	"fmt"
	"mime"
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
)

// Patcher applies patches. Make one with [New]. It is safe for concurrent use.
type Patcher struct {
	codec    *codec.Codec
	strict   managedfields.TypeConverter // of what is applied: knows every field
	managers map[endpoint]*managedfields.FieldManager

	documents *openapi.Documents
	schemas   map[string]*spec.Schema // of documents
}

// endpoint is where a change arrives.
type endpoint struct{ group, version, kind, subresource string }

func endpointOf(k kinds.Kind, subresource string) endpoint {
	return endpoint{k.Group, k.Version, k.Kind, subresource}
}

// New returns a Patcher for the kinds that d describes: those of list, and
// namespaces.
func New(list []kinds.Kind, c *codec.Codec, d *openapi.Documents) (*Patcher, error) {
	if c == nil || d == nil {
		return nil, &namespace.Error{Kind: namespace.ErrInvalid, Message: "a Patcher needs a codec and the descriptions of the kinds"}
	}
	p := &Patcher{codec: c, documents: d, schemas: d.Schemas()}
	return p, p.manage(list, d)
}

// Request is a patch.
type Request struct {
	ContentType     string // of Body; parameters are ignored
	Body            []byte
	FieldManager    string                // who asks; required for server-side apply
	Force           bool                  // server-side apply takes fields over from others
	FieldValidation codec.FieldValidation // what happens to unknown fields; empty: Warn
	Now             time.Time             // for the entries of managed fields; zero: the clock's
	// Weigh may refuse the result of a JSON patch before it is decoded, since it can be
	// many times larger than the object and the patch. If Weigh is nil nothing is refused.
	Weigh func(outcome []byte) error
}

// Apply returns what current becomes by a patch, with warnings; current is not
// changed. Without a current object, server-side apply creates one, and other
// patches are [namespace.ErrNotFound].
//
// A media type that there is not, or not for this kind, is [codec.ErrMediaType]; a
// malformed patch or one that changes the identity of the object
// [namespace.ErrBadRequest]; one that cannot be applied, or makes the object invalid,
// [namespace.ErrInvalid]; one beyond the bounds has store.ErrTooLarge beneath.
// Another uid is [namespace.ErrConflict]. Conflicts of server-side apply are a
// StatusError of apimachinery, with one cause a field.
func (p *Patcher) Apply(ctx context.Context, k kinds.Kind, subresource string, current *registry.Object, r Request) (registry.Object, []string, error) {
	if err := ctx.Err(); err != nil {
		return registry.Object{}, nil, err
	}
	if p.managers[endpointOf(k, subresource)] == nil {
		return registry.Object{}, nil, refuse(k, "", namespace.ErrNotFound, "there are no patches of %s/%s", k.Name(), subresource)
	}
	mediaType, _, err := mime.ParseMediaType(r.ContentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return registry.Object{}, nil, unsupported(k)
	}
	kind := types.PatchType(mediaType)
	if kind == types.ApplyYAMLPatchType {
		return p.apply(k, subresource, current, r)
	}
	if err := known(k, kind); err != nil {
		return registry.Object{}, nil, err
	}
	if current == nil {
		return registry.Object{}, nil, refuse(k, "", namespace.ErrNotFound, "%s not found", k.Name())
	}
	if r.Force {
		return registry.Object{}, nil, invalidOption("force", namespace.FieldForbidden, "Forbidden: may not be specified for non-apply patch")
	}
	next, warnings, err := p.merge(k, kind, *current, r)
	if err != nil {
		return registry.Object{}, nil, err
	}
	if err := identical(k, *current, next); err != nil {
		return registry.Object{}, nil, err
	}
	return p.Updated(k, subresource, *current, keep(*current, next), r.FieldManager, r.Now), warnings, nil
}

// merge applies any other patch than server-side apply.
func (p *Patcher) merge(k kinds.Kind, kind types.PatchType, current registry.Object, r Request) (registry.Object, []string, error) {
	doc, err := encode(current)
	if err != nil {
		return registry.Object{}, nil, err
	}
	patched, err := change(k, kind, doc, r.Body)
	if err == nil && kind == types.JSONPatchType {
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
	if len(patched) > registry.MaxObject {
		return registry.Object{}, nil, tooLarge(k, current.Name, fmt.Sprintf("the patched object has %d bytes, at most %d are allowed", len(patched), registry.MaxObject))
	}
	repeated := duplicates(kind, r)
	if len(repeated) > 0 && r.FieldValidation == codec.Strict {
		return registry.Object{}, nil, unfit(k, current.Name, r.Body, "strict decoding error: "+strings.Join(repeated, ", "))
	}
	next, warnings, err := p.codec.Decode(k, "application/json", patched, r.FieldValidation)
	if errors.Is(err, namespace.ErrBadRequest) { // the request can be read, but what it leads to cannot
		return registry.Object{}, nil, unfit(k, current.Name, r.Body, err.Error())
	}
	return next, append(repeated, warnings...), err
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

// known refuses media types of patches that there are not.
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

// duplicates returns what is said of fields that a patch has twice.
func duplicates(kind types.PatchType, r Request) []string {
	if r.FieldValidation == codec.Ignore || kind == types.JSONPatchType {
		return nil
	}
	var patch map[string]any
	strict, err := kjson.UnmarshalStrict(r.Body, &patch, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil // it could be read before
	}
	var out []string
	for _, s := range strict {
		out = append(out, s.Error())
	}
	return out
}

// identical refuses changes of what identifies an object.
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

// keep puts back what no patch changes, and the bytes of fields that a patch only
// wrote in another way, so that a change of nothing is none.
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
		if errA == nil && errB == nil && equal(a, b, 0) {
			next.Fields[name] = slices.Clone(before)
		}
	}
	return next
}
