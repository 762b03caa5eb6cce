package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
)

// Type declares one type of content.
type Type struct {
	Group      string // empty: the core group
	Version    string // such as "v1"
	Resource   string // plural and lower case, such as "widgets"
	Kind       string // such as "Widget"
	Namespaced bool   // false: objects belong to no namespace, and no gate guards them
	// Status makes the field status a subresource: Create drops it, Update keeps the stored
	// status, and only [Content.UpdateStatus] changes it.
	Status bool
	// Ungenerated objects have no metadata.generation, like ConfigMaps in Kubernetes. For
	// other types it counts the changes outside of metadata and status.
	Ungenerated bool
	// Fields are selectable by field selectors, in addition to metadata.name and
	// metadata.namespace. Each is a path through JSON objects, such as "spec.nodeName". Its
	// value is the JSON string, number or boolean at the path as text, or "" for anything else.
	Fields []string
}

func (t Type) copy() Type {
	t.Fields = slices.Clone(t.Fields)
	return t
}

// Name returns the group and the resource.
func (t Type) Name() namespace.ResourceType {
	return namespace.ResourceType{Group: t.Group, Name: t.Resource}
}

// APIVersion returns "group/version", or the version alone for the core group.
func (t Type) APIVersion() string {
	if t.Group == "" {
		return t.Version
	}
	return t.Group + "/" + t.Version
}

// Invalid returns the refusal of an object of this type, or nil if there are no violations. See
// [namespace.Invalid].
func (t Type) Invalid(name string, violations []namespace.Violation) error {
	if len(violations) == 0 {
		return nil
	}
	kind := t.Kind
	if t.Group != "" {
		kind += "." + t.Group
	}
	return namespace.Invalid(kind, t.Name().String(), name, violations)
}

// validate returns an error if the type cannot be declared.
func (t Type) validate() error {
	if err := validateTypeName(t.Name()); err != nil {
		return err
	}
	if wrong := syntax.Label(t.Version); len(wrong) > 0 {
		return invalidOption("resource type %q: the version: %s", t.Name(), strings.Join(wrong, "; "))
	}
	if wrong := syntax.Label(strings.ToLower(t.Kind)); len(wrong) > 0 {
		return invalidOption("resource type %q: the kind, in lower case: %s", t.Name(), strings.Join(wrong, "; "))
	}
	for i, field := range t.Fields {
		why := fieldPathFault(field)
		switch {
		case slices.Contains(objectFields, field):
			why = "is selectable for every type"
		case slices.Contains(t.Fields[:i], field):
			why = "is declared twice"
		}
		if why != "" {
			return invalidOption("resource type %q: the field %q %s", t.Name(), clip(field), why)
		}
	}
	return nil
}

// validateTypeName returns an error if no type of content can have the name.
func validateTypeName(r namespace.ResourceType) error {
	if wrong := syntax.Label(r.Name); len(wrong) > 0 {
		return invalidOption("resource type %q: the resource: %s", clip(r.String()), strings.Join(wrong, "; "))
	}
	if r.Group != "" {
		if wrong := syntax.Subdomain(r.Group); len(wrong) > 0 {
			return invalidOption("resource type %q: the group: %s", clip(r.String()), strings.Join(wrong, "; "))
		}
	}
	switch {
	case len(r.String()) > maxSegment:
		return invalidOption("resource type %q: the name is longer than %d bytes", r, maxSegment)
	case r.Name == "finalize":
		return invalidOption("resource type %q: the name finalize is reserved for the operation on namespaces", r)
	case r.Group == "" && r.Name == namespace.Resource:
		return invalidOption("resource type %q: the namespaces themselves are not content", r)
	}
	return nil
}

// maxFieldPath bounds the path of a selectable field, in bytes.
const maxFieldPath = 253

func fieldPathFault(path string) string {
	if len(path) > maxFieldPath {
		return "is longer than a path may be"
	}
	if first, _, _ := strings.Cut(path, "."); reservedField(first) {
		return "is not selectable: only fields outside of metadata, kind and apiVersion are"
	}
	for segment := range strings.SplitSeq(path, ".") {
		if segment == "" {
			return "has an empty name in its path"
		}
		for i := range len(segment) {
			switch c := segment[i]; {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', i > 0 && (c >= '0' && c <= '9' || c == '-'):
			default:
				return "must consist of names of letters, digits, '-' and '_', separated by dots"
			}
		}
	}
	return ""
}

// A type record, at .types/{type}, exists while objects of a namespaced type may be
// stored (rule R7: a pass must have an answer for each such type, regardless of the version
// of the host that stored it). Every create is conditional on the record's revision, which
// the process caches. That costs one condition and no read, and no create in flight lands
// after RetireType has rewritten the record. Cluster-scoped types have no record, since no
// namespace contains their objects.
//
//	record     a create                                       RetireType
//	absent     puts it in the create's commit if absent       returns ErrNotFound
//	active     requires its revision                          rewrites it as retiring
//	retiring   makes it active in the create's commit         looks for objects, then
//	                                                          removes it at its revision
type typeRecord struct {
	revision store.Revision // zero: absent
	state    string
}

const (
	typeActive   = "active"
	typeRetiring = "retiring" // a RetireType is running or was interrupted
)

// newTypeRecord decodes a stored record. A nil entry means that it is absent.
func newTypeRecord(entry *store.Entry) *typeRecord {
	if entry == nil {
		return &typeRecord{}
	}
	return &typeRecord{revision: entry.Revision, state: string(entry.Value)}
}

