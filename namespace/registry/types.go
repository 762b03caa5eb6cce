package registry

import (
	"context"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/store"
)

// A type record, at .types/{type}, exists while objects of a namespaced type may be
// stored (rule R7: a pass must have an answer for each such type, whichever version of
// the host stored it). Every create holds the record at its revision, which the process
// remembers: that costs one condition and no read, and no create in flight lands after
// RetireType has rewritten the record.
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
