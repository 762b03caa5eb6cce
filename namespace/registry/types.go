package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/audit"
	"github.com/nslifecycle/nslifecycle/store"
)

// A type record, at .types/{type}, exists while objects of a namespaced type may be
// stored (rule R7: a pass must have an answer for each such type, whichever version of
// the host stored it). Every create holds the record at its revision, which the process
// remembers: that costs one condition and no read, and no create in flight lands after
// RetireType has rewritten the record. Cluster-scoped types have no record: no namespace
// has content of them.
//
//	record     a create                                       RetireType
//	absent     puts it in its own commit, while it is absent  refuses
//	active     holds its revision                             rewrites it as retiring
//	retiring   makes it active, in its own commit             looks for objects, then
//	                                                          removes it at its revision
type typeRecord struct {
	revision store.Revision // zero: it is absent
	state    string
}

const (
	typeActive   = "active"
	typeRetiring = "retiring" // a RetireType is under way, or was cut short
)

// newTypeRecord returns the record as it is stored; nil: it is absent.
func newTypeRecord(entry *store.Entry) *typeRecord {
	if entry == nil {
		return &typeRecord{}
	}
	return &typeRecord{revision: entry.Revision, state: string(entry.Value)}
}

// typeMemory is the record of a type as the process last saw it; nil before it has. It
// may be outdated, which the conflict of a create's commit corrects.
type typeMemory struct {
	key string
	atomic.Pointer[typeRecord]
}

// join adds the condition on the record to txn, and the write that makes it active if it
// is not. It reports whether there is such a write.
func (m *typeMemory) join(txn *store.Txn) (puts bool) {
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

// loadRecord reads the record of a namespaced type unless the process has seen it.
func (c *Content) loadRecord(ctx context.Context) error {
	if !c.typ.Namespaced || c.record.Load() != nil {
		return nil
	}
	entry, err := c.read(ctx, c.record.key)
	if err != nil {
		return stored(c.resource, "", err)
	}
	c.record.Store(newTypeRecord(entry))
	return nil
}

// RetireType takes a type off the record of stored types, so that processes which do not
// declare it can empty namespaces again ([Registry.Deleter]). The audit log has it, with
// the reason and the actor ([audit.WithActor]), as a record about [audit.Types]. A create
// puts the type on record again.
//
// While objects of the type are left in any namespace the error is
// [namespace.ErrConflict] and names some of them; so it is if a create, or another
// RetireType, came first. A type that is not on record is [namespace.ErrNotFound]. An
// empty reason is [namespace.ErrInvalid]. After any other error, or a crash, the type is
// still on record or it is retired; the call can be repeated.
func (r *Registry) RetireType(ctx context.Context, resource deleter.Resource, reason string) error {
	name := clip(resource.String())
	if err := errors.Join(checkSegment(typesResource, resource.String()), ended(ctx, typesResource, name)); err != nil {
		return err
	}
	_, retired, err := r.audit.Operation(audit.Record{
		Action: audit.Retired, Namespace: audit.Types, Resource: resource.String(), By: actor(ctx), Reason: reason,
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

// retire goes through the states of a type record. In a dry run it writes nothing.
func (r *Registry) retire(ctx context.Context, resource deleter.Resource, retired store.Operation) error {
	name, key := resource.String(), r.keys.typeRecord(resource)
	for attempt := range attempts {
		if err := pause(ctx, attempt); err != nil {
			return stored(typesResource, name, err)
		}
		record, err := r.read(ctx, key)
		switch {
		case err != nil:
			return stored(typesResource, name, err)
		case record == nil:
			return notFound(typesResource, name)
		}
		// From here on no create lands that does not rewrite the record.
		retiring, err := r.apply(ctx, *record, []byte(typeRetiring), store.Txn{
			If: []store.Condition{store.At(key, record.Revision)}, Do: []store.Operation{store.Put(key, []byte(typeRetiring))},
		}, r.dry)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return stored(typesResource, name, err)
		}
		held := store.At(key, retiring.Revision)
		if err := r.refuseStored(ctx, resource); err != nil {
			if !r.dry { // if this fails the next create does it
				_, _ = r.store.Commit(ctx, store.Txn{If: []store.Condition{held}, Do: []store.Operation{store.Put(key, []byte(typeActive))}})
			}
			return err
		}
		_, err = r.apply(ctx, retiring, nil, store.Txn{If: []store.Condition{held}, Do: []store.Operation{store.Delete(key), retired}}, r.dry)
		switch {
		case errors.Is(err, store.ErrConflict):
			return conflict(typesResource, name, "the type is in use: its record changed concurrently", err)
		case err != nil:
			return stored(typesResource, name, err)
		}
		return nil
	}
	return stored(typesResource, name, errBusy)
}

// refuseStored returns an error that names namespaces with objects of a type, or nil if
// there are none. Objects of a type that is cluster-scoped in another version of the host
// do not count.
func (c *core) refuseStored(ctx context.Context, resource deleter.Resource) error {
	const most = 3
	prefix := c.keys.content(resource, "")
	q := store.Query{Prefix: prefix, Limit: 1}
	var spaces []string
	for len(spaces) < most {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return stored(typesResource, resource.String(), err)
		}
		if len(page.Entries) == 0 {
			break
		}
		q.At, q.After = page.Position, page.Entries[len(page.Entries)-1].Key
		i := slices.IndexFunc(page.Entries, func(e store.Entry) bool { return strings.Contains(e.Key[len(prefix):], "/") })
		if i < 0 {
			q.Limit, q.Bytes = chunk, 1<<20 // there may be many
			continue
		}
		space, _, _ := strings.Cut(page.Entries[i].Key[len(prefix):], "/")
		spaces = append(spaces, space)
		q.After = prefix + space + string('/'+1) // behind all its objects
	}
	if len(spaces) == 0 {
		return nil
	}
	if len(spaces) == most {
		spaces[most-1] = "others"
	}
	return conflict(typesResource, resource.String(), "objects of the type are left, in the namespaces "+strings.Join(spaces, ", "), nil)
}