// typeRecordCache caches the record of a type; nil until it is first read. The cache may be
// outdated: a create then conflicts and updates it.
type typeRecordCache struct {
	key string
	atomic.Pointer[typeRecord]
}

// join adds the condition on the record to txn, and a write that makes the record active
// unless it is active already. It reports whether it added the write.
func (m *typeRecordCache) join(txn *store.Txn) (puts bool) {
	last := m.Load()
	if last.revision == 0 {
		txn.If = append(txn.If, store.Absent(m.key))
	} else {
		txn.If = append(txn.If, store.At(m.key, last.revision))
	}
	if puts = last.revision == 0 || last.state != typeActive; puts {
		txn.Do = append(txn.Do, store.Put(m.key, []byte(typeActive)))
	}
	return puts
}

// loadRecord reads the record of a namespaced type unless it is cached.
func (c *Content) loadRecord(ctx context.Context) error {
	if !c.typ.Namespaced || c.record.Load() != nil {
		return nil
	}
	entry, err := c.read(ctx, c.record.key)
	if err != nil {
		return storeError(c.resource, "", err)
	}
	c.record.Store(newTypeRecord(entry))
	return nil
}

// RetireType removes the record of a stored type, so that processes which do not declare
// the type can empty namespaces again ([Registry.Deleter]). It writes an audit record about
// [audit.Types] with the reason and the actor ([audit.WithActor]). A create puts the type on
// record again.
//
// RetireType returns [namespace.ErrConflict], naming some of the namespaces, if namespaces
// have objects of the type; also if a create or another RetireType changed the record
// concurrently. It returns [namespace.ErrNotFound] if the type is not on record, and
// [namespace.ErrInvalid] if the reason is empty. After any other error, or a crash, the type
// is either on record or retired, and the call can be repeated.
func (r *Registry) RetireType(ctx context.Context, resource namespace.ResourceType, reason string) error {
	name := clip(resource.String())
	if err := errors.Join(checkSegment(typesResource, resource.String()), contextError(ctx, typesResource, name)); err != nil {
		return err
	}
	_, retired, err := r.audit.Operation(audit.Record{
		Action: audit.Retired, Namespace: audit.Types, Resource: resource.String(), By: audit.Actor(ctx), Reason: reason,
	}, r.limits.Value)
	switch {
	case strings.TrimSpace(reason) == "":
		return &namespace.Error{Kind: namespace.ErrInvalid, Resource: typesResource, Name: name, Message: "registry: retire a type: the reason is empty"}
	case err != nil:
		return err
	}
	return r.retire(ctx, resource, retired)
}

const typesResource = "resource types" // in messages

// retire moves the record of a type through its states. In a dry run it writes nothing.
func (r *Registry) retire(ctx context.Context, resource namespace.ResourceType, retired store.Operation) error {
	name, key := resource.String(), r.keys.typeRecord(resource)
	// From here on every create that lands rewrites the record.
	retiring, _, err := r.mutate(ctx, target{resource: typesResource, name: name, key: key}, r.dry, func(store.Entry) (mutation, error) {
		return mutation{value: []byte(typeRetiring)}, nil
	})
	if err != nil {
		return err
	}
	unchanged := store.At(key, retiring.Revision)
	if err := r.refuseStored(ctx, resource); err != nil {
		if !r.dry { // if this fails the next create makes it active
			_, _ = r.store.Commit(ctx, store.Txn{If: []store.Condition{unchanged}, Do: []store.Operation{store.Put(key, []byte(typeActive))}})
		}
		return err
	}
	_, err = r.apply(ctx, retiring, nil, store.Txn{If: []store.Condition{unchanged}, Do: []store.Operation{store.Delete(key), retired}}, r.dry)
	switch {
	case errors.Is(err, store.ErrConflict):
		return conflict(typesResource, name, "the type is in use: its record changed concurrently", err)
	case err != nil:
		return storeError(typesResource, name, err)
	}
	return nil
}

// refuseStored returns an error that names namespaces with objects of resource, or nil if
// there are none. It ignores objects of a type that another version of the host declares
// cluster-scoped.
func (c *core) refuseStored(ctx context.Context, resource namespace.ResourceType) error {
	const most = 3
	prefix := c.keys.content(resource, "")
	q := store.Query{Prefix: prefix, Limit: 1}
	var spaces []string
	for len(spaces) < most {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return storeError(typesResource, resource.String(), err)
		}
		if len(page.Entries) == 0 {
			break
		}
		q.At, q.After = page.Position, page.Entries[len(page.Entries)-1].Key
		i := slices.IndexFunc(page.Entries, func(e store.Entry) bool { return strings.Contains(e.Key[len(prefix):], "/") })
		if i < 0 {
			q.Limit, q.Bytes = chunk, 1<<20 // skip many cluster-scoped objects at once
			continue
		}
		space, _, _ := strings.Cut(page.Entries[i].Key[len(prefix):], "/")
		spaces = append(spaces, space)
		q.After = prefix + space + string('/'+1) // after all its objects
	}
	if len(spaces) == 0 {
		return nil
	}
	if len(spaces) == most {
		spaces[most-1] = "and others"
	}
	return conflict(typesResource, resource.String(), "objects of the type are left, in the namespaces "+strings.Join(spaces, ", "), nil)
}
