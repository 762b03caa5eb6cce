package namespace

import (
	"maps"
	"slices"

	"github.com/nslifecycle/nslifecycle/phase"
)

// DeepCopy returns a namespace that shares nothing with n.
func (n Namespace) DeepCopy() Namespace {
	n.Meta = n.Meta.DeepCopy()
	n.Status = n.Status.DeepCopy() // Spec is a value: sets are never changed in place
	return n
}

// DeepCopy returns metadata that shares nothing with m.
func (m Meta) DeepCopy() Meta {
	m.DeletionGracePeriodSeconds = copyOf(m.DeletionGracePeriodSeconds)
	m.Labels = maps.Clone(m.Labels)
	m.Annotations = maps.Clone(m.Annotations)
	m.OwnerReferences = slices.Clone(m.OwnerReferences)
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		o.Controller = copyOf(o.Controller)
		o.BlockOwnerDeletion = copyOf(o.BlockOwnerDeletion)
	}
	m.ManagedFields = slices.Clone(m.ManagedFields)
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		f.FieldsV1 = slices.Clone(f.FieldsV1)
	}
	return m
}

// DeepCopy returns a status that shares nothing with s.
func (s Status) DeepCopy() Status {
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

// DeepCopy returns a list that shares nothing with l.
func (l List) DeepCopy() List {
	l.RemainingItemCount = copyOf(l.RemainingItemCount)
	l.Items = slices.Clone(l.Items)
	for i := range l.Items {
		l.Items[i] = l.Items[i].DeepCopy()
	}
	return l
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// equal compares moments, not their representations.
func (s Status) equal(t Status) bool {
	return s.Phase == t.Phase && slices.EqualFunc(s.Conditions, t.Conditions, phase.Condition.Equal)
}
