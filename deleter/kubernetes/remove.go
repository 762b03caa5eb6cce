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

// removals bounds how often [Cluster.Remove] looks at an object that others change at
// the same time.
const removals = 6

// Remove deletes one object, if it still has that uid, and takes the finalizers named in
// release off it. It reports whether no object of that uid is there any more: if not,
// other finalizers or a graceful deletion hold it. It is for sweeps of what a namespace
// left behind (package force), so that it does not matter whether the namespace is there
// still, or again: no object of another uid is touched (rule R8). An object that was
// marked as being deleted keeps that mark whatever fails after it, so that the same call
// goes on.
//
// A type that a complete discovery does not show does not exist, and nor do its objects.
// Types that the options leave alone, and arguments that make no sense, are refused with
// [deleter.ErrInvalid]; types without single deletions with [deleter.ErrNotSupported].
func (c *Cluster) Remove(
	ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name,
) (gone bool, err error) {
	if err := c.checkRemove(ctx, resource, ns, name, uid); err != nil {
		return false, err
	}
	var unknown error
	for _, since := range []time.Time{{}, time.Now()} {
		t, found, err := c.deleter.catalog.lookUp(ctx, resource, since)
		if err != nil || !found {
			return err == nil, err
		}
		if !t.verbs.has(canDelete) {
			return false, fmt.Errorf("%s can only be deleted as a collection: %w", resource, deleter.ErrNotSupported)
		}
		objects := c.deleter.catalog.clients.Metadata.Resource(t.gvr).Namespace(ns)
		gone, err := remove(ctx, objects, name, uid, release)
		if !unserved(err) {
			return gone, err
		}
		// The type, not the object: it may be served in another version by now, or be gone.
		unknown = err
	}
	return false, unknown
}

func remove(ctx context.Context, objects metadata.ResourceInterface, name, uid string, release []finalizer.Name) (gone bool, err error) {
	options := background()
	options.Preconditions = metav1.NewUIDPreconditions(uid)
	err = objects.Delete(ctx, name, options)
	switch {
	case noObject(err, name):
		return true, nil
	case err != nil && !(apierrors.IsConflict(err) && !pageOfWeb(err)):
		return false, explain(ctx, err)
	}
	// After a conflict a look tells whether it was about the uid.
	return freed(ctx, objects, name, uid, release, err)
}

// noObject reports whether the server says that there is no object of that name, which
// is more than that it does not serve the path.
func noObject(err error, name string) bool {
	var s apierrors.APIStatus
	if !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) || !errors.As(err, &s) {
		return false
	}
	details := s.Status().Details
	return details != nil && details.Name == name && details.Kind != "namespaces"
}

// freed takes finalizers off an object that is being deleted, and reports whether that
// was all that held it. Conflict is that of its deletion; nil: none.
func freed(
	ctx context.Context, objects metadata.ResourceInterface, name, uid string, release []finalizer.Name, conflict error,
) (gone bool, err error) {
	for range removals {
		m, err := objects.Get(ctx, name, metav1.GetOptions{})
		switch {
		case noObject(err, name):
			return true, nil
		case err != nil:
			return false, explain(ctx, err)
		case m == nil:
			return false, errNoAnswer
		case string(m.UID) != uid:
			return true, nil
		case conflict != nil:
			return false, explain(ctx, conflict)
		}
		kept := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return slices.Contains(release, finalizer.Name(f)) })
		if len(kept) == len(m.Finalizers) {
			return false, nil
		}
		err = keepFinalizers(ctx, objects, m, kept)
		if err != nil && !noObject(err, name) && !apierrors.IsConflict(err) {
			return false, explain(ctx, err)
		}
	}
	return false, fmt.Errorf("finalizers of %s: others changed it each of %d times", name, removals)
}

// keepFinalizers writes the finalizers of an object that is still what was read.
func keepFinalizers(ctx context.Context, objects metadata.ResourceInterface, m *metav1.PartialObjectMetadata, kept []string) error {
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
	if ctx == nil {
		return fmt.Errorf("%w context: is nil", deleter.ErrInvalid)
	}
	// What makes a path of a namespace and a name, or says which object is meant.
	err := errors.Join(resource.Validate(), deleter.Target{Namespace: ns, UID: "any"}.ValidateView(), checkName(name))
	if err != nil {
		return fmt.Errorf("%w: %w", deleter.ErrInvalid, err)
	}
	if uid == "" {
		return fmt.Errorf("%w uid of %s %s/%s: is empty: say which object of that name is meant", deleter.ErrInvalid, resource, ns, name)
	}
	if !c.deleter.catalog.scope.has(resource) {
		return fmt.Errorf("%w type %s: the options Only, Except or ExceptGroups leave it alone", deleter.ErrInvalid, resource)
	}
	return context.Cause(ctx)
}

// lookUp returns the type of a resource, by a discovery that began after since, or by a
// new one if that does not have it. Not found means that there is no such type; that it
// may be hidden is an error.
func (c *catalog) lookUp(ctx context.Context, r namespace.ResourceType, since time.Time) (t typeInfo, found bool, err error) {
	v := c.latest()
	if v == nil || !v.began.After(since) || !v.has(r) {
		if v, err = c.fresh(ctx); err != nil {
			return t, false, fmt.Errorf("whether there is a type %s cannot be told: %w", r, err)
		}
	}
	if at, ok := v.find(r); ok {
		return v.types[at], true, nil
	}
	if v.hides(r) {
		return t, false, fmt.Errorf("whether there is a type %s cannot be told: %w", r, v.failed)
	}
	return t, false, nil
}

func (v *view) has(r namespace.ResourceType) bool {
	_, ok := v.find(r)
	return ok
}
