package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// maxRemoveAttempts limits the attempts of [Cluster.RemoveObject] at an object that other clients
// change.
const maxRemoveAttempts = 6

// RemoveObject deletes the object with this uid and removes the finalizers listed in release from
// it. It reports whether no object with this uid exists any more; otherwise other finalizers or a
// graceful deletion block it. Package force uses it to delete objects that a namespace left behind,
// so the namespace need not exist. Objects with another uid are never touched (rule R8). If
// RemoveObject fails after the deletion, the object stays marked as deleted, and the same call
// continues.
//
// A type that is missing from a complete discovery does not exist, and neither do its objects.
// Types excluded by the options and invalid arguments are errors that match [deleter.ErrInvalid];
// types without single deletions match [deleter.ErrNotSupported].
func (c *Cluster) RemoveObject(
	ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name,
) (gone bool, err error) {
	if err := c.checkRemove(ctx, resource, ns, name, uid); err != nil {
		return false, err
	}
	var unknown error
	for _, since := range []time.Time{{}, time.Now()} {
		t, found, err := c.deleter.catalog.findType(ctx, resource, since)
		if err != nil || !found {
			return err == nil, err
		}
		if !t.verbs.has(canDelete) {
			return false, fmt.Errorf("%s can only be deleted as a collection: %w", resource, deleter.ErrNotSupported)
		}
		objects := c.deleter.catalog.clients.Metadata.Resource(t.gvr).Namespace(ns)
		gone, err := remove(ctx, objects, name, uid, release)
		if !isUnserved(err) {
			return gone, err
		}
		// The type, not the object: its version may have changed, or it may be gone.
		unknown = err
	}
	return false, unknown
}

func remove(ctx context.Context, objects metadata.ResourceInterface, name, uid string, release []finalizer.Name) (gone bool, err error) {
	options := deleteOptions()
	options.Preconditions = metav1.NewUIDPreconditions(uid)
	err = objects.Delete(ctx, name, options)
	switch {
	case isObjectNotFound(err, name):
		return true, nil
	case err != nil && !(apierrors.IsConflict(err) && !isWebPage(err)):
		return false, clientError(ctx, err)
	}
	// After a conflict, read the object to see whether its uid differs.
	return releaseFinalizers(ctx, objects, name, uid, release, err)
}

// isObjectNotFound reports whether the server says that no object of this name exists. A 404 for
// the path does not count.
func isObjectNotFound(err error, name string) bool {
	var s apierrors.APIStatus
	if !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) || !errors.As(err, &s) {
		return false
	}
	details := s.Status().Details
	return details != nil && details.Name == name && details.Kind != "namespaces"
}

// releaseFinalizers removes finalizers from an object that is being deleted, and reports whether
// the object is gone. conflict is the error of its deletion, if any.
func releaseFinalizers(
	ctx context.Context, objects metadata.ResourceInterface, name, uid string, release []finalizer.Name, conflict error,
) (gone bool, err error) {
	for range maxRemoveAttempts {
		m, err := objects.Get(ctx, name, metav1.GetOptions{})
		switch {
		case isObjectNotFound(err, name):
			return true, nil
		case err != nil:
			return false, clientError(ctx, err)
		case string(m.UID) != uid:
			return true, nil
		case conflict != nil:
			return false, clientError(ctx, conflict)
		}
		kept := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return slices.Contains(release, finalizer.Name(f)) })
		if len(kept) == len(m.Finalizers) {
			return false, nil
		}
		err = patchFinalizers(ctx, objects, m, kept)
		if err != nil && !isObjectNotFound(err, name) && !apierrors.IsConflict(err) {
			return false, clientError(ctx, err)
		}
	}
	return false, fmt.Errorf("remove finalizers of %s: other clients changed it in each of %d attempts", name, maxRemoveAttempts)
}

// patchFinalizers writes the finalizers of an object, unless it changed since m was read.
func patchFinalizers(ctx context.Context, objects metadata.ResourceInterface, m *metav1.PartialObjectMetadata, kept []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.UID, "resourceVersion": m.ResourceVersion, "finalizers": kept,
	}})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (c *Cluster) checkRemove(ctx context.Context, resource namespace.ResourceType, ns, name, uid string) error {
	err := errors.Join(resource.Validate(), deleter.Target{Namespace: ns, UID: "any"}.ValidateView(), checkName(name))
	if err != nil {
		return fmt.Errorf("%w: %w", deleter.ErrInvalid, err)
	}
	if uid == "" {
		return fmt.Errorf("%w uid of %s %s/%s: must not be empty", deleter.ErrInvalid, resource, ns, name)
	}
	if !c.deleter.catalog.scope.has(resource) {
		return fmt.Errorf("%w type %s: excluded by the options Only, Except or ExceptGroups", deleter.ErrInvalid, resource)
	}
	return context.Cause(ctx)
}

// findType returns a type from a discovery that began after since, or from a new one. found is
// false if the type does not exist. If a failed discovery may hide the type, findType returns an
// error.
func (c *catalog) findType(ctx context.Context, r namespace.ResourceType, since time.Time) (t typeInfo, found bool, err error) {
	if v := c.latest(); v != nil && v.began.After(since) {
		if at, ok := v.find(r); ok {
			return v.types[at], true, nil
		}
	}
	v, err := c.fresh(ctx)
	if err != nil {
		return t, false, fmt.Errorf("cannot determine whether type %s exists: %w", r, err)
	}
	if at, ok := v.find(r); ok {
		return v.types[at], true, nil
	}
	if v.mayHide(r) {
		return t, false, fmt.Errorf("cannot determine whether type %s exists: %w", r, v.failed)
	}
	return t, false, nil
}
