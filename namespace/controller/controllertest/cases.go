package controllertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

const (
	own   finalizer.Name = "example.com/own"
	other finalizer.Name = "example.com/other"
)

var cases = []testcase{
	{
		name:  "get of a missing namespace is not found",
		why:   "A pass stops at a namespace that is gone; it retries any other error forever.",
		check: getMissing,
	},
	{
		name:  "get returns the created and the deleted namespace",
		why:   "A pass decides by the incarnation, the deletion timestamp and the finalizers.",
		check: getReturns,
	},
	{
		name:  "results are not aliased",
		why:   "A caller may change its copy; the stored namespace must not change with it.",
		check: notAliased,
	},
	{
		name:  "status writes the status only",
		why:   "Only finalize may change spec.finalizers (rule R4), or a party loses its finalizer.",
		check: statusOnly,
	},
	{
		name:  "finalize writes the finalizers only",
		why:   "Conditions belong to the parties that wrote them; finalize must not bring old ones back.",
		check: finalizersOnly,
	},
	{
		name:  "a stale status write is a conflict",
		why:   "Two parties write conditions of one namespace; the later must see those of the earlier (rule R9).",
		check: staleStatus,
	},
	{
		name:  "a stale finalize is a conflict",
		why:   "A concurrently added finalizer would be lost, and the namespace removed before its party is done (rule R7).",
		check: staleFinalize,
	},
	{
		name:  "writes for another incarnation are refused",
		why:   "A late pass for the old namespace must not touch the new one of its name (rule R8).",
		check: otherIncarnation,
	},
	{
		name:  "writes to a missing namespace are not found",
		why:   "A write must not bring a removed namespace back.",
		check: writeMissing,
	},
	{
		name:  "the last finalizer removes in the same write",
		why:   "No controller returns to a namespace without finalizers; if it is not removed then, it stays forever (rules R1, R12).",
		check: removedInSameWrite,
	},
	{
		name:  "metadata.finalizers hold a namespace",
		why:   "Another controller still has to clean up; only a namespace without finalizers of either kind may be removed (rule R1).",
		check: metadataFinalizersHold,
	},
	{
		name:  "deletionTimestamp never changes",
		why:   "Termination is one-way (rule R3); controllers compare with it whether they saw content before or after.",
		check: deletionTimestampStays,
	},
	{
		name:  "an active namespace without finalizers stays",
		why:   "Only a namespace that was deleted may be removed (rule R1).",
		check: activeStays,
	},
	{
		name:  "a cancelled context changes nothing",
		why:   "A controller that stops must not write any more; its writes would be too late.",
		check: cancelledCall,
	},
	{
		name:       "the watch lists the terminating namespaces, then is synced",
		why:        "A controller that starts continues the work of others, and learns from the listing which namespaces are gone.",
		needsWatch: true,
		check:      watchLists,
	},
	{
		name:       "the watch reports terminations and removals",
		why:        "A pass starts when a namespace becomes terminating; without this event it starts only at the next Resync (rule R12).",
		needsWatch: true,
		check:      watchChanges,
	},
	{
		name:       "nothing is lost between the listing and the watch",
		why:        "A token that is read after the listing, in another transaction, skips the events in between; such a namespace gets no pass before the next Resync.",
		needsWatch: true,
		check:      watchFollowsListing,
	},
	{
		name:       "the watch reports an added finalizer",
		why:        "Without this event a late party learns only at the next Resync of a namespace that was terminating before.",
		needsWatch: true,
		check:      watchAddedFinalizer,
	},
	{
		name:       "the watch resumes at every token without gap or repetition",
		why:        "A lost connection must not lose a termination, nor cost a listing.",
		needsWatch: true,
		check:      watchResumes,
	},
	{
		name:        "a token that is too old is gone",
		why:         "If forgotten events were skipped silently, namespaces would stay terminating until the next Resync; ErrGone makes the controller list again.",
		needsForget: true,
		needsWatch:  true,
		check:       watchGone,
	},
	{
		name:       "a token that was never issued is gone",
		why:        "A storage restored from a backup issues its tokens again; a controller that waits for an old one misses the events until then.",
		needsAhead: true,
		needsWatch: true,
		check:      watchAhead,
	},
	{
		name:       "the watch ends with its context",
		why:        "When a controller's Run returns, nothing that it started may still run, so it waits for the watch to end.",
		needsWatch: true,
		check:      watchEnds,
	},
	{
		name:       "the watch ends with a break",
		why:        "The caller owns the loop; an iterator that yields after a break panics, and one that blocks leaks.",
		needsWatch: true,
		check:      watchBreaks,
	},
}

// named returns a namespace to create.
func named(name string, finalizers ...finalizer.Name) namespace.Namespace {
	return namespace.Namespace{Meta: namespace.Meta{Name: name}, Spec: namespace.Spec{Finalizers: finalizer.NewSet(finalizers...)}}
}

// terminating creates and deletes a namespace, and returns its new state.
func terminating(ctx context.Context, b Backend, name string, finalizers ...finalizer.Name) (namespace.Namespace, error) {
	if _, err := b.Create(ctx, named(name, finalizers...)); err != nil {
		return namespace.Namespace{}, fmt.Errorf("create %s: %w", name, err)
	}
	if err := b.Delete(ctx, name); err != nil {
		return namespace.Namespace{}, fmt.Errorf("delete %s: %w", name, err)
	}
	return b.Namespaces.Get(ctx, name)
}

// expect returns an error unless err matches one of kinds.
func expect(subject string, err error, kinds ...error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return nil
		}
	}
	return fmt.Errorf("%s: expected an error that matches one of %q, got %v", subject, kinds, err)
}

// same returns an error with the difference between want and got, if there is one.
func same(subject string, want, got any) error {
	opt := cmp.Comparer(func(a, b finalizer.Set) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, got, opt); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", subject, diff)
	}
	return nil
}

// withCondition returns ns with one condition.
func withCondition(ns namespace.Namespace, message string) namespace.Namespace {
	ns.Status.Conditions = []phase.Condition{{
		Type: phase.ContentRemaining, Status: phase.True, Reason: "SomeResourcesRemain", Message: message,
		LastTransitionTime: phase.At(time.Unix(1_000_000_000, 0)),
	}}
	return ns
}

// withFinalizers returns ns with other finalizers.
func withFinalizers(ns namespace.Namespace, finalizers finalizer.Set) namespace.Namespace {
	ns.Spec.Finalizers = finalizers
	return ns
}
