// Package namespace defines the Namespace, its validation, and the pure function that decides
// its next step ([Decide]): the finalize-then-delete algorithm, without I/O and without a clock.
//
// Every request on a namespace has two functions. Prepare sets the fields that the server owns
// and restores those that the request may not change; Validate then reports every violation of
// the prepared namespace. [MarkDeleted] begins a deletion and [Removable] reports its end.
//
// Operators can protect a namespace from deletion, delay its deletion, and waive a failing
// source, by annotations. Package declare has them, and versions of ValidateCreate,
// ValidateUpdate, ValidateDelete and MarkDeleted that apply them.
//
// The JSON form is Kubernetes v1/Namespace. DeepCopy methods copy values; no function
// changes or keeps its arguments, and all are safe for concurrent use.
//
// # Rules
//
// The library keeps these rules under every interleaving of clients, parties and crashes. The
// name of a test that proves a rule contains its number.
//
//   - R1: A namespace is removed from storage only when deletionTimestamp is set and both
//     spec.finalizers and metadata.finalizers are empty. The write that leads to this state
//     removes it; no further request is needed.
//   - R2: The phase is derived: Terminating if and only if deletionTimestamp is set. No stored
//     state can disagree.
//   - R3: Active to Terminating is one-way. A deletionTimestamp never changes.
//   - R4: After creation only finalize changes spec.finalizers. An ordinary update keeps the old
//     value, silently.
//   - R5: The default finalizer, "kubernetes" or the host's own, is added at creation if it is
//     missing. The order of finalizers is kept.
//   - R6: No content is created in a namespace that is not Active: the create and the check of
//     the gate are one atomic commit. A listing after the termination is therefore final, and
//     deletion starts at once.
//   - R7: A party removes its finalizer only after it has seen none of its content left, at or
//     after the revision at which the namespace became Terminating, and only if every source
//     answered or was waived by an operator, on record. This includes the source of every
//     resource type that any version of the host ever stored under the prefix. An error
//     anywhere fails closed.
//   - R8: A pass that was started for one incarnation never touches content, status or
//     finalizers of another incarnation of the same name.
//   - R9: Every exit from a pass leaves all conditions true to its observations, including
//     early exits and failures. A pass that is interrupted writes nothing.
//   - R10: Nothing is retried without bound and backoff, and nothing gives up for ever. One
//     failing namespace or resource type never delays a healthy one. (Package controller names
//     the bound.)
//   - R11: Any number of controllers may run on one store. A duplicate, a crash or a stale
//     replica costs work, never safety.
//   - R12: If sources eventually answer and finalizers are eventually removed, every
//     terminating namespace is eventually removed.
//
// Comments in this library that name "the design proposal" and a section refer to the design
// proposal "Namespaces" of Kubernetes.
package namespace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The names of a namespace in documents, URLs and errors.
const (
	Kind       = "Namespace"
	APIVersion = "v1"
	Resource   = "namespaces"
)

// TypeMeta names the kind of a JSON document.
type TypeMeta struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// Namespace is a named, isolated group of content (design proposal of Kubernetes, "Data Model").
type Namespace struct {
	TypeMeta
	Meta   `json:"metadata"`
	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is the desired state.
type Spec struct {
	// Finalizers must be empty before the namespace is removed (rule R1). After creation
	// only finalize changes them (rule R4).
	Finalizers finalizer.Set `json:"finalizers,omitzero"`
}

// Status is the observed state.
type Status struct {
	Phase      phase.Phase       `json:"phase,omitempty"` // derived from Meta.DeletionTimestamp (rule R2)
	Conditions []phase.Condition `json:"conditions,omitempty"`
}

// Meta is the metadata of a namespace or of a content object.
type Meta struct {
	Name                       string               `json:"name,omitempty"`
	GenerateName               string               `json:"generateName,omitempty"` // the prefix of a generated name
	Namespace                  string               `json:"namespace,omitempty"`    // of content; empty for a namespace
	SelfLink                   string               `json:"selfLink,omitempty"`     // for old clients, never set
	UID                        string               `json:"uid,omitempty"`          // the incarnation
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

// ManagedFieldsEntry records the fields that a manager set last.
type ManagedFieldsEntry struct {
	Manager     string     `json:"manager,omitempty"`
	Operation   string     `json:"operation,omitempty"`
	APIVersion  string     `json:"apiVersion,omitempty"`
	Time        phase.Time `json:"time,omitzero"`
	FieldsType  string     `json:"fieldsType,omitempty"`
	FieldsV1    RawJSON    `json:"fieldsV1,omitempty"`
	Subresource string     `json:"subresource,omitempty"`
}

// RawJSON is an undecoded JSON value. Decoding null makes it empty.
type RawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *RawJSON) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*r = nil
		return nil
	}
	*r = slices.Clone(data)
	return nil
}

