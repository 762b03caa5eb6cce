package explain

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// RecorderOptions bound what a [Recorder] keeps. A nil *RecorderOptions and zero fields
// stand for the defaults; what is negative counts as zero.
type RecorderOptions struct {
	// Namespaces that are terminating; default 10,000. Beyond, those of which nothing was
	// heard for long are forgotten, which may be gone without anybody having told.
	Namespaces int
	Passes     int           // the latest of each namespace; default 32
	Ended      int           // namespaces that were removed; default 1024
	Forget     time.Duration // for how long those are kept; default 1 h
}

// The other bounds of what is kept of one namespace.
const (
	maxFailures = 64  // different ones
	maxTypes    = 64  // resource types with something left
	maxHolders  = 16  // finalizers in each
	maxSample   = 5   // names in each sample
	maxNames    = 256 // of finalizers and objects, in all of them
	maxName     = 253 // bytes of a name
	maxText     = 400 // bytes of a failure
)

// Recorder keeps the latest passes of each namespace that is terminating. Make one
// with [NewRecorder], and give its Hooks to the controller. It is safe for concurrent
// use.
//
// What it keeps of a namespace is bounded, whatever the namespace holds: DESIGN.md has
// the figures. A namespace that was removed is kept for a while, so that what happened
// to it can be told.
type Recorder struct {
	opts RecorderOptions

	mu      sync.Mutex
	entries map[namespace.Ref]*entry
	ended   []namespace.Ref // the oldest first
	voices  int             // hooks that were given out
}

// NewRecorder returns a recorder that has seen nothing. A nil opts stands for the
// defaults.
func NewRecorder(opts *RecorderOptions) *Recorder {
	r := &Recorder{entries: map[namespace.Ref]*entry{}}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Namespaces <= 0 {
		r.opts.Namespaces = 10_000
	}
	if r.opts.Passes <= 0 {
		r.opts.Passes = 32
	}
	if r.opts.Ended <= 0 {
		r.opts.Ended = 1024
	}
	if r.opts.Forget <= 0 {
		r.opts.Forget = time.Hour
	}
	return r
}

// Hooks returns what a controller is to tell. Each controller needs hooks of its own:
// call it once for each, and again for one that takes the place of another: what that
// one said last is dropped then, namespace by namespace. Where controllers of several
// parties tell one recorder, use [Recorder.HooksOf], so that they are told apart.
func (r *Recorder) Hooks() controller.Hooks { return r.HooksOf("") }

// HooksOf is Hooks for the controller of that party.
func (r *Recorder) HooksOf(party finalizer.Name) controller.Hooks {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.voices++
	v := &voice{recorder: r, party: party, number: r.voices}
	return controller.Hooks{
		Queued:      v.queued,
		PassStarted: v.started,
		PassEnded:   v.passed,
		Retried:     v.retried,
		Left:        v.left,
		Removed:     v.removed,
	}
}

// room makes room for one more namespace: of a few that come first in the map, which
// are others each time, the one goes of which nothing was heard for the longest time.
func (r *Recorder) room() {
	const few = 16
	if len(r.entries)-len(r.ended) < r.opts.Namespaces {
		return
	}
	var oldest namespace.Ref
	var at time.Time
	n := 0
	for ref, e := range r.entries {
		if !e.ended.IsZero() {
			continue
		}
		if touched := e.touched(); n == 0 || touched.Before(at) {
			oldest, at = ref, touched
		}
		if n++; n == few {
			break
		}
	}
	delete(r.entries, oldest)
}

func (v *voice) queued(ref namespace.Ref) {
	now := time.Now().UTC()
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	_, p := v.of(ref, now)
	p.taken()
	p.queued, p.running, p.next = now, time.Time{}, Next{}
}

func (v *voice) started(ctx context.Context, ref namespace.Ref) context.Context {
	now := time.Now().UTC()
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	_, p := v.of(ref, now)
	p.taken()
	p.queued, p.running, p.next = time.Time{}, now, Next{}
	return ctx
}

func (v *voice) passed(_ context.Context, ref namespace.Ref, result pass.Result, err error, took time.Duration) {
	now := time.Now().UTC()
	end := end{result: result, err: err, at: now, took: took}
	v.rest(ref, now)
	end.read() // errors are the host's code: not while the recorder is locked, and they may panic
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	e, p := v.of(ref, now)
	e.learn(p, v.recorder.opts.Passes, &end)
}

// rest notes that no pass runs.
func (v *voice) rest(ref namespace.Ref, now time.Time) {
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	_, p := v.of(ref, now)
	p.queued, p.running, p.next = time.Time{}, time.Time{}, Next{}
}

func (v *voice) left(ref namespace.Ref) {
	now := time.Now().UTC()
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	if e := v.recorder.entries[ref]; e != nil {
		if p := e.partOf(v); p != nil {
			p.drop()
			p.heard, p.left = now, true
		}
	}
}

func (v *voice) retried(ref namespace.Ref, delay time.Duration, reason controller.Reason) {
	now := time.Now().UTC()
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	_, p := v.of(ref, now)
	p.next = Next{At: now.Add(delay), Reason: string(reason)}
}

func (v *voice) removed(ref namespace.Ref) {
	now := time.Now().UTC()
	v.recorder.mu.Lock()
	defer v.recorder.mu.Unlock()
	e := v.recorder.entries[ref]
	if e == nil || !e.ended.IsZero() {
		return
	}
	e.end(now)
	v.recorder.ended = append(v.recorder.ended, ref)
	v.recorder.forget(now)
}

// forget drops the removed ones that are too old or too many.
func (r *Recorder) forget(now time.Time) {
	n := 0
	for _, ref := range r.ended {
		if len(r.ended)-n <= r.opts.Ended && now.Sub(r.entries[ref].ended) <= r.opts.Forget {
			break
		}
		delete(r.entries, ref)
		n++
	}
	r.ended = slices.Delete(r.ended, 0, n)
}
