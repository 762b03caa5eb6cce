package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// fromMeta converts metadata for the registry. Both values share their maps.
func fromMeta(m *metav1.ObjectMeta) (namespace.Meta, error) {
	out := namespace.Meta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace,
		SelfLink: m.SelfLink, //lint:ignore SA1019 clients may send it
		UID:      string(m.UID), ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp:          phase.At(m.CreationTimestamp.Time),
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels:                     m.Labels, Annotations: m.Annotations,
	}
	if m.DeletionTimestamp != nil {
		out.DeletionTimestamp = phase.At(m.DeletionTimestamp.Time)
	}
	if len(m.Finalizers) > 0 {
		names := make([]finalizer.Name, len(m.Finalizers))
		for i, name := range m.Finalizers {
			names[i] = finalizer.Name(name)
		}
		out.Finalizers = finalizer.NewSet(names...)
	}
	for _, r := range m.OwnerReferences {
		out.OwnerReferences = append(out.OwnerReferences, namespace.OwnerReference{
			APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID),
			Controller: r.Controller, BlockOwnerDeletion: r.BlockOwnerDeletion,
		})
	}
	for i, e := range m.ManagedFields {
		entry, err := fromManaged(e)
		if err != nil {
			return out, fmt.Errorf("metadata.managedFields[%d].fieldsV1: %w", i, err)
		}
		out.ManagedFields = append(out.ManagedFields, entry)
	}
	return out, nil
}

func fromManaged(e metav1.ManagedFieldsEntry) (namespace.ManagedFieldsEntry, error) {
	out := namespace.ManagedFieldsEntry{
		Manager: e.Manager, Operation: string(e.Operation), APIVersion: e.APIVersion,
		FieldsType: e.FieldsType, Subresource: e.Subresource,
	}
	if e.Time != nil {
		out.Time = phase.At(e.Time.Time)
	}
	if e.FieldsV1 == nil {
		return out, nil
	}
	fields, err := e.FieldsV1.MarshalJSON()
	if err != nil {
		return out, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, fields); err != nil {
		return out, err
	}
	if compact.String() != "null" {
		out.FieldsV1 = compact.Bytes()
	}
	return out, nil
}

// toMeta converts metadata for the Go types of Kubernetes. It copies maps and pointers.
func toMeta(m namespace.Meta) (metav1.ObjectMeta, error) {
	out := metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace,
		SelfLink: m.SelfLink, //lint:ignore SA1019 clients may send it
		UID:      types.UID(m.UID), ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp:          metav1.Time{Time: m.CreationTimestamp.Time},
		DeletionGracePeriodSeconds: clone(m.DeletionGracePeriodSeconds),
		Labels:                     maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations),
	}
	if !m.DeletionTimestamp.IsZero() {
		out.DeletionTimestamp = &metav1.Time{Time: m.DeletionTimestamp.Time}
	}
	for _, name := range m.Finalizers.All() {
		out.Finalizers = append(out.Finalizers, string(name))
	}
	for _, r := range m.OwnerReferences {
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{
			APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: types.UID(r.UID),
			Controller: clone(r.Controller), BlockOwnerDeletion: clone(r.BlockOwnerDeletion),
		})
	}
	for i, e := range m.ManagedFields {
		entry, err := toManaged(e)
		if err != nil {
			return out, fmt.Errorf("metadata.managedFields[%d].fieldsV1: %w", i, err)
		}
		out.ManagedFields = append(out.ManagedFields, entry)
	}
	return out, nil
}

func toManaged(e namespace.ManagedFieldsEntry) (metav1.ManagedFieldsEntry, error) {
	out := metav1.ManagedFieldsEntry{
		Manager: e.Manager, Operation: metav1.ManagedFieldsOperationType(e.Operation), APIVersion: e.APIVersion,
		FieldsType: e.FieldsType, Subresource: e.Subresource,
	}
	if !e.Time.IsZero() {
		out.Time = &metav1.Time{Time: e.Time.Time}
	}
	if len(e.FieldsV1) == 0 {
		return out, nil
	}
	out.FieldsV1 = &metav1.FieldsV1{}
	return out, out.FieldsV1.UnmarshalJSON(e.FieldsV1)
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// fill decodes o into an empty object of its Go type. It decodes only the fields: copying
// metadata is much cheaper.
func fill(k kinds.Kind, typed runtime.Object, o registry.Object) error {
	meta, err := metaOf(k, typed)
	if err != nil {
		return err
	}
	if len(o.Fields) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(fieldsDocument(o), typed); err != nil {
			return fmt.Errorf("codec: %s %q cannot be read as %T: %w", k.Name(), o.Name, typed, err)
		}
	}
	if *meta, err = toMeta(o.Meta); err != nil {
		return fmt.Errorf("codec: %s %q: %w", k.Name(), o.Name, err)
	}
	typed.GetObjectKind().SetGroupVersionKind(gvk(k))
	return nil
}

// fieldsDocument returns the fields of o, without its metadata, as a JSON object.
func fieldsDocument(o registry.Object) []byte {
	buf := append(make([]byte, 0, sizeOf(o)), '{')
	for name, value := range o.Fields {
		if len(buf) > 1 {
			buf = append(buf, ',')
		}
		buf = append(appendString(buf, name), ':')
		if len(value) == 0 {
			value = null
		}
		buf = append(buf, value...)
	}
	return append(buf, '}')
}

// untyped converts an object of a Go type for the registry. The result shares the maps in
// meta, the metadata of typed.
func untyped(k kinds.Kind, typed runtime.Object, meta *metav1.ObjectMeta) (registry.Object, error) {
	var o registry.Object
	var err error
	if o.Meta, err = fromMeta(meta); err != nil {
		return registry.Object{}, err
	}
	o.Kind, o.APIVersion = k.Kind, k.APIVersion()
	kept := *meta
	*meta = metav1.ObjectMeta{} // not encoded
	data, err := marshal(withoutNulls(typed))
	*meta = kept
	if err != nil {
		return registry.Object{}, err
	}
	if err := json.Unmarshal(data, &o.Fields); err != nil {
		return registry.Object{}, err
	}
	o.Fields = withoutOwn(o.Fields)
	return o, nil
}

// withoutNulls returns typed, or a copy with an empty value for each null in base64 data:
// Kubernetes returns empty values, because its storage does not distinguish the two.
func withoutNulls(typed runtime.Object) runtime.Object {
	switch o := typed.(type) {
	case *corev1.Secret:
		other := *o
		other.Data = emptyForNull(o.Data)
		return &other
	case *corev1.ConfigMap:
		other := *o
		other.BinaryData = emptyForNull(o.BinaryData)
		return &other
	}
	return typed
}

func emptyForNull(values map[string][]byte) map[string][]byte {
	for _, value := range values {
		if value != nil {
			continue
		}
		values = maps.Clone(values)
		for key, value := range values {
			if value == nil {
				values[key] = []byte{}
			}
		}
		break
	}
	return values
}
