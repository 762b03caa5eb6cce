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
// ([Registry.Delete]), except that an unreadable grace does not refuse a hold. A terminating
// namespace is [namespace.ErrConflict] and [namespace.ErrTerminating] (rule R3). An invalid hold,
// or a hold for which the store has no room, is [namespace.ErrInvalid]. The admission chain first
// sees a Delete in a dry run, then the Update that sets the hold.
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
				"it has been terminating since "+old.DeletionTimestamp.UTC().Format(time.RFC3339)+": its hold can no longer be set or removed", namespace.ErrTerminating)
		}
		if next, err = prepare(old); err != nil {
			return mutation{}, err
		}
		m, next, err = r.holdMutation(ctx, old, next, entry)
		return m, err
	})
	return namespaceResult(ctx, old, next, entry, removed, err)
}

// holdMutation returns the replacement of old by next, and next as the plugins changed it. next
// differs from old at most in its hold. holdMutation also corrects the index of holds, which a
// restored backup may have left inconsistent.
func (r *Registry) holdMutation(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (mutation, namespace.Namespace, error) {
	index, err := r.holdEntry(ctx, old.Name)
	if err != nil {
		return mutation{}, next, err
	}
	m := mutation{noop: true}
	is, held := next.Annotations[declare.HoldAnnotation]
	if was, before := old.Annotations[declare.HoldAnnotation]; is != was || held != before {
		if m, next, err = r.changedHoldMutation(ctx, old, next, entry); err != nil {
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

// changedHoldMutation is holdMutation for a hold that differs. It does not validate the rest of the
// namespace: an invalid stored field must not prevent its deletion.
func (r *Registry) changedHoldMutation(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (mutation, namespace.Namespace, error) {
	build := func(old, next namespace.Namespace) (mutation, error) {
		return r.namespaceMutation(ctx, old, next, entry)
	}
	if !r.hasAdmission() {
		m, err := build(old, next)
		return m, next, err
	}
	_, held := next.Annotations[declare.HoldAnnotation]
	if held {
		// Ask the plugins now, with the client's context, whether the deletion is allowed.
		// Their writes are dropped: the deletion at the end of the hold asks them again.
		_, _, err := r.DryRun().admittedMutation(ctx, Delete, old, namespace.MarkDeleted(old, time.Now()), nil, nil,
			func(_, _ namespace.Namespace) (mutation, error) { return mutation{noop: true}, nil })
		if err != nil {
			return mutation{}, next, err
		}
	}
	m, made, err := r.admittedMutation(ctx, Update, old, next, namespace.PrepareUpdate, validateChangesSince(old, next), build)
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
