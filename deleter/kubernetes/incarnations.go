package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

const (
	// forgetAfter is how long an unused incarnation is kept. Its removal costs a read, and
	// restarts the wait of [Options.Wait].
	forgetAfter = 10 * time.Minute
	// minIncarnations is the number of incarnations below which none is removed.
	minIncarnations = 64
)

// incarnations records reads of terminating namespaces and protects requests for content against a
// new incarnation: a request requires a recent enough read that showed its incarnation
// terminating. Callers share reads. It is safe for concurrent use.
type incarnations struct {
	get     func(ctx context.Context, name string) (*corev1.Namespace, error)
	recheck time.Duration

	mu    sync.Mutex
	known map[incarnationKey]*incarnation
	limit int // number of entries that triggers the removal of unused ones
}

// incarnationKey includes the name, so that a target with the name of one namespace and the uid of
// another matches neither.
type incarnationKey struct {
	name string
	uid  types.UID
}

// incarnation is the state of one incarnation. Its fields are guarded by incarnations.mu.
type incarnation struct {
	reads singleflight[*corev1.Namespace]

	used          time.Time // last use
	first         time.Time // first seen terminating; zero: never
	terminatingAt time.Time // start of the last read that showed it terminating
	existsAt      time.Time // start of the last read that showed it, in any phase
	voided        time.Time // earlier reads are void
	voids         int       // number of calls of void

	refusedCollections map[namespace.ResourceType]bool
	missingTypes       map[namespace.ResourceType]bool
	emptyVersions      map[namespace.ResourceType]string
}

// errVoided is the error of a read during which the incarnation was reported as gone.
var errVoided = fmt.Errorf("%w: this incarnation was removed during a read of the namespace", deleter.ErrIncarnation)

// newIncarnations returns an empty incarnations. get must read consistently: it returns the
// namespace as it was at some time during the call.
func newIncarnations(get func(ctx context.Context, name string) (*corev1.Namespace, error), recheck time.Duration) *incarnations {
	return &incarnations{get: get, recheck: recheck, known: map[incarnationKey]*incarnation{}, limit: minIncarnations}
}

// at returns the state of an incarnation and marks it as used. The caller holds mu.
func (in *incarnations) at(name string, uid types.UID) *incarnation {
	now := time.Now()
	key := incarnationKey{name, uid}
	known := in.known[key]
	if known == nil {
		in.prune(now)
		known = &incarnation{}
		in.known[key] = known
	}
	known.used = now
	return known
}

// prune removes unused incarnations each time their number has doubled. The caller holds mu.
func (in *incarnations) prune(now time.Time) {
	if len(in.known) < in.limit {
		return
	}
	maps.DeleteFunc(in.known, func(_ incarnationKey, i *incarnation) bool { return now.Sub(i.used) > forgetAfter })
	in.limit = max(minIncarnations, 2*len(in.known))
}

// record records that a read which began at began showed ns. A zero began means an event of a
// watch: it may start the wait of [Options.Wait], but no request can rely on it, because it
// describes the past.
func (in *incarnations) record(ns *corev1.Namespace, began time.Time) {
	if ns == nil || ns.DeletionTimestamp == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(ns.Name, ns.UID)
	if known.first.IsZero() {
		known.first = time.Now()
	}
	if began.After(known.terminatingAt) && began.After(known.voided) {
		known.terminatingAt = began
	}
}

// void records that an incarnation is gone. Earlier reads of it, including reads in progress, no
// longer count.
func (in *incarnations) void(name string, uid types.UID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(name, uid)
	known.voided, known.terminatingAt, known.existsAt = time.Now(), time.Time{}, time.Time{}
	known.voids++
	known.refusedCollections, known.missingTypes, known.emptyVersions = nil, nil, nil
}

// confirm returns nil if a read that began after since showed the target's incarnation
// terminating. If there is none, it makes one, shared with other callers. since must not be in the
// future. If the read showed another state, the error matches [deleter.ErrIncarnation].
func (in *incarnations) confirm(ctx context.Context, target deleter.Target, since time.Time) error {
	return in.confirmState(ctx, target, since, checkTerminating, func(i *incarnation) *time.Time { return &i.terminatingAt })
}

// confirmExists is confirm for an incarnation in any phase.
func (in *incarnations) confirmExists(ctx context.Context, target deleter.Target, since time.Time) error {
	return in.confirmState(ctx, target, since, checkIncarnation, func(i *incarnation) *time.Time { return &i.existsAt })
}

// confirmState returns nil if a read that began after since passed check. shown returns the field
// with the start of the last read that did.
func (in *incarnations) confirmState(
	ctx context.Context, target deleter.Target, since time.Time,
	check func(deleter.Target, *corev1.Namespace, error) error, shown func(*incarnation) *time.Time,
) error {
	for ctx.Err() == nil {
		in.mu.Lock()
		known := in.at(target.Namespace, types.UID(target.UID))
		at := shown(known)
		fresh := at.After(since)
		in.mu.Unlock()
		if fresh {
			return nil
		}
		ns, err := known.reads.do(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
			return in.read(ctx, target.Namespace, known, at, since)
		})
		if ns != nil || err != nil {
			return check(target, ns, clientError(ctx, err))
		}
	}
	return context.Cause(ctx)
}

