package registry

import (
	"context"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
)

// appendDeclarations appends the writes that follow from the annotations of a namespace when
// next replaces old: the index of holds, and an audit record if declarations changed. A zero
// old means that next is created. The transaction also writes value.
//
// Record and change are in one commit, so they exist only together. If the name has too many
// records, the oldest are removed.
func (c *core) appendDeclarations(ctx context.Context, do []store.Operation, old, next namespace.Namespace, value []byte) ([]store.Operation, error) {
	do = c.appendHold(do, old, next)
	changes := changedDeclarations(old.Annotations, next.Annotations)
	if len(changes) == 0 {
		return do, nil
	}
	surplus, err := c.audit.Surplus(ctx, next.Name)
	if err != nil {
		return nil, err
	}
	do = append(do, surplus...)
	_, op, err := c.audit.Operation(audit.Record{
		Action: audit.Declared, Namespace: next.Name, UID: next.UID, By: audit.Actor(ctx), Changes: changes,
	}, c.recordSize(next.Name, value, do))
	if err != nil {
		return nil, err
	}
	return append(do, op), nil
}

// changedDeclarations returns the changed declarations, sorted by key.
func changedDeclarations(old, next map[string]string) []audit.Change {
	var changes []audit.Change
	for key, is := range next {
		if !declare.Declares(key) {
			continue
		}
		if was, before := old[key]; !before || was != is {
			changes = append(changes, audit.Change{Key: key, Old: was, New: is})
		}
	}
	for key, was := range old {
		if _, still := next[key]; !still && declare.Declares(key) {
			changes = append(changes, audit.Change{Key: key, Old: was})
		}
	}
	slices.SortFunc(changes, func(a, b audit.Change) int { return strings.Compare(a.Key, b.Key) })
	return changes
}

// recordSize returns the maximum size of an audit record in a commit that also writes value
// as a namespace, and do. It leaves half of the remaining bytes to admission plugins. Zero
// means unlimited.
func (c *core) recordSize(name string, value []byte, do []store.Operation) int {
	size := c.limits.Value
	if c.limits.Bytes > 0 {
		used := len(c.keys.namespace(name)) + len(value)
		for _, op := range do {
			used += len(op.Key) + len(op.Value)
		}
		if left := max((c.limits.Bytes-used)/2, 1); size == 0 || left < size {
			size = left
		}
	}
	return size
}
