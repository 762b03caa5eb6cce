package store

import (
	"fmt"
)

// Txn is a transaction: if every condition holds, every operation is applied, at one new
// revision.
type Txn struct {
	If []Condition
	Do []Operation // at most one operation on a key
}

// Condition is a precondition on one key. Make one with [At], [Exists] or [Absent].
type Condition struct {
	Key      string
	Want     Want
	Revision Revision // for [WantRevision]
}

// Want is the kind of a [Condition]. The zero Want is invalid.
type Want uint8

// The kinds of conditions.
const (
	WantRevision Want = iota + 1 // the key has an entry of exactly Condition.Revision
	WantExists                   // the key has an entry
	WantAbsent                   // the key has no entry
)

// At holds if the entry at key was written at exactly revision.
func At(key string, revision Revision) Condition {
	return Condition{Key: key, Want: WantRevision, Revision: revision}
}

// Exists holds if there is an entry at key.
func Exists(key string) Condition { return Condition{Key: key, Want: WantExists} }

// Absent holds if there is no entry at key.
func Absent(key string) Condition { return Condition{Key: key, Want: WantAbsent} }

// Holds reports whether c holds for the current entry of its key, which is nil if the key is
// absent.
func (c Condition) Holds(current *Entry) bool {
	switch c.Want {
	case WantRevision:
		return current != nil && current.Revision == c.Revision
	case WantExists:
		return current != nil
	case WantAbsent:
		return current == nil
	}
	return false
}

// String describes c, as in "a/b is at revision 7".
func (c Condition) String() string {
	key := quote(c.Key)
	switch c.Want {
	case WantRevision:
		return fmt.Sprintf("%s is at revision %d", key, c.Revision)
	case WantExists:
		return key + " exists"
	case WantAbsent:
		return key + " is absent"
	}
	return fmt.Sprintf("%s has the unknown condition %d", key, c.Want)
}

// Operation changes one key. Make one with [Put] or [Delete].
type Operation struct {
	Key    string
	Value  []byte // for a put; nil is stored as an empty value
	Delete bool
}

// Put writes value at key. An empty value is an entry, not a deletion.
func Put(key string, value []byte) Operation { return Operation{Key: key, Value: value} }

// Delete removes the entry at key, if there is one.
func Delete(key string) Operation { return Operation{Key: key, Delete: true} }

// Check returns the first fault of t itself ([ErrInvalid]), or of the first limit that it exceeds
// ([ErrTooLarge]). Drivers call it before they do anything else.
func (t Txn) Check(limits Limits) error {
	if n := max(len(t.If), len(t.Do)); limits.Operations > 0 && n > limits.Operations {
		return fmt.Errorf("%w: %d conditions and %d operations, the limit is %d of each",
			ErrTooLarge, len(t.If), len(t.Do), limits.Operations)
	}
	for _, c := range t.If {
		if err := CheckKey(c.Key, limits); err != nil {
			return err
		}
		if c.Want < WantRevision || c.Want > WantAbsent {
			return fmt.Errorf("%w: %v", ErrInvalid, c)
		}
		if c.Want == WantRevision && c.Revision <= 0 {
			return fmt.Errorf("%w: condition %v: the revision must be positive", ErrInvalid, c)
		}
	}
	total := 0
	for _, op := range t.Do {
		if err := CheckKey(op.Key, limits); err != nil {
			return err
		}
		if limits.Value > 0 && len(op.Value) > limits.Value {
			return fmt.Errorf("%w: the value of %s has %d bytes, the limit is %d",
				ErrTooLarge, quote(op.Key), len(op.Value), limits.Value)
		}
		if op.Delete && op.Value != nil {
			return fmt.Errorf("%w: the deletion of %s carries a value", ErrInvalid, quote(op.Key))
		}
		total += len(op.Key) + len(op.Value)
	}
	if limits.Bytes > 0 && total > limits.Bytes {
		return fmt.Errorf("%w: the transaction has %d bytes of keys and values, the limit is %d", ErrTooLarge, total, limits.Bytes)
	}
	return t.checkDistinct()
}

// checkDistinct refuses two operations on one key, because engines differ in which of the two
// wins.
func (t Txn) checkDistinct() error {
	const small = 8 // for few operations, comparing pairs is faster than a set and does not allocate
	if len(t.Do) <= small {
		for i := range t.Do {
			for j := range i {
				if t.Do[i].Key == t.Do[j].Key {
					return duplicate(t.Do[i].Key)
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(t.Do))
	for _, op := range t.Do {
		if _, ok := seen[op.Key]; ok {
			return duplicate(op.Key)
		}
		seen[op.Key] = struct{}{}
	}
	return nil
}

func duplicate(key string) error {
	return fmt.Errorf("%w: two operations on %s in one transaction", ErrInvalid, quote(key))
}

// CheckKey refuses a key that no driver accepts: an empty one ([ErrInvalid]) or one that exceeds
// the limit ([ErrTooLarge]). A key may contain any bytes.
func CheckKey(key string, limits Limits) error {
	if key == "" {
		return fmt.Errorf("%w: the key is empty", ErrInvalid)
	}
	if limits.Key > 0 && len(key) > limits.Key {
		return fmt.Errorf("%w: the key %.40q... has %d bytes, the limit is %d", ErrTooLarge, key, len(key), limits.Key)
	}
	return nil
}
