package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// objects returns what is left: what was recorded, and beyond it what the conditions
// tell.
func (b *builder) objects() []Objects {
	var list []Objects
	for _, o := range b.in.History.Objects {
		if o, ok := b.known(o); ok {
			list = append(list, o)
		}
	}
	b.counted = len(list)
	for _, c := range b.told(phase.ContentRemaining) {
		if b.recorded(c) {
			continue
		}
		for _, o := range remainingIn(c.Message) {
			if !slices.ContainsFunc(list, func(known Objects) bool { return known.Resource == o.Resource }) {
				o.Since = c.LastTransitionTime.Time
				list = append(list, o)
			}
		}
	}
	return list
}

// progress sums up what is left and what has gone.
func (b *builder) progress() *Progress {
	h := b.in.History
	p := &Progress{Removed: max(h.Removed, 0), Passes: h.Total}
	unknown := false
	for _, o := range b.d.Objects {
		p.Remaining = plus(p.Remaining, max(o.Remaining, 0))
		p.AtLeast = p.AtLeast || o.AtLeast || o.Waiting
		unknown = unknown || o.Waiting
	}
	if n := len(h.Passes); n == 0 || b.age(h.Passes[n-1].Start.Add(h.Passes[n-1].Took)) > idleGrace {
		return p // whatever the rate was, it is over
	}
	p.PerSecond = h.PerSecond
	const most = 100 * 365 * 24 * time.Hour
	if left := float64(p.Remaining) / p.PerSecond; p.Remaining > 0 && !unknown && left < most.Seconds() {
		p.End = b.d.At.Add(time.Duration(left * float64(time.Second))).Truncate(time.Second)
	}
	return p
}

// account completes the progress: whether the number of remaining objects is known, and the
// percentage. Objects left by a forced drop count until a sweep has removed them.
func (b *builder) account() {
	p := b.d.Progress
	if p == nil {
		return
	}
	emptied := b.has(Gone) || b.d.Stage == phase.WaitingForFinalizers || b.d.Stage == phase.ReadyToRemove
	left := 0
	for _, f := range b.forces {
		objects, untold := f.left()
		left = plus(left, objects)
		p.AtLeast = p.AtLeast || untold > 0 || f.begun == nil && objects > 0
	}
	p.Remaining = max(p.Remaining, left)
	p.AtLeast = p.AtLeast || slices.ContainsFunc(b.failing, func(f Failure) bool { return f.Kind.hides() })
	p.Known = p.Remaining > 0 || emptied && !p.AtLeast
	switch {
	case p.Removed == 0 && p.Remaining == 0 && p.Passes == 0:
		b.d.Progress = nil // neither conditions nor passes report progress
	case p.Known && p.Remaining == 0:
		p.Percent = 100
	case p.Known:
		done := 100 * (float64(p.Removed) / (float64(p.Removed) + float64(p.Remaining)))
		p.Percent = min(int(done), 99)
	}
}

// content explains the objects that are left.
func (b *builder) content() {
	b.held()
	failing := func(resource string) bool {
		return slices.ContainsFunc(b.d.Causes, func(c Cause) bool { return c.Source == resource })
	}
	var stopping, moving, waiting, plain, stalled []Objects
	for _, o := range b.d.Objects {
		switch {
		case o.Waiting:
			waiting = append(waiting, o)
		case o.Remaining <= 0 || failing(o.Resource):
		case o.Returning:
			b.cause(b.returning(o))
		case len(o.HeldBy) > 0: // told by finalizer
		case b.stalls(o):
			stalled = append(stalled, o)
		case o.Deleting >= o.Remaining:
			stopping = append(stopping, o)
		case b.d.Progress.PerSecond > 0 || o.AtLeast && !o.Old:
			moving = append(moving, o)
		default:
			plain = append(plain, o)
		}
	}
	if len(stalled) > 0 {
		b.cause(b.stalled(stalled))
	}
	if len(stopping) > 0 {
		b.cause(b.stopping(stopping))
	}
	if len(moving) > 0 {
		b.cause(b.moving(moving))
	}
	if len(plain) > 0 && !b.holdsObjects() {
		b.cause(b.remaining(plain))
	}
	if len(waiting) > 0 {
		b.cause(b.ordered(waiting))
	}
}

// stalls reports whether it was seen for long that nothing of it goes.
func (b *builder) stalls(o Objects) bool {
	return !o.Counted.IsZero() && !o.Old && !o.AtLeast && b.age(o.Since) > stallGrace
}

// holdsObjects reports whether the conditions name finalizers that hold objects, which
// then explain what is left.
func (b *builder) holdsObjects() bool { return b.has(Held) && b.counted == 0 }

// held explains the finalizers that hold objects, each once.
func (b *builder) held() {
	type where struct {
		Objects
		by HeldBy
	}
	by := map[string][]where{}
	var order []string
	for _, o := range b.d.Objects {
		for _, h := range o.HeldBy {
			if _, known := by[h.Finalizer]; !known {
				order = append(order, h.Finalizer)
			}
			by[h.Finalizer] = append(by[h.Finalizer], where{o, h})
		}
	}
	for _, f := range order {
		c := Cause{Kind: Held, Source: f}
		total, places := 0, []string(nil)
		for _, w := range by[f] {
			total = plus(total, w.by.Objects)
			places = append(places, fmt.Sprintf("%s of %s%s%s", number(w.by.Objects), w.Resource, names(w.by.Sample, w.by.Objects), w.asOf(b.d.At)))
			c.Since = earlier(c.Since, w.by.Since)
		}
		c.Summary = fmt.Sprintf("finalizer %s holds %s", f, listed(places, maxSample))
		if len(places) > 1 {
			c.Summary = fmt.Sprintf("finalizer %s holds %s: %s", f, objects(total), listed(places, maxSample))
		}
		c.Detail = b.ownerOf(finalizer.Name(f))
		c.Remedy = b.remedyHeld(f, by[f][0].Resource)
		b.cause(c)
	}
	for _, c := range b.told(phase.FinalizersRemaining) {
		if b.recorded(c) {
			continue
		}
		for _, h := range heldIn(c.Message) {
			if _, known := by[h.Finalizer]; known {
				continue
			}
			b.cause(Cause{
				Kind: Held, Source: h.Finalizer, Since: c.LastTransitionTime.Time,
				Summary: fmt.Sprintf("finalizer %s holds %s", h.Finalizer, objects(h.Objects)),
				Detail:  b.ownerOf(finalizer.Name(h.Finalizer)),
				Remedy:  b.remedyHeld(h.Finalizer, b.firstRemaining()),
			})
		}
	}
}

func (b *builder) firstRemaining() string {
	for _, o := range b.d.Objects {
		if o.Remaining > 0 {
			return o.Resource
		}
	}
	return ""
}
