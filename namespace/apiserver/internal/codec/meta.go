package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// fromMeta returns m as the registry has it. The two share their maps.
func fromMeta(m *metav1.ObjectMeta) (namespace.Meta, error) {
	out := namespace.Meta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace,
		SelfLink: m.SelfLink, //lint:ignore SA1019 what a client sends is not lost
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

// toMeta returns m as the Go types of Kubernetes have it. The two share nothing
// that changes.
func toMeta(m namespace.Meta) (metav1.ObjectMeta, error) {
	out := metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace,
		SelfLink: m.SelfLink, //lint:ignore SA1019 what a client sends is not lost
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
