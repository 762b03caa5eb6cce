// Package namespace defines the Namespace, its validation, and the one pure
// function that decides what must happen to it next ([Decide]): the
// finalize-then-delete algorithm, without I/O and without a clock.
//
// Every request on a namespace has two functions: Prepare sets what the server
// owns and puts back what the request may not change, and Validate reports every
// violation of what it returned. [MarkDeleted] and [Removable] say how a
// namespace dies.
//
// Operators can protect a namespace from deletion, delay its deletion, and waive a
// failing source, by annotations. Package declare has them, and the functions
// ValidateCreate, ValidateUpdate, ValidateDelete and PrepareDelete that apply them.
//
// The design document that comments in this library name with a section is the
// design proposal "Namespaces" of Kubernetes.
//
// The JSON form is that of Kubernetes v1/Namespace. Values copy with
// [Namespace.DeepCopy]; nothing here keeps or aliases what it is given, and
// everything may be called by any number of goroutines at once.
package namespace

import (
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// TypeMeta names the kind of a JSON document.
type TypeMeta struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// Namespace is a named, isolated group of content (design document, "Data
// Model").
type Namespace struct {
	TypeMeta
	Meta   `json:"metadata"`
	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is what the creator asked for.
type Spec struct {
	// Finalizers must be empty before the namespace is removed (rule R1). After
	// creation only finalize changes them (rule R4).
	Finalizers finalizer.Set `json:"finalizers,omitzero"`
}

// Status is what controllers observed.
type Status struct {
	Phase      phase.Phase       `json:"phase,omitempty"` // derived from Meta.DeletionTimestamp (rule R2)
	Conditions []phase.Condition `json:"conditions,omitempty"`
}

// Meta is the metadata of a namespace and of content.
type Meta struct {
	Name                       string               `json:"name,omitempty"`
	GenerateName               string               `json:"generateName,omitempty"` // the prefix of a generated name
	Namespace                  string               `json:"namespace,omitempty"`    // of content; empty for a namespace
	SelfLink                   string               `json:"selfLink,omitempty"`     // kept for old clients, never set
	UID                        string               `json:"uid,omitempty"`          // the incarnation; set by the registry
	ResourceVersion            string               `json:"resourceVersion,omitempty"`
	Generation                 int64                `json:"generation,omitempty"`
	CreationTimestamp          phase.Time           `json:"creationTimestamp,omitzero"`
	DeletionTimestamp          phase.Time           `json:"deletionTimestamp,omitzero"` // set once, never changed (rule R3)
	DeletionGracePeriodSeconds *int64               `json:"deletionGracePeriodSeconds,omitempty"`
	Labels                     map[string]string    `json:"labels,omitempty"`
	Annotations                map[string]string    `json:"annotations,omitempty"`
	OwnerReferences            []OwnerReference     `json:"ownerReferences,omitempty"`
	Finalizers                 finalizer.Set        `json:"finalizers,omitzero"` // of the object itself
	ManagedFields              []ManagedFieldsEntry `json:"managedFields,omitempty"`
}

// OwnerReference names an object that owns this one.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// ManagedFieldsEntry records which fields a manager set last.
type ManagedFieldsEntry struct {
	Manager     string     `json:"manager,omitempty"`
	Operation   string     `json:"operation,omitempty"`
	APIVersion  string     `json:"apiVersion,omitempty"`
	Time        phase.Time `json:"time,omitzero"`
	FieldsType  string     `json:"fieldsType,omitempty"`
	FieldsV1    RawJSON    `json:"fieldsV1,omitempty"`
	Subresource string     `json:"subresource,omitempty"`
}

// List is a page of namespaces.
type List struct {
	TypeMeta
	ListMeta `json:"metadata"`
	Items    []Namespace `json:"items"`
}

// ListMeta is the metadata of a list.
type ListMeta struct {
	SelfLink           string `json:"selfLink,omitempty"` // kept for old clients, never set
	ResourceVersion    string `json:"resourceVersion,omitempty"`
	Continue           string `json:"continue,omitempty"` // the token of the next page; empty: this is the last
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}

// Phase derives the phase (rule R2).
func (n Namespace) Phase() phase.Phase { return phase.Of(n.DeletionTimestamp.Time) }

// Stage derives how far a terminating namespace has come; it is empty for an
// active one.
func (n Namespace) Stage() phase.Stage {
	held := n.Spec.Finalizers.Len() + n.Finalizers.Len()
	return phase.StageOf(n.DeletionTimestamp.Time, held, n.Status.Conditions)
}

// Removable reports whether n must be removed from storage, in the very write
// that made it so: it is terminating and holds no finalizer of either kind (rule
// R1).
func Removable(n Namespace) bool {
	return n.Phase() == phase.Terminating && n.Spec.Finalizers.IsZero() && n.Finalizers.IsZero()
}
