package kubernetes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The conversions preserve the JSON of a namespace as an API server writes it, except that duplicate
// finalizers are merged. Results share no memory with arguments.

func fromKubernetes(k *corev1.Namespace) namespace.Namespace {
	return namespace.Namespace{
		TypeMeta: namespace.TypeMeta{Kind: k.Kind, APIVersion: k.APIVersion},
		Meta:     metaFrom(&k.ObjectMeta),
		Spec:     namespace.Spec{Finalizers: setOf(k.Spec.Finalizers)},
		Status: namespace.Status{
			Phase:      phase.Phase(k.Status.Phase),
			Conditions: mapSlice(k.Status.Conditions, conditionFrom),
		},
	}
}

func toKubernetes(n namespace.Namespace) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{Kind: n.Kind, APIVersion: n.APIVersion},
		ObjectMeta: metaTo(n.Meta),
		Spec:       corev1.NamespaceSpec{Finalizers: listOf[corev1.FinalizerName](n.Spec.Finalizers)},
		Status: corev1.NamespaceStatus{
			Phase:      corev1.NamespacePhase(n.Status.Phase),
			Conditions: mapSlice(n.Status.Conditions, conditionTo),
		},
	}
}

func metaFrom(k *metav1.ObjectMeta) namespace.Meta {
	return namespace.Meta{
		Name: k.Name, GenerateName: k.GenerateName, Namespace: k.Namespace,
		SelfLink: k.SelfLink, //lint:ignore SA1019 preserve it
		UID:      string(k.UID), ResourceVersion: k.ResourceVersion, Generation: k.Generation,
		CreationTimestamp: phase.At(k.CreationTimestamp.Time), DeletionTimestamp: timeFrom(k.DeletionTimestamp),
		DeletionGracePeriodSeconds: copyOf(k.DeletionGracePeriodSeconds),
		Labels:                     maps.Clone(k.Labels),
		Annotations:                maps.Clone(k.Annotations),
		OwnerReferences:            mapSlice(k.OwnerReferences, ownerFrom),
		Finalizers:                 setOf(k.Finalizers),
		ManagedFields:              mapSlice(k.ManagedFields, managedFrom),
	}
}

func metaTo(m namespace.Meta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace,
		SelfLink: m.SelfLink, //lint:ignore SA1019 preserve it
		UID:      types.UID(m.UID), ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: metav1.Time{Time: m.CreationTimestamp.Time}, DeletionTimestamp: timeTo(m.DeletionTimestamp),
		DeletionGracePeriodSeconds: copyOf(m.DeletionGracePeriodSeconds),
		Labels:                     maps.Clone(m.Labels),
		Annotations:                maps.Clone(m.Annotations),
		OwnerReferences:            mapSlice(m.OwnerReferences, ownerTo),
		Finalizers:                 listOf[string](m.Finalizers),
		ManagedFields:              mapSlice(m.ManagedFields, managedTo),
	}
}

func ownerFrom(k metav1.OwnerReference) namespace.OwnerReference {
	return namespace.OwnerReference{
		APIVersion: k.APIVersion, Kind: k.Kind, Name: k.Name, UID: string(k.UID),
		Controller: copyOf(k.Controller), BlockOwnerDeletion: copyOf(k.BlockOwnerDeletion),
	}
}

func ownerTo(o namespace.OwnerReference) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: types.UID(o.UID),
		Controller: copyOf(o.Controller), BlockOwnerDeletion: copyOf(o.BlockOwnerDeletion),
	}
}

func managedFrom(k metav1.ManagedFieldsEntry) namespace.ManagedFieldsEntry {
	return namespace.ManagedFieldsEntry{
		Manager: k.Manager, Operation: string(k.Operation), APIVersion: k.APIVersion,
		Time: timeFrom(k.Time), FieldsType: k.FieldsType, FieldsV1: fieldsFrom(k.FieldsV1), Subresource: k.Subresource,
	}
}

func managedTo(m namespace.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: m.Manager, Operation: metav1.ManagedFieldsOperationType(m.Operation), APIVersion: m.APIVersion,
		Time: timeTo(m.Time), FieldsType: m.FieldsType, FieldsV1: fieldsTo(m.FieldsV1), Subresource: m.Subresource,
	}
}

// fieldsFrom uses the JSON methods, since the representation differs between versions of
// apimachinery. Invalid JSON becomes nil.
func fieldsFrom(k *metav1.FieldsV1) namespace.RawJSON {
	if k == nil {
		return nil
	}
	raw, err := k.MarshalJSON()
	if err != nil || string(raw) == "null" {
		return nil
	}
	return slices.Clone(raw)
}

func fieldsTo(raw namespace.RawJSON) *metav1.FieldsV1 {
	if len(raw) == 0 {
		return nil
	}
	k := new(metav1.FieldsV1)
	_ = k.UnmarshalJSON(raw) // copies; fails for nil pointers only
	return k
}

func conditionFrom(k corev1.NamespaceCondition) phase.Condition {
	return phase.Condition{
		Type: phase.ConditionType(k.Type), Status: phase.ConditionStatus(k.Status),
		LastTransitionTime: phase.At(k.LastTransitionTime.Time), Reason: k.Reason, Message: k.Message,
	}
}

func conditionTo(c phase.Condition) corev1.NamespaceCondition {
	return corev1.NamespaceCondition{
		Type: corev1.NamespaceConditionType(c.Type), Status: corev1.ConditionStatus(c.Status),
		LastTransitionTime: metav1.Time{Time: c.LastTransitionTime.Time}, Reason: c.Reason, Message: c.Message,
	}
}

func timeFrom(k *metav1.Time) phase.Time {
	if k == nil {
		return phase.Time{}
	}
	return phase.At(k.Time)
}

func timeTo(t phase.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Time}
}

func setOf[S ~string](list []S) finalizer.Set {
	if len(list) == 0 {
		return finalizer.Set{}
	}
	return finalizer.NewSet(mapSlice(list, func(s S) finalizer.Name { return finalizer.Name(s) })...)
}

func listOf[S ~string](set finalizer.Set) []S {
	return mapSlice(set.Names(), func(n finalizer.Name) S { return S(n) })
}

// mapSlice converts a list. It keeps nil and empty lists distinct.
func mapSlice[A, B any](list []A, convert func(A) B) []B {
	if list == nil {
		return nil
	}
	converted := make([]B, len(list))
	for i, a := range list {
		converted[i] = convert(a)
	}
	return converted
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
