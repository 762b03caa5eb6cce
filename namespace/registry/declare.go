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

// declare appends an audit record to do if replacing old with next changes any declaration.
// A zero old means that next is created. The record is written in the same commit, so record
// and change exist only together. If the name has too many records, the oldest are removed.
func (c *core) declare(ctx context.Context, do []store.Operation, old, next namespace.Namespace, value []byte) ([]store.Operation, error) {
	changes := declarations(old.Annotations, next.Annotations)
	if len(changes) == 0 {
		return do, nil
	}
	surplus, err := c.audit.Surplus(ctx, next.Name)
	if err != nil {
		return nil, err
	}
	do = append(do, surplus...)
	_, op, err := c.audit.Operation(audit.Record{
		Action: audit.Declared, Namespace: next.Name, UID: next.UID, By: actor(ctx), Changes: changes,
	}, c.roomBeside(next.Name, value, do))
	if err != nil {
		return nil, err
	}
	return append(do, op), nil
}

// declarations returns the changed declarations, sorted by key.
func declarations(old, next map[string]string) []audit.Change {
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

// actor is on whose behalf something is done, as far as it can be recorded: a request
// must not fail for a name that cannot.
func actor(ctx context.Context) string { return audit.Printable(audit.Actor(ctx)) }

// holder is the actor for the hold that the deletion of n may set.
func holder(ctx context.Context, n namespace.Namespace) string {
	if _, ok := n.Annotations[declare.GraceAnnotation]; !ok {
		return ""
	}
	return actor(ctx)
}

// roomBeside is how many bytes a further operation may have in a commit that writes
// value as a namespace, and do; half of it is left to what admission has join. Zero: no
// bound.
func (c *core) roomBeside(name string, value []byte, do []store.Operation) int {
	room := c.limits.Value
	if c.limits.Bytes > 0 {
		used := len(c.keys.namespace(name)) + len(value)
		for _, op := range do {
			used += len(op.Key) + len(op.Value)
		}
		left := max((c.limits.Bytes-used)/2, 1)
		if room == 0 || left < room {
			room = left
		}
	}
	return room
}