// List is a page of namespaces.
type List struct {
	TypeMeta
	ListMeta `json:"metadata"`
	Items    []Namespace `json:"items"`
}

// ListMeta is the metadata of a list.
type ListMeta struct {
	SelfLink           string `json:"selfLink,omitempty"` // for old clients, never set
	ResourceVersion    string `json:"resourceVersion,omitempty"`
	Continue           string `json:"continue,omitempty"` // the token of the next page; empty on the last page
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}

// Phase derives the phase (rule R2).
func (n Namespace) Phase() phase.Phase { return phase.Of(n.DeletionTimestamp.Time) }

// Stage derives the stage of a terminating namespace. It is empty for an active one.
func (n Namespace) Stage() phase.Stage {
	finalizers := n.Spec.Finalizers.Len() + n.Finalizers.Len()
	return phase.StageOf(n.DeletionTimestamp.Time, finalizers, n.Status.Conditions)
}

// Removable reports whether n must be removed from storage: it is terminating and has no
// finalizer of either kind. The write that makes it removable removes it (rule R1).
func Removable(n Namespace) bool {
	return n.Phase() == phase.Terminating && n.Spec.Finalizers.IsZero() && n.Finalizers.IsZero()
}

// Ref names one incarnation of a namespace.
type Ref struct {
	Name string
	UID  string
}

// Event reports one namespace of a watched set: of the terminating namespaces, which the
// storage yields to package controller, or of those on hold, which it yields to package hold.
type Event struct {
	Type  EventType
	Name  string    // empty in an [EventSynced]
	UID   string    // the incarnation; empty in an [EventSynced]
	Until time.Time // the end of the hold; zero for terminating namespaces
	Token string    // resumes the watch after this event; empty: not resumable here
}

// EventType is the kind of an [Event]. The zero value is invalid.
type EventType uint8

// The kinds of events.
const (
	EventPresent EventType = iota + 1 // the namespace is terminating, or on hold
	EventAbsent                       // it is not any more: removed, or no longer on hold
	EventSynced                       // all events up to Token have been delivered; no namespace is named
)

// ResourceType names a type of content, such as "pods" or "widgets.example.com".
type ResourceType struct {
	Group string // empty: the core group
	Name  string // plural and lower case, such as "pods"
}

// String returns "pods" or "widgets.example.com".
func (t ResourceType) String() string {
	if t.Group == "" {
		return t.Name
	}
	return t.Name + "." + t.Group
}

// Compare orders resource types by name, then by group.
func (t ResourceType) Compare(u ResourceType) int {
	if c := strings.Compare(t.Name, u.Name); c != 0 {
		return c
	}
	return strings.Compare(t.Group, u.Group)
}

// Validate returns nil, or an error that names the field and the rule. The name and the group
// must be path segments ([syntax.PathSegment]), and the name may not contain dots.
func (t ResourceType) Validate() error {
	if err := checkSegment("resource name", t.Name); err != nil {
		return err
	}
	if strings.Contains(t.Name, ".") {
		return fmt.Errorf("resource name %q: must not contain dots; the group goes into Group", t.Name)
	}
	if t.Group == "" {
		return nil
	}
	return checkSegment("resource group", t.Group)
}

func checkSegment(field, s string) error {
	if problems := syntax.PathSegment(s); len(problems) > 0 {
		return fmt.Errorf("%s %q: %s", field, phase.Truncate(s, 100), strings.Join(problems, ", "))
	}
	return nil
}

// DeepCopy returns a namespace that shares nothing with n.
func (n Namespace) DeepCopy() Namespace {
	n.Meta = n.Meta.DeepCopy()
	n.Status = n.Status.DeepCopy() // Spec is immutable: it holds a finalizer.Set only
	return n
}

// DeepCopy returns metadata that shares nothing with m.
func (m Meta) DeepCopy() Meta {
	m.DeletionGracePeriodSeconds = clone(m.DeletionGracePeriodSeconds)
	m.Labels = maps.Clone(m.Labels)
	m.Annotations = maps.Clone(m.Annotations)
	m.OwnerReferences = slices.Clone(m.OwnerReferences)
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		o.Controller = clone(o.Controller)
		o.BlockOwnerDeletion = clone(o.BlockOwnerDeletion)
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
	l.RemainingItemCount = clone(l.RemainingItemCount)
	l.Items = slices.Clone(l.Items)
	for i := range l.Items {
		l.Items[i] = l.Items[i].DeepCopy()
	}
	return l
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
