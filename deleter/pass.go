package deleter

import (
	"context"
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/namespace"
	"golang.org/x/sync/semaphore"
)

// pass is one Delete of a composed deleter.
type pass struct {
	composed *Composed
	plan     *plan
	known    []*known
	slots    *semaphore.Weighted
	target   Target
	previous Report

	results []Result // by source; each is written by the visit of its source alone
	workers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	states []state
	ready  []int           // sources that may be settled now
	lost   []ResourceCount // what was left of types that failed, as far as their results do not tell
	spare  bool            // a worker has been started and has not begun
}

// state is where one source is in a pass.
type state struct {
	waits   int  // how many of those it comes after have not been settled
	blocked bool // one of those is not empty, failed, did not start, or may be hidden
	waived  bool // it failed, and counts as empty
}

// run visits each source as soon as everything that it comes after is empty,
// and returns the results in order of resource. All it started has ended then.
//
// Types that are known to be clean are not asked, yet settle in their turn: what
// comes after a clean type also comes after all that the clean type comes after.
func (p *pass) run(ctx context.Context, hidden func(namespace.ResourceType) bool) []Result {
	p.results = make([]Result, len(p.plan.sources))
	p.states = make([]state, len(p.plan.sources))
	for i := range p.states {
		p.results[i] = Result{Resource: p.plan.sources[i].Resource, Waiting: true}
		p.states[i].waits = p.plan.before[i]
		p.states[i].blocked = slices.ContainsFunc(p.plan.missing[i], func(r namespace.ResourceType) bool {
			return hidden(r) && !p.previous.clean(r)
		})
		if p.states[i].waits == 0 {
			p.ready = append(p.ready, i)
		}
	}
	p.workers.Go(func() { p.work(ctx, none) })
	p.workers.Wait()
	return p.answered()
}

// work settles sources until none is ready. There are as many workers as sources
// that keep somebody waiting: each starts another when it leaves some ready, and that
// one only gets to run when the others have to wait for answers, or there is a
// processor free. Passes over content that answers at once need one or two.
//
// Visited is the source that is to be settled first; none: the worker is new.
func (p *pass) work(ctx context.Context, visited int) {
	for i, ok := p.next(ctx, visited); ok; i, ok = p.next(ctx, i) {
		p.visit(ctx, i)
	}
}

// none is no source.
const none = -1

// next settles the source that was visited and returns one that is to be asked.
func (p *pass) next(ctx context.Context, visited int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if visited == none {
		p.spare = false
	} else {
		p.settle(visited)
	}
	for len(p.ready) > 0 {
		i := p.ready[0]
		p.ready = p.ready[1:]
		if !p.starts(ctx, i) {
			p.settle(i)
			continue
		}
		if len(p.ready) > 0 && !p.spare {
			p.spare = true
			p.workers.Go(func() { p.work(ctx, none) })
		}
		return i, true
	}
	return 0, false
}

// starts reports whether source i is to be asked now.
func (p *pass) starts(ctx context.Context, i int) bool {
	r := &p.results[i]
	clean := p.previous.clean(r.Resource)
	r.Waiting = !clean && (p.states[i].blocked || ctx.Err() != nil)
	return !clean && !r.Waiting
}

// settle passes the outcome of source i on to those that come after it, and notes
// those that have everything they wait for.
func (p *pass) settle(i int) {
	empty := !p.states[i].blocked && (p.results[i].Empty() || p.states[i].waived)
	for _, next := range p.plan.then[i] {
		p.states[next].waits--
		p.states[next].blocked = p.states[next].blocked || !empty
		if p.states[next].waits == 0 {
			p.ready = append(p.ready, next)
		}
	}
}

// visit asks source i. If the source ends the goroutine, which is a failure of
// its own, another worker takes over.
func (p *pass) visit(ctx context.Context, i int) {
	source, result := &p.plan.sources[i], &p.results[i]
	v := &visit{
		opts: &p.composed.opts, slots: p.slots, source: source, known: p.known[i], target: p.target,
		before: p.previous.result(source.Resource),
	}
	result.Err = &SourceError{Resource: source.Resource, Err: errNoReturn}
	returned := false
	defer func() {
		if result.Err != nil {
			p.failed(i, v.lastSeen(p.previous.seen(source.Resource)))
		}
		if !returned {
			p.workers.Go(func() { p.work(ctx, i) })
		}
	}()
	err := safely(func() error {
		*result = v.run(ctx)
		return nil
	})
	if err != nil {
		result.Err = &SourceError{Resource: source.Resource, Err: err}
	}
	returned = true
}

// answered returns the results of all sources but those that are clean from
// before. Those that were never settled are in a circle, or behind one, and wait.
func (p *pass) answered() []Result {
	known := 0
	for _, r := range p.results {
		if p.previous.clean(r.Resource) {
			known++
		}
	}
	if known == 0 {
		return p.results
	}
	var results []Result
	for _, r := range p.results {
		if !p.previous.clean(r.Resource) {
			results = append(results, r)
		}
	}
	return results
}

// cleanAfter returns the types that are known to be empty for good after the pass.
func (p *pass) cleanAfter(results []Result) []namespace.ResourceType {
	clean := slices.Clone(p.previous.Clean)
	for _, r := range results {
		if r.Empty() && p.plan.sources[p.plan.index[r.Resource]].Final {
			clean = append(clean, r.Resource)
		}
	}
	slices.SortFunc(clean, namespace.ResourceType.Compare)
	return slices.Compact(clean)
}
