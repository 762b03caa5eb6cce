package controllertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

func getMissing(ctx context.Context, b Backend) error {
	_, err := b.Namespaces.Get(ctx, "missing")
	return expect("get of a name that was never created", err, namespace.ErrNotFound)
}

func getReturns(ctx context.Context, b Backend) error {
	created, err := b.Create(ctx, named("a", own))
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	active, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if active.Name != "a" || active.UID == "" || active.UID != created.UID || active.ResourceVersion == "" {
		return fmt.Errorf("expected name, uid and resourceVersion of %+v, got %+v", created.Meta, active.Meta)
	}
	if active.Phase() != phase.Active || !active.Spec.Finalizers.Has(own) {
		return fmt.Errorf("expected an active namespace held by %s, got one that is %s and held by %v", own, active.Phase(), active.Spec.Finalizers.Names())
	}
	if err := b.Delete(ctx, "a"); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	deleted, err := b.Namespaces.Get(ctx, "a")
	switch {
	case err != nil:
		return fmt.Errorf("get after delete: %w", err)
	case deleted.Phase() != phase.Terminating || deleted.UID != active.UID:
		return fmt.Errorf("expected the same incarnation, terminating; got %+v", deleted.Meta)
	case deleted.ResourceVersion == active.ResourceVersion:
		return errors.New("expected another resourceVersion after the deletion: a write based on the state before would not conflict")
	}
	return same("finalizers after delete", active.Spec.Finalizers, deleted.Spec.Finalizers)
}

func notAliased(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	written, err := b.Namespaces.UpdateStatus(ctx, withCondition(ns, "true"))
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	want := written.DeepCopy()
	scribble(written)
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if err := same("status, after the result of the write was changed", want.Status, got.Status); err != nil {
		return err
	}
	scribble(got)
	got, err = b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return same("status, after the result of a get was changed", want.Status, got.Status)
}

// scribble changes everything within ns that may be shared with the stored namespace.
func scribble(ns namespace.Namespace) {
	for i := range ns.Status.Conditions {
		ns.Status.Conditions[i].Message = "scribbled"
	}
	for key := range ns.Labels {
		ns.Labels[key] = "scribbled"
	}
}

func statusOnly(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own, other)
	if err != nil {
		return err
	}
	change := withFinalizers(withCondition(ns, "new"), finalizer.NewSet(own))
	written, err := b.Namespaces.UpdateStatus(ctx, change)
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return errors.Join(
		same("finalizers after a status write that had others", ns.Spec.Finalizers, got.Spec.Finalizers),
		same("conditions as read", change.Status.Conditions, got.Status.Conditions),
		same("conditions as the write returned them", change.Status.Conditions, written.Status.Conditions),
		same("resourceVersion as the write returned it", got.ResourceVersion, written.ResourceVersion),
	)
}

func finalizersOnly(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own, other)
	if err != nil {
		return err
	}
	if ns, err = b.Namespaces.UpdateStatus(ctx, withCondition(ns, "kept")); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	want := ns.Spec.Finalizers.Without(own)
	written, err := b.Namespaces.Finalize(ctx, withFinalizers(withCondition(ns, "brought along"), want))
	if err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return errors.Join(
		same("conditions after a finalize that had others", ns.Status.Conditions, got.Status.Conditions),
		same("finalizers as read", want, got.Spec.Finalizers),
		same("finalizers as the write returned them", want, written.Spec.Finalizers),
		same("resourceVersion as the write returned it", got.ResourceVersion, written.ResourceVersion),
	)
}

func staleStatus(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	first, err := b.Namespaces.UpdateStatus(ctx, withCondition(ns, "first"))
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	_, err = b.Namespaces.UpdateStatus(ctx, withCondition(ns, "second"))
	if err := expect("status write at a resourceVersion that is not the latest", err, namespace.ErrConflict); err != nil {
		return err
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return same("status after the refused write", first.Status, got.Status)
}

func staleFinalize(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	late, err := b.Namespaces.Finalize(ctx, withFinalizers(ns, ns.Spec.Finalizers.With(other)))
	if err != nil {
		return fmt.Errorf("finalize that adds: %w", err)
	}
	_, err = b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{}))
	if err := expect("finalize at a resourceVersion that is not the latest", err, namespace.ErrConflict); err != nil {
		return err
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get after the refused finalize: %w", err)
	}
	return same("finalizers after the refused finalize", late.Spec.Finalizers, got.Spec.Finalizers)
}

