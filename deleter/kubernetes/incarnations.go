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
	// forgetAfter is for how long what is known of an incarnation is kept unused.
	// Forgetting costs a read, and the wait for a settled view begins anew.
	forgetAfter = 10 * time.Minute
	// fewIncarnations is how many are kept before the first time old ones are looked for.
	fewIncarnations = 64
)

// incarnations remembers what has been seen of terminating namespaces. It is what
// fences content: a request goes out only on the word of a read of the namespace
// that showed the very incarnation terminating, and recently enough. Reads are
// shared by all that need one at the same time. It is safe for concurrent use.
type incarnations struct {
	get     func(ctx context.Context, name string) (*corev1.Namespace, error)
	recheck time.Duration

	mu    sync.Mutex
	known map[incarnationKey]*incarnation
	limit int // how many may be known before the unused are dropped
}

// incarnationKey tells incarnations apart. The name is a part of it lest a target
// that mixes up two namespaces be taken for either.
type incarnationKey struct {
	name string
	uid  types.UID
}

// incarnation is what is known of one; its fields are guarded by incarnations.mu.
type incarnation struct {
	reads flight[*corev1.Namespace]

	used     time.Time // when somebody last asked
	first    time.Time // when it was first seen terminating; zero: never
	shown    time.Time // when the last read began that showed it terminating; zero: none
	present  time.Time // when the last read began that showed it, whatever its phase; zero: none
	voided   time.Time // reads that began before say nothing any more
	voids    int       // how often that happened
	refused  map[namespace.ResourceType]bool
	vanished map[namespace.ResourceType]bool
	quiet    map[namespace.ResourceType]string
}

// errGone is why a read proves nothing that shows an incarnation.
var errGone = fmt.Errorf("%w: while the namespace was read came word that this incarnation of it is gone", deleter.ErrIncarnation)

// newIncarnations returns an empty memory over get, which must read consistently: a
// namespace as it was at some time during the call.
func newIncarnations(get func(ctx context.Context, name string) (*corev1.Namespace, error), recheck time.Duration) *incarnations {
	return &incarnations{get: get, recheck: recheck, known: map[incarnationKey]*incarnation{}, limit: fewIncarnations}
}

// at returns what is known of an incarnation, and notes that it is in use. The
// caller holds mu.
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

// prune drops those that nobody has asked about for long, each time that as many
// again have come as there were left the last time.
func (in *incarnations) prune(now time.Time) {
	if len(in.known) < in.limit {
		return
	}
	maps.DeleteFunc(in.known, func(_ incarnationKey, i *incarnation) bool { return now.Sub(i.used) > forgetAfter })
	in.limit = max(fewIncarnations, 2*len(in.known))
}

// saw notes that a read which began at began showed ns, whatever its state. Began is
// zero for what tells of the past only, such as the event of a watch: that may start
// the wait for a settled view, but no request can rely upon it.
func (in *incarnations) saw(ns *corev1.Namespace, began time.Time) {
	if ns == nil || ns.DeletionTimestamp == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(ns.Name, ns.UID)
	if known.first.IsZero() {
		known.first = time.Now()
	}
	if began.After(known.shown) && began.After(known.voided) {
		known.shown = began
	}
}

// gone notes that an incarnation is no more: earlier reads of it are void, those
// that are still under way included, even if nothing else was known of it, and what was
// learnt of it is dropped.
func (in *incarnations) gone(name string, uid types.UID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(name, uid)
	known.voided, known.shown, known.present = time.Now(), time.Time{}, time.Time{}
	known.voids++
	known.refused, known.vanished, known.quiet = nil, nil, nil
}

// confirm returns nil if a read that began after since showed the target's
// incarnation terminating; since must not be in the future. If there was none it
// makes one, shared with others that ask. The error matches [deleter.ErrIncarnation]
// and says what was found, or is that of the read.
func (in *incarnations) confirm(ctx context.Context, target deleter.Target, since time.Time) error {
	for ctx.Err() == nil {
		in.mu.Lock()
		known := in.at(target.Namespace, types.UID(target.UID))
		fresh := known.shown.After(since)
		in.mu.Unlock()
		if fresh {
			return nil
		}
		ns, err := known.reads.do(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
			return in.read(ctx, target.Namespace, known, &known.shown, since)
		})
		if ns != nil || err != nil {
			return verdict(target, ns, explain(ctx, err))
		}
	}
	return context.Cause(ctx)
}

// exists is confirm for an incarnation that may as well be active.
func (in *incarnations) exists(ctx context.Context, target deleter.Target, since time.Time) error {
	for ctx.Err() == nil {
		in.mu.Lock()
		known := in.at(target.Namespace, types.UID(target.UID))
		fresh := known.present.After(since)
		in.mu.Unlock()
		if fresh {
			return nil
		}
		ns, err := known.reads.do(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
			return in.read(ctx, target.Namespace, known, &known.present, since)
		})
		if ns != nil || err != nil {
			return same(target, ns, explain(ctx, err))
		}
	}
	return context.Cause(ctx)
}

