package registry

import (
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/store"
)

// mark is more than the bytes by which a document grows when it is marked as
// being deleted.
const mark = 128

// roomFor refuses a document that leaves the store no room for how it has to grow
// before it can go, by so many bytes: it could never be deleted (rule R12). Its key
// has key bytes.
func (c *core) roomFor(resource, name string, key int, value []byte, growth int) error {
	most := c.largest(key)
	if most == 0 || len(value)+growth <= most {
		return nil
	}
	return &namespace.Error{
		Kind: namespace.ErrInvalid, Resource: resource, Name: name, Err: store.ErrTooLarge,
		Message: fmt.Sprintf("%s %q has %d bytes, at most %d are allowed: the store takes %d, and the deletion needs the rest",
			resource, name, len(value), max(most-growth, 0), most),
	}
}

// largest is the size up to which the store takes a value at a key of so many
// bytes, together with the gate or the index entry that a commit may write as well;
// zero: no bound.
func (c *core) largest(key int) int {
	most := c.limits.Value
	if c.limits.Bytes > 0 {
		const small = 256 // the gate's value and the index entry's, and their keys' segments
		if whole := max(c.limits.Bytes-3*key-small, 1); most == 0 || whole < most {
			most = whole
		}
	}
	return most
}

// roomForEnd refuses an Active namespace that takes more than three quarters of
// what the store allows: the rest is for the deletion timestamp and for the
// conditions of the parties, which must be written before it can go (rules R9 and
// R12). A hold is in the rest as well, up to half of that: a DELETE may set it.
func (c *core) roomForEnd(n namespace.Namespace, value []byte) error {
	if !n.DeletionTimestamp.IsZero() {
		return nil
	}
	key := len(c.keys.root) + len(namespace.Resource) + len("/") + len(n.Name)
	rest := c.largest(key) / 4
	return c.roomFor(namespace.Resource, n.Name, key, value, rest-min(holdSize(n), rest/2))
}

// holdSize returns how many bytes the hold of n takes in its document; zero: it has none.
func holdSize(n namespace.Namespace) int {
	hold, held := n.Annotations[declare.HoldAnnotation]
	if !held {
		return 0
	}
	value, err := json.Marshal(hold)
	if err != nil { // of a string: never
		return 0
	}
	return len(`"":,`) + len(declare.HoldAnnotation) + len(value)
}
