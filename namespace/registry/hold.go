package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// DeleteAfter puts a namespace on hold until h.Until, replacing any earlier hold, and
// returns it: Active, with the [declare.HoldAnnotation]. At h.Until its deletion is due,
// regardless of its grace, and package hold requests it. A past time is due at once; only
// this call can set one, [Registry.Update] refuses it. Setting a hold, by either call,
// requires permission to delete the namespace.
//
// A namespace that cannot be deleted cannot be put on hold either, with the same errors
// ([Registry.Delete]). A terminating namespace is [namespace.ErrConflict] and
// [namespace.ErrTerminating] (rule R3). An invalid hold, or a hold for which the store has no
// room, is [namespace.ErrInvalid]. The admission chain sees it as a Delete that begins a hold.
func (r *Registry) DeleteAfter(ctx context.Context, name string, h declare.Hold, only namespace.Preconditions) (namespace.Namespace, error) {
	if err := r.checkDeletion(name, only); err != nil {
		return namespace.Namespace{}, err
	}
	if _, _, err := h.Annotation(); err != nil {
		return namespace.Namespace{}, err
	}
	return r.changeHold(ctx, name, only, func(old namespace.Namespace) (namespace.Namespace, error) {
		if err := declare.ValidateDelete(old, namespace.Preconditions{}); err != nil {
			return namespace.Namespace{}, err
		}
		return declare.WithHold(old, h)
	})
}

// Restore ends the hold of a namespace without deleting it, and returns the namespace. It is
// possible until the deletion begins: of the two, the first commit wins. Restore also removes
// an unreadable annotation. The admission chain sees it as an Update.
//
// A namespace that is not on hold is [namespace.ErrConflict]; a terminating one is also
// [namespace.ErrTerminating] (rule R3). Further errors are [namespace.ErrNotFound], and
// [namespace.ErrConflict] for preconditions.
func (r *Registry) Restore(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error) {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return namespace.Namespace{}, err
	}
	if err := checkPreconditions(namespace.Resource, name, only); err != nil {
		return namespace.Namespace{}, err
	}
	return r.changeHold(ctx, name, only, func(old namespace.Namespace) (namespace.Namespace, error) {
		if _, held := old.Annotations[declare.HoldAnnotation]; !held {
			index, err := r.holdEntry(ctx, name)
			if err == nil && index == "" {
				err = conflict(namespace.Resource, name, "it is not on hold, there is nothing to restore it from", nil)
			}
			return old, err
		}
		return withoutHold(old), nil
	})
}

func withoutHold(n namespace.Namespace) namespace.Namespace {
	n = n.DeepCopy()
	delete(n.Annotations, declare.HoldAnnotation)
	return n
}

// changeHold replaces an Active namespace by the result of prepare, which differs only in its
// hold.
func (r *Registry) changeHold(ctx context.Context, name string, only namespace.Preconditions,
	prepare func(old namespace.Namespace) (namespace.Namespace, error),
) (namespace.Namespace, error) {
	var old, next namespace.Namespace
	entry, removed, err := r.mutate(ctx, r.target(name), r.dry, func(entry store.Entry) (m mutation, err error) {
		if old, err = decodeNamespace(entry); err != nil {
			return mutation{}, err
		}
		if err := only.Check(namespace.Resource, old.Meta); err != nil {
			return mutation{}, err
		}
		if old.Phase() == phase.Terminating {
			return mutation{}, conflict(namespace.Resource, name,
				"it is being terminated since "+old.DeletionTimestamp.UTC().Format(time.RFC3339)+", a hold comes too late", namespace.ErrTerminating)
		}
		if next, err = prepare(old); err != nil {
			return mutation{}, err
		}
		m, next, err = r.planHold(ctx, old, next, entry)
		return m, err
	})
	return namespaceResult(ctx, old, next, entry, removed, err)
}