// read reads the namespace. It returns nothing if meanwhile another read has shown what
// the caller asks for, at the time that is kept in shown; others that share this one may
// need a later one, or one that shows more.
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
	if ns == nil {
		return nil, errNoAnswer
	}
	in.saw(ns, began)
	in.mu.Lock()
	defer in.mu.Unlock()
	if known.voids != voids {
		return nil, errGone
	}
	// A note of another incarnation that is there is not worth its memory.
	if found := in.known[incarnationKey{ns.Name, ns.UID}]; found == known && began.After(known.present) {
		known.present = began
	}
	return ns, nil
}

// recent is confirm with a read that is not older than the host allows.
func (in *incarnations) recent(ctx context.Context, target deleter.Target) error {
	return in.confirm(ctx, target, time.Now().Add(-max(in.recheck, 0)))
}

// verdict tells whether a read showed the target terminating.
func verdict(target deleter.Target, ns *corev1.Namespace, err error) error {
	if err := same(target, ns, err); err != nil {
		return err
	}
	if ns.DeletionTimestamp == nil {
		return fmt.Errorf("%w: namespace %q (uid %s) is not being deleted", deleter.ErrIncarnation, target.Namespace, target.UID)
	}
	return nil
}

// same tells whether a read showed the target, whatever its phase.
func same(target deleter.Target, ns *corev1.Namespace, err error) error {
	switch {
	case missing(err) && !apierrors.IsUnexpectedServerError(err):
		return fmt.Errorf("%w: namespace %q (uid %s) does not exist any more: %w", deleter.ErrIncarnation, target.Namespace, target.UID, err)
	case errors.Is(err, errGone):
		return fmt.Errorf("namespace %q (uid %s): %w", target.Namespace, target.UID, err)
	case err != nil:
		return fmt.Errorf("whether namespace %q is still %s cannot be told: %w", target.Namespace, expected(target), err)
	case ns.Name != target.Namespace || string(ns.UID) != target.UID:
		return fmt.Errorf("%w: namespace %q is there with uid %s, not %s", deleter.ErrIncarnation, ns.Name, ns.UID, target.UID)
	}
	return nil
}

// expected is what the namespace of a target should be.
func expected(target deleter.Target) string {
	if target.DeletedAt.IsZero() {
		return "uid " + target.UID
	}
	return "terminating"
}

// firstSeen returns when the target was first seen terminating, by the local clock;
// now, if it never was.
func (in *incarnations) firstSeen(target deleter.Target) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(target.Namespace, types.UID(target.UID))
	if known.first.IsZero() {
		known.first = time.Now()
	}
	return known.first
}

// refuse notes that the target's namespace does not offer to delete collections of a
// type; refuses tells.
func (in *incarnations) refuse(target deleter.Target, r namespace.ResourceType) {
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(target.Namespace, types.UID(target.UID))
	if known.refused == nil {
		known.refused = map[namespace.ResourceType]bool{}
	}
	known.refused[r] = true
}

func (in *incarnations) refuses(target deleter.Target, r namespace.ResourceType) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at(target.Namespace, types.UID(target.UID)).refused[r]
}

// vanish notes that a type was not there to be listed, so that nobody saw it empty;
// lost reports whether there were any, and lasting returns those of a list that are not
// among them; it does not change the list.
func (in *incarnations) vanish(target deleter.Target, r namespace.ResourceType) {
	in.mu.Lock()
	defer in.mu.Unlock()
	known := in.at(target.Namespace, types.UID(target.UID))
	if known.vanished == nil {
		known.vanished = map[namespace.ResourceType]bool{}
	}
	known.vanished[r] = true
}

func (in *incarnations) lost(target deleter.Target) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.at(target.Namespace, types.UID(target.UID)).vanished) > 0
}

func (in *incarnations) lasting(target deleter.Target, of []namespace.ResourceType) []namespace.ResourceType {
	in.mu.Lock()
	defer in.mu.Unlock()
	vanished := in.at(target.Namespace, types.UID(target.UID)).vanished
	if len(vanished) == 0 {
		return of
	}
	return slices.DeleteFunc(slices.Clone(of), func(r namespace.ResourceType) bool { return vanished[r] })
}

// noteQuiet keeps the resource versions at which each type was seen empty; nil
// forgets them. Quiet returns them. Neither changes the map.
func (in *incarnations) noteQuiet(target deleter.Target, versions map[namespace.ResourceType]string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.at(target.Namespace, types.UID(target.UID)).quiet = versions
}

func (in *incarnations) quiet(target deleter.Target) map[namespace.ResourceType]string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at(target.Namespace, types.UID(target.UID)).quiet
}