// read reads the namespace. It returns nil if another read meanwhile advanced *shown beyond since;
// callers that share this run may still need a later read, so they check again.
func (in *incarnations) read(ctx context.Context, name string, known *incarnation, shown *time.Time, since time.Time) (*corev1.Namespace, error) {
	in.mu.Lock()
	fresh, voids := shown.After(since), known.voids
	in.mu.Unlock()
	if fresh {
		return nil, nil
	}
	began := time.Now()
	ns, err := in.get(ctx, name)
	if err != nil {
		return nil, err
	}
	in.record(ns, began)
	in.mu.Lock()
	defer in.mu.Unlock()
	if known.voids != voids {
		return nil, errVoided
	}
	// Record another incarnation only if it is known already.
	if found := in.known[incarnationKey{ns.Name, ns.UID}]; found == known && began.After(known.existsAt) {
		known.existsAt = began
	}
	return ns, nil
}

// confirmRecent is confirm with a read no older than [Options.Recheck].
func (in *incarnations) confirmRecent(ctx context.Context, target deleter.Target) error {
	return in.confirm(ctx, target, time.Now().Add(-max(in.recheck, 0)))
}

// checkTerminating returns an error unless a read showed the target terminating.
func checkTerminating(target deleter.Target, ns *corev1.Namespace, err error) error {
	if err := checkIncarnation(target, ns, err); err != nil {
		return err
	}
	if ns.DeletionTimestamp == nil {
		return fmt.Errorf("%w: namespace %q (uid %s) is not being deleted", deleter.ErrIncarnation, target.Namespace, target.UID)
	}
	return nil
}

// checkIncarnation returns an error unless a read showed the target.
func checkIncarnation(target deleter.Target, ns *corev1.Namespace, err error) error {
	switch {
	case isMissing(err) && !apierrors.IsUnexpectedServerError(err):
		return fmt.Errorf("%w: namespace %q (uid %s) no longer exists: %w", deleter.ErrIncarnation, target.Namespace, target.UID, err)
	case errors.Is(err, errVoided):
		return fmt.Errorf("namespace %q (uid %s): %w", target.Namespace, target.UID, err)
	case err != nil:
		return fmt.Errorf("cannot determine whether namespace %q is still %s: %w", target.Namespace, expectedState(target), err)
	case ns.Name != target.Namespace || string(ns.UID) != target.UID:
		return fmt.Errorf("%w: namespace %q has uid %s, not %s", deleter.ErrIncarnation, ns.Name, ns.UID, target.UID)
	}
	return nil
}

// expectedState describes the namespace of a target.
func expectedState(target deleter.Target) string {
	if target.DeletedAt.IsZero() {
		return "uid " + target.UID
	}
	return "terminating"
}

// with calls f with the state of the target's incarnation. The caller must not keep it.
func (in *incarnations) with(target deleter.Target, f func(*incarnation)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f(in.at(target.Namespace, types.UID(target.UID)))
}

// firstSeen returns when the target was first seen terminating, by the local clock. If it never
// was, that is now.
func (in *incarnations) firstSeen(target deleter.Target) (first time.Time) {
	in.with(target, func(i *incarnation) {
		if i.first.IsZero() {
			i.first = time.Now()
		}
		first = i.first
	})
	return first
}

// refuseCollections records that the target's namespace does not support deletion of collections
// of a type.
func (in *incarnations) refuseCollections(target deleter.Target, r namespace.ResourceType) {
	in.with(target, func(i *incarnation) { add(&i.refusedCollections, r) })
}

func (in *incarnations) refusesCollections(target deleter.Target, r namespace.ResourceType) (refused bool) {
	in.with(target, func(i *incarnation) { refused = i.refusedCollections[r] })
	return refused
}

// recordMissingType records that a type was missing when the target was listed, so that no pass
// saw it empty.
func (in *incarnations) recordMissingType(target deleter.Target, r namespace.ResourceType) {
	in.with(target, func(i *incarnation) { add(&i.missingTypes, r) })
}

func add(set *map[namespace.ResourceType]bool, r namespace.ResourceType) {
	if *set == nil {
		*set = map[namespace.ResourceType]bool{}
	}
	(*set)[r] = true
}

func (in *incarnations) hasMissingTypes(target deleter.Target) (missing bool) {
	in.with(target, func(i *incarnation) { missing = len(i.missingTypes) > 0 })
	return missing
}

// withoutMissingTypes returns the types in of that were never missing. It does not change of.
func (in *incarnations) withoutMissingTypes(target deleter.Target, of []namespace.ResourceType) []namespace.ResourceType {
	in.with(target, func(i *incarnation) {
		if len(i.missingTypes) > 0 {
			of = slices.DeleteFunc(slices.Clone(of), func(r namespace.ResourceType) bool { return i.missingTypes[r] })
		}
	})
	return of
}

// setEmptyVersions records the resource versions at which each type was seen empty. Nil clears
// them. The map must not change.
func (in *incarnations) setEmptyVersions(target deleter.Target, versions map[namespace.ResourceType]string) {
	in.with(target, func(i *incarnation) { i.emptyVersions = versions })
}

func (in *incarnations) emptyVersions(target deleter.Target) (versions map[namespace.ResourceType]string) {
	in.with(target, func(i *incarnation) { versions = i.emptyVersions })
	return versions
}