func otherIncarnation(ctx context.Context, b Backend) error {
	old, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	if _, err := b.Namespaces.Finalize(ctx, withFinalizers(old, finalizer.Set{})); err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	now, err := terminating(ctx, b, "a", own)
	if err != nil {
		return fmt.Errorf("the name was not free after the removal: %w", err)
	}
	if now.UID == old.UID {
		return fmt.Errorf("expected another uid for the second incarnation, got %s twice", old.UID)
	}
	late := withFinalizers(withCondition(now, "late"), finalizer.Set{})
	late.UID = old.UID // at the current resourceVersion: the uid alone must cause the refusal
	_, err = b.Namespaces.UpdateStatus(ctx, late)
	if err := expect("status write for the old incarnation", err, namespace.ErrConflict, namespace.ErrNotFound); err != nil {
		return err
	}
	_, err = b.Namespaces.Finalize(ctx, late)
	if err := expect("finalize for the old incarnation", err, namespace.ErrConflict, namespace.ErrNotFound); err != nil {
		return err
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return errors.Join(same("status", now.Status, got.Status), same("spec", now.Spec, got.Spec))
}

func writeMissing(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	if _, err := b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{})); err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	_, err = b.Namespaces.UpdateStatus(ctx, withCondition(ns, "late"))
	if err := expect("status write after the removal", err, namespace.ErrNotFound); err != nil {
		return err
	}
	_, err = b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{}))
	if err := expect("finalize after the removal", err, namespace.ErrNotFound); err != nil {
		return err
	}
	_, err = b.Namespaces.Get(ctx, "a")
	return expect("get after both", err, namespace.ErrNotFound)
}

func removedInSameWrite(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	removed, err := b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{}))
	if err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	if removed.UID != ns.UID || !namespace.Removable(removed) {
		return fmt.Errorf("expected the namespace as removed, without finalizers; got %+v", removed)
	}
	_, err = b.Namespaces.Get(ctx, "a")
	return expect("get after the last finalizer went", err, namespace.ErrNotFound)
}

func metadataFinalizersHold(ctx context.Context, b Backend) error {
	const held finalizer.Name = "example.com/metadata"
	ns := named("a", own)
	ns.Finalizers = finalizer.NewSet(held)
	if _, err := b.Create(ctx, ns); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := b.Delete(ctx, "a"); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	ns, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if ns.Finalizers.IsZero() {
		return nil // the storage has none
	}
	written, err := b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{}))
	if err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get of a namespace that %s holds, after spec.finalizers were emptied: %w", held, err)
	}
	return errors.Join(
		same("metadata.finalizers as read", finalizer.NewSet(held), got.Finalizers),
		same("metadata.finalizers as the write returned them", finalizer.NewSet(held), written.Finalizers),
		same("spec.finalizers", finalizer.Set{}, got.Spec.Finalizers),
	)
}

func deletionTimestampStays(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	want := ns.DeletionTimestamp
	unmoved := func(after string) error {
		got, err := b.Namespaces.Get(ctx, "a")
		if err != nil {
			return fmt.Errorf("get after %s: %w", after, err)
		}
		ns = got
		return same("deletionTimestamp after "+after, want.Time.UTC(), got.DeletionTimestamp.Time.UTC())
	}
	moved := func() namespace.Namespace {
		later := ns.DeepCopy()
		later.DeletionTimestamp.Time = want.Time.Add(time.Hour)
		return later
	}
	if _, err := b.Namespaces.UpdateStatus(ctx, withCondition(moved(), "moved")); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	if err := unmoved("a status write that had another"); err != nil {
		return err
	}
	if _, err := b.Namespaces.Finalize(ctx, withFinalizers(moved(), ns.Spec.Finalizers.With(other))); err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	if err := unmoved("a finalize that had another"); err != nil {
		return err
	}
	time.Sleep(time.Until(want.Time.Truncate(time.Second).Add(time.Second))) // timestamps have seconds
	_ = b.Delete(ctx, "a")                                                   // the storage may refuse it
	return unmoved("a second delete")
}

func activeStays(ctx context.Context, b Backend) error {
	if _, err := b.Create(ctx, named("a", own)); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	ns, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if _, err := b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{})); err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get after an active namespace lost its finalizers: %w", err)
	}
	return same("phase", phase.Active, got.Phase())
}

func cancelledCall(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = b.Namespaces.Get(ended, "a")
	if err := expect("get with a cancelled context", err, context.Canceled); err != nil {
		return err
	}
	_, err = b.Namespaces.UpdateStatus(ended, withCondition(ns, "cancelled"))
	if err := expect("status write with a cancelled context", err, context.Canceled); err != nil {
		return err
	}
	_, err = b.Namespaces.Finalize(ended, withFinalizers(ns, finalizer.Set{}))
	if err := expect("finalize with a cancelled context", err, context.Canceled); err != nil {
		return err
	}
	got, err := b.Namespaces.Get(ctx, "a")
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return same("resourceVersion", ns.ResourceVersion, got.ResourceVersion)
}
