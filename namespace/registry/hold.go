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
// What keeps a namespace from being deleted keeps it from being put on hold: see
// [Registry.Delete] for these errors. A terminating one is [namespace.ErrConflict] and
// [namespace.ErrTerminating] (rule R3), a hold that cannot be declared, or for which the
// store has no room, is [namespace.ErrInvalid]. Admission is asked as for a Delete that
// begins a hold.
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

// Restore takes a namespace off hold, and returns it as it is then: as if its deletion
// had never been asked for. It may come until the deletion has begun: of the two, the
// one that commits first wins. An annotation that cannot be read is taken off as well.
//
// A namespace that is not on hold is [namespace.ErrConflict], a terminating one
// [namespace.ErrTerminating] as well (rule R3); further errors are
// [namespace.ErrNotFound], and [namespace.ErrConflict] for preconditions. To admission
// it is an Update.
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

// changeHold has what prepare makes of an Active namespace, which differs in its hold
// only, take its place.
func (r *Registry) changeHold(ctx context.Context, name string, only namespace.Preconditions,
	prepare func(old namespace.Namespace) (namespace.Namespace, error),
) (namespace.Namespace, error) {
	var old, next namespace.Namespace
	entry, gone, err := r.mutate(ctx, r.target(name), r.dry, func(entry store.Entry) (p plan, err error) {
		if old, err = decodeNamespace(entry); err != nil {
			return plan{}, err
		}
		if err := only.Check(namespace.Resource, old.Meta); err != nil {
			return plan{}, err
		}
		if old.Phase() == phase.Terminating {
			return plan{}, conflict(namespace.Resource, name,
				"it is being terminated since "+old.DeletionTimestamp.UTC().Format(time.RFC3339)+", a hold comes too late", namespace.ErrTerminating)
		}
		if next, err = prepare(old); err != nil {
			return plan{}, err
		}
		p, next, err = r.planHold(ctx, old, next, entry)
		return p, err
	})
	return answer(ctx, old, next, entry, gone, err)
}

// planHold returns how next, which differs in its hold only, takes the place of old,
// and what admission makes of it. Whether it differs or not, the index is in step then:
// an older release, or a backup, may have left it otherwise.
func (r *Registry) planHold(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (plan, namespace.Namespace, error) {
	index, err := r.holdEntry(ctx, old.Name)
	if err != nil {
		return plan{}, next, err
	}
	p := plan{keep: true}
	is, held := next.Annotations[declare.HoldAnnotation]
	if was, before := old.Annotations[declare.HoldAnnotation]; is != was || held != before {
		if p, next, err = r.planHeld(ctx, old, next, entry); err != nil {
			return plan{}, next, err
		}
	}
	op := r.holdOperation(next)
	written := slices.ContainsFunc(p.with, func(o store.Operation) bool { return o.Key == op.Key })
	if !written && string(op.Value) != index {
		if p.keep {
			p = plan{value: entry.Value}
		}
		p.with = append(p.with, op)
	}
	return p, next, nil
}

// planHeld is planHold of a hold that does differ. The rest of the namespace is not held
// against the rules for updates: what is stored must not keep it from being deleted.
func (r *Registry) planHeld(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (plan, namespace.Namespace, error) {
	commit := func(old, next namespace.Namespace) (plan, error) { return r.planNamespace(ctx, old, next, entry) }
	if !r.asks() {
		p, err := commit(old, next)
		return p, next, err
	}
	_, held := next.Annotations[declare.HoldAnnotation]
	if held {
		// Its deletion is asked for now, and by whom is known. What the links have join that
		// deletion is left to the end of the hold.
		_, _, err := r.DryRun().planAdmitted(ctx, Delete, old, namespace.MarkDeleted(old, time.Now()), asMarked, anything,
			func(_, _ namespace.Namespace) (plan, error) { return plan{keep: true}, nil })
		if err != nil {
			return plan{}, next, err
		}
	}
	p, made, err := r.planAdmitted(ctx, Update, old, next, namespace.PrepareUpdate, sinceThen(old, next), commit)
	if err != nil {
		return plan{}, next, err
	}
	if _, is, err := declare.HoldOf(made.Meta); is != held || err != nil {
		what := "admission took the hold off again"
		if !held {
			what = "admission put it on hold again"
		}
		return plan{}, next, &namespace.Error{
			Kind: namespace.ErrForbidden, Resource: namespace.Resource, Name: old.Name, Err: ErrAdmission,
			Message: fmt.Sprintf("%s %q is forbidden: %s", namespace.Resource, old.Name, what),
		}
	}
	return p, made, nil
}

// sinceThen returns [validateUpdate] without the violations that next has already.
func sinceThen(old, next namespace.Namespace) func(old, made namespace.Namespace) error {
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

// indexHold adds to do what keeps the index of holds in step when next takes the place
// of old. The entry of a namespace exists exactly while it is Active and its hold can
// be read.
func (c *core) indexHold(do []store.Operation, old, next namespace.Namespace) []store.Operation {
	was, before := old.Annotations[declare.HoldAnnotation]
	is, after := next.Annotations[declare.HoldAnnotation]
	if !before && !after || was == is && old.Phase() == next.Phase() {
		return do
	}
	return append(do, c.holdOperation(next))
}

// holdOperation is what puts the index of holds in step with n.
func (c *core) holdOperation(n namespace.Namespace) store.Operation {
	key := c.keys.hold(n.Name)
	if entry, indexed := heldUntil(n); indexed {
		return store.Put(key, []byte(entry))
	}
	return store.Delete(key)
}

// holdEntry returns the entry of a namespace in the index of holds; empty: none.
func (c *core) holdEntry(ctx context.Context, name string) (string, error) {
	entry, err := c.read(ctx, c.keys.hold(name))
	if err != nil {
		return "", stored(namespace.Resource, name, err)
	}
	if entry == nil {
		return "", nil
	}
	return string(entry.Value), nil
}

// heldUntil returns the entry of n in the index of holds, if it has one.
func heldUntil(n namespace.Namespace) (string, bool) {
	if n.Phase() != phase.Active {
		return "", false
	}
	h, held, err := declare.HoldOf(n.Meta)
	if !held || err != nil {
		return "", false
	}
	return h.Until.Format(time.RFC3339Nano) + " " + n.UID, true
}

// Holds yields, when after is empty, each namespace that is on hold now, then one
// [declare.HoldsSynced], then what happens: each that is put on hold or whose hold
// ends at another time, and each that no longer is on hold. When after is the Token of
// an earlier event it yields what happened since, and a HoldsSynced as soon as that is
// caught up. Further HoldsSynced only move the token on.
//
// It reads the index of holds alone; what else it says of Tokens, and how it ends, is
// that of [Registry.Terminating]. An entry of the index that somebody else wrote, and
// that cannot be read, is a HoldSet without UID and Until.
func (r *Registry) Holds(ctx context.Context, after string) iter.Seq2[declare.HoldEvent, error] {
	return follow(ctx, r.core, r.keys.holds(), after, func(e indexEvent) declare.HoldEvent {
		kinds := [...]declare.HoldEventType{
			entryPut: declare.HoldSet, entryGone: declare.HoldOver, synced: declare.HoldsSynced,
		}
		event := declare.HoldEvent{Type: kinds[e.kind], Name: e.name, Token: e.token}
		text, uid, _ := strings.Cut(e.value, " ")
		if until, err := time.Parse(time.RFC3339Nano, text); err == nil {
			event.UID = uid
			if event.Type == declare.HoldSet {
				event.Until = until
			}
		}
		return event
	})
}
