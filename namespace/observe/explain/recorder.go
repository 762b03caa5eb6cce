package explain

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// limits bounds a [Recorder].
type limits struct {
	namespaces int           // terminating ones
	passes     int           // the latest of each namespace
	removed    int           // removed namespaces
	keep       time.Duration // how long a removed one is kept
}

var defaultLimits = limits{namespaces: 10_000, passes: 32, removed: 1024, keep: time.Hour}

// The limits of one namespace.
const (
	maxFailures = 64  // distinct ones
	maxTypes    = 64  // resource types with remaining objects, of each party
	maxHolders  = 16  // finalizers of each type
	maxSample   = 5   // names in each sample
	maxNames    = 256 // names of finalizers and objects, of each party
	maxName     = 253 // bytes of a name
	maxText     = 400 // bytes of a failure
)

// Recorder records the passes of controllers over terminating namespaces. Give its
// [Recorder.Hooks] to each controller. It is safe for concurrent use.
//
// Its memory is bounded, in total and for each namespace; DESIGN.md has the figures.
// Removed namespaces are kept for an hour, so that their deletion can be explained.
type Recorder struct {
	limits limits

	mu      sync.Mutex
	records map[namespace.Ref]*record
	removed []namespace.Ref // the oldest first
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{limits: defaultLimits, records: map[namespace.Ref]*record{}}
}

// Hooks returns hooks for the controller of a party; an empty party is
// [finalizer.Kubernetes]. A controller that replaces another one needs new hooks: their
// first report on a namespace replaces the state that the old controller left behind.
func (r *Recorder) Hooks(party finalizer.Name) controller.Hooks {
	h := &hooks{recorder: r, party: cmp.Or(party, finalizer.Kubernetes)}
	return controller.Hooks{
		Queued:      h.queued,
		PassStarted: h.passStarted,
		PassEnded:   h.passEnded,
		Retried:     h.retried,
		Released:    h.left,
		Removed:     h.removed,
	}
}

// History returns a snapshot of the record of one incarnation. An empty uid selects the
// incarnation of that name that was reported last.
func (r *Recorder) History(name, uid string) History {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(time.Now())
	ref := namespace.Ref{Name: name, UID: uid}
	if uid == "" {
		var latest time.Time
		for known, e := range r.records {
			at := e.touched()
			if known.Name == name && (at.After(latest) || at.Equal(latest) && known.UID > ref.UID) {
				ref, latest = known, at
			}
		}
	}
	e := r.records[ref]
	if e == nil {
		return History{}
	}
	return e.history(ref.UID)
}

// prune drops removed namespaces that are too old or too many.
func (r *Recorder) prune(now time.Time) {
	n := 0
	for _, ref := range r.removed {
		if len(r.removed)-n <= r.limits.removed && now.Sub(r.records[ref].removedAt) <= r.limits.keep {
			break
		}
		delete(r.records, ref)
		n++
	}
	r.removed = slices.Delete(r.removed, 0, n)
}

// evict makes room for one more terminating namespace: it drops the longest unreported of
// a few that map iteration picks. A controller that stops never reports their removal.
func (r *Recorder) evict() {
	const few = 16
	if len(r.records)-len(r.removed) < r.limits.namespaces {
		return
	}
	var oldest namespace.Ref
	var at time.Time
	n := 0
	for ref, e := range r.records {
		if !e.removedAt.IsZero() {
			continue
		}
		if touched := e.touched(); n == 0 || touched.Before(at) {
			oldest, at = ref, touched
		}
		if n++; n == few {
			break
		}
	}
	delete(r.records, oldest)
}

// hooks records the reports of one controller.
type hooks struct {
	recorder *Recorder
	party    finalizer.Name
}

// report locks the recorder and returns the record of a namespace and the state of the
// reporting party. The caller must unlock.
func (h *hooks) report(ref namespace.Ref, now time.Time) (*record, *party) {
	r := h.recorder
	r.mu.Lock()
	e := r.records[ref]
	if e == nil {
		r.evict()
		e = &record{}
		r.records[ref] = e
	}
	p := e.party(h)
	p.reported, p.queued, p.running, p.next = now, time.Time{}, time.Time{}, Next{}
	return e, p
}

func (h *hooks) queued(ref namespace.Ref) {
	now := time.Now().UTC()
	_, p := h.report(ref, now)
	defer h.recorder.mu.Unlock()
	p.queued, p.done, p.left = now, false, false
}

func (h *hooks) passStarted(ctx context.Context, ref namespace.Ref) context.Context {
	now := time.Now().UTC()
	_, p := h.report(ref, now)
	defer h.recorder.mu.Unlock()
	p.running, p.done, p.left = now, false, false
	return ctx
}

func (h *hooks) passEnded(_ context.Context, ref namespace.Ref, result pass.Result, err error, took time.Duration) {
	end := passEnd{Result: result, at: time.Now().UTC(), took: took}
	end.read(err) // before locking: errors are the host's code
	e, p := h.report(ref, end.at)
	defer h.recorder.mu.Unlock()
	e.add(p, &end, h.recorder.limits.passes)
}

func (h *hooks) retried(ref namespace.Ref, delay time.Duration, reason controller.Reason) {
	now := time.Now().UTC()
	_, p := h.report(ref, now)
	defer h.recorder.mu.Unlock()
	p.next = Next{At: now.Add(delay), Reason: string(reason)}
}

func (h *hooks) left(ref namespace.Ref) {
	h.recorder.mu.Lock()
	defer h.recorder.mu.Unlock()
	if e := h.recorder.records[ref]; e != nil {
		for _, p := range e.parties {
			if p.hooks == h {
				p.clear()
				p.reported, p.left = time.Now().UTC(), true
			}
		}
	}
}

func (h *hooks) removed(ref namespace.Ref) {
	now := time.Now().UTC()
	r := h.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.records[ref]; e != nil && e.removedAt.IsZero() {
		e.end(now)
		r.removed = append(r.removed, ref)
		r.prune(now)
	}
}
