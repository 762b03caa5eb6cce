package patch

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// apply is server-side apply: the patch contains all fields that the manager owns.
func (p *Patcher) apply(k kinds.Kind, subresource string, current *registry.Object, r Request) (registry.Object, []string, error) {
	if r.FieldManager == "" {
		return registry.Object{}, nil, invalidOption("fieldManager", namespace.FieldRequired, "Required value: is required for apply patch")
	}
	if wrong := metav1validation.ValidateFieldManager(r.FieldManager, field.NewPath("fieldManager")); len(wrong) > 0 {
		return registry.Object{}, nil, invalidOption(wrong[0].Field, string(wrong[0].Type), wrong[0].ErrorBody())
	}
	var live registry.Object
	if current != nil {
		live = *current
		if !sane(live.ManagedFields) { // unreadable: start over
			live.ManagedFields = nil
		}
	} else if subresource != "" {
		return registry.Object{}, nil, refuse(k, "", namespace.ErrNotFound, "%s not found", k.Name())
	}
	patch, err := p.applied(k, live, r.Body)
	if err != nil {
		return registry.Object{}, nil, err
	}
	before, err := untyped(k, live)
	if err != nil {
		return registry.Object{}, nil, err
	}
	if err := p.ownable(k, before.Object); err != nil {
		return registry.Object{}, nil, tooLarge(k, live.Name, "server-side apply takes too many steps: "+err.Error())
	}
	var out runtime.Object
	err = guarded(func() error {
		out, err = p.managers[endpointOf(k, subresource)].Apply(before, patch, r.FieldManager, r.Force)
		return err
	})
	if err != nil {
		return registry.Object{}, nil, applyError(k, live.Name, err)
	}
	applied, ok := out.(*unstructured.Unstructured)
	if !ok {
		return registry.Object{}, nil, fmt.Errorf("server-side apply made a %T", out)
	}
	data, err := format(applied.Object)
	if err != nil {
		return registry.Object{}, nil, refusal(k, live.Name, err)
	}
	next, warnings, err := p.decode(k, live.Name, data, r)
	if err != nil {
		return registry.Object{}, nil, err
	}
	if current == nil {
		next.ManagedFields = stamped(live, next, next.ManagedFields, r.Now)
		return next, warnings, nil
	}
	if err := identical(k, live, next); err != nil {
		return registry.Object{}, nil, err
	}
	next = keep(live, next)
	next.ManagedFields = stamped(live, next, next.ManagedFields, r.Now)
	return next, warnings, nil
}

// applied decodes and validates a patch of server-side apply.
func (p *Patcher) applied(k kinds.Kind, live registry.Object, body []byte) (*unstructured.Unstructured, error) {
	data, err := codec.Document(body)
	if err != nil {
		return nil, refuse(k, live.Name, namespace.ErrBadRequest, "error decoding YAML: %v", err)
	}
	object, err := numbered(data)
	if err != nil {
		return nil, refuse(k, live.Name, namespace.ErrBadRequest, "error decoding YAML: %v", err)
	}
	patch := &unstructured.Unstructured{Object: object}
	if gvk := patch.GroupVersionKind(); gvk.Kind != k.Kind || patch.GetAPIVersion() != k.APIVersion() {
		return nil, refuse(k, live.Name, namespace.ErrBadRequest, "invalid object type: %s", clip(gvk.String()))
	}
	if _, ok := object["metadata"].(map[string]any); !ok && object["metadata"] != nil {
		return nil, refuse(k, live.Name, namespace.ErrBadRequest, "metadata is not an object")
	}
	if sent, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "managedFields"); sent != nil {
		return nil, refuse(k, live.Name, namespace.ErrBadRequest, "metadata.managedFields must be nil")
	}
	if uid := string(patch.GetUID()); live.UID == "" && uid != "" {
		return nil, refuse(k, patch.GetName(), namespace.ErrConflict,
			"Operation cannot be fulfilled on %s %q: uid mismatch: the provided object specified uid %s, and no existing object was found",
			k.Name(), clip(patch.GetName()), clip(uid))
	}
	if err := p.ownable(k, object); err != nil {
		return nil, tooLarge(k, live.Name, "server-side apply takes too many steps: "+err.Error())
	}
	err = guarded(func() error {
		_, err := p.strict.ObjectToTyped(patch)
		return err
	})
	if err != nil {
		return nil, refuse(k, live.Name, namespace.ErrBadRequest, "failed to create typed patch object (%s/%s; %s): %v",
			clip(patch.GetNamespace()), clip(patch.GetName()), patch.GroupVersionKind(), err)
	}
	return patch, nil
}

// applyError returns the error of a failed apply. Conflicts have a Status.
func applyError(k kinds.Kind, name string, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	e := refuse(k, name, namespace.ErrBadRequest, "%s", strings.ToValidUTF8(err.Error(), "\uFFFD"))
	e.Err = err
	return e
}