// planHold plans the replacement of old by next, which differs at most in its hold, and
// returns the result of the admission chain. It also corrects the index of holds, which a
// restored backup may have left inconsistent.
func (r *Registry) planHold(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (mutation, namespace.Namespace, error) {
	index, err := r.holdEntry(ctx, old.Name)
	if err != nil {
		return mutation{}, next, err
	}
	m := mutation{noop: true}
	is, held := next.Annotations[declare.HoldAnnotation]
	if was, before := old.Annotations[declare.HoldAnnotation]; is != was || held != before {
		if m, next, err = r.planChangedHold(ctx, old, next, entry); err != nil {
			return mutation{}, next, err
		}
	}
	if op := r.holdOperation(next); !writes(m.do, op.Key) && string(op.Value) != index {
		if m.noop {
			m = mutation{value: entry.Value}
		}
		m.do = append(m.do, op)
	}
	return m, next, nil
}

// planChangedHold is planHold for a hold that differs. It does not validate the rest of the
// namespace: an invalid stored field must not prevent its deletion.
func (r *Registry) planChangedHold(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (mutation, namespace.Namespace, error) {
	plan := func(old, next namespace.Namespace) (mutation, error) { return r.planNamespace(ctx, old, next, entry) }
	if !r.hasAdmission() {
		m, err := plan(old, next)
		return m, next, err
	}
	_, held := next.Annotations[declare.HoldAnnotation]
	if held {
		// Ask the plugins now, with the client's context, whether the deletion is allowed.
		// Their writes are dropped: the deletion at the end of the hold asks them again.
		_, _, err := r.DryRun().planAdmitted(ctx, Delete, old, namespace.MarkDeleted(old, time.Now()), nil, nil,
			func(_, _ namespace.Namespace) (mutation, error) { return mutation{noop: true}, nil })
		if err != nil {
			return mutation{}, next, err
		}
	}
	m, made, err := r.planAdmitted(ctx, Update, old, next, namespace.PrepareUpdate, validateChangesSince(old, next), plan)
	if err != nil {
		return mutation{}, next, err
	}
	if _, is, err := declare.HoldOf(made.Meta); is != held || err != nil {
		why := "an admission plugin removed the hold"
		if !held {
			why = "an admission plugin put it on hold again"
		}
		return mutation{}, next, &namespace.Error{
			Kind: namespace.ErrForbidden, Resource: namespace.Resource, Name: old.Name, Err: ErrAdmission,
			Message: fmt.Sprintf("%s %q is forbidden: %s", namespace.Resource, old.Name, why),
		}
	}
	return m, made, nil
}

// validateChangesSince returns [validateUpdate] without the violations that next has already.
func validateChangesSince(old, next namespace.Namespace) func(old, made namespace.Namespace) error {
	validate := validateUpdate(time.Now())
	var known *namespace.Error
	if !errors.As(validate(old, next), &known) {
		return validate
	}
	return func(old, made namespace.Namespace) error {
		err := validate(old, made)
		var wrong *namespace.Error
		if !errors.As(err, &wrong) || wrong.Kind != namespace.ErrInvalid {
			return err
		}
		return namespace.Invalid(namespace.Kind, namespace.Resource, made.Name, slices.DeleteFunc(wrong.Causes,
			func(v namespace.Violation) bool { return slices.Contains(known.Causes, v) }))
	}
}

// appendHold appends the change of the index of holds when next replaces old. The entry of a
// namespace exists exactly while it is Active and has a readable hold.
func (c *core) appendHold(do []store.Operation, old, next namespace.Namespace) []store.Operation {
	was, before := old.Annotations[declare.HoldAnnotation]
	is, after := next.Annotations[declare.HoldAnnotation]
	if !before && !after || was == is && old.Phase() == next.Phase() {
		return do
	}
	return append(do, c.holdOperation(next))
}

// holdOperation returns the operation that makes the index of holds match n.
func (c *core) holdOperation(n namespace.Namespace) store.Operation {
	key := c.keys.hold(n.Name)
	if h, held, err := declare.HoldOf(n.Meta); held && err == nil && n.Phase() == phase.Active {
		return store.Put(key, []byte(h.Until.Format(time.RFC3339Nano)+" "+n.UID))
	}
	return store.Delete(key)
}

// holdEntry returns the entry of a namespace in the index of holds, or "".
func (c *core) holdEntry(ctx context.Context, name string) (string, error) {
	entry, err := c.read(ctx, c.keys.hold(name))
	if err != nil {
		return "", storeError(namespace.Resource, name, err)
	}
	if entry == nil {
		return "", nil
	}
	return string(entry.Value), nil
}

// Holds yields, if after is empty, a [namespace.EventPresent] for each namespace that is on
// hold, then one [namespace.EventSynced], then an EventPresent for each new or changed hold and
// a [namespace.EventAbsent] for each hold that ends. If after is the Token of an earlier event,
// Holds yields the events since then, and an EventSynced after the last past event. Further
// EventSynced only advance the token.
//
// Holds reads only the index of holds. Tokens and errors are as for [Registry.Terminating].
// For an unreadable index entry it yields an EventPresent without UID and Until.
func (r *Registry) Holds(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return watchIndex(ctx, r.core, r.keys.holds(), after, func(value string) (string, time.Time) {
		text, uid, _ := strings.Cut(value, " ")
		until, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return "", time.Time{}
		}
		return uid, until
	})
}

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

// holder returns the actor for the hold that the deletion of n may set.
func holder(ctx context.Context, n namespace.Namespace) string {
	if _, ok := n.Annotations[declare.GraceAnnotation]; !ok {
		return ""
	}
	return audit.Actor(ctx)
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
