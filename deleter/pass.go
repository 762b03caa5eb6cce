package deleter

import (
	"context"
	"slices"

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
}

// state is where one source is in a pass.
type state struct {
	waits   int  // how many of those it comes after have not been settled
	blocked bool // one of those is not empty, failed, did not start, or may be hidden
	settled bool
	result  Result
}

// run visits each source as soon as everything that it comes after is empty,
// and returns the results in order of resource. All it started has ended then.
//
// Types that are known to be clean are not asked, yet settle in their turn: what
// comes after a clean type also comes after all that the clean type comes after.
func (p *pass) run(ctx context.Context, hidden func(Resource) bool) []Result {
	states := make([]state, len(p.plan.sources))
	var ready []int
	for i := range states {
		states[i].waits = p.plan.before[i]
		states[i].blocked = slices.ContainsFunc(p.plan.missing[i], func(r Resource) bool {
			return hidden(r) && !p.previous.clean(r)
		})
		if states[i].waits == 0 {
			ready = append(ready, i)
		}
	}
	done := make(chan int)
	for running := 0; len(ready) > 0 || running > 0; {
		var settled int
		if len(ready) > 0 {
			settled, ready = ready[0], ready[1:]
			if p.starts(ctx, settled, &states[settled]) {
				running++
				go p.visit(ctx, settled, &states[settled].result, done)
				continue
			}
		} else {
			settled = <-done
			running--
		}
		ready = p.settle(states, settled, ready)
	}
	return p.results(states)
}

// starts reports whether source i is to be asked now.
func (p *pass) starts(ctx context.Context, i int, s *state) bool {
	s.result = Result{Resource: p.plan.sources[i].Resource}
	if p.previous.clean(s.result.Resource) {
		return false
	}
	s.result.Waiting = s.blocked || ctx.Err() != nil
	return !s.result.Waiting
}

// settle passes the outcome of source i on to those that come after it, and adds
// to ready those that have everything they wait for.
func (p *pass) settle(states []state, i int, ready []int) []int {
	states[i].settled = true
	empty := !states[i].blocked && states[i].result.Empty()
	for _, next := range p.plan.then[i] {
		states[next].waits--
		states[next].blocked = states[next].blocked || !empty
		if states[next].waits == 0 {
			ready = append(ready, next)
		}
	}
	return ready
}

// visit asks source i. Whatever the source does, it writes a result and sends i.
func (p *pass) visit(ctx context.Context, i int, result *Result, done chan<- int) {
	defer func() { done <- i }()
	source := p.plan.sources[i]
	result.Err = &SourceError{Resource: source.Resource, Err: errNoReturn}
	v := &visit{
		opts: &p.composed.opts, slots: p.slots, source: source, known: p.known[i], target: p.target,
	}
	v.before, v.had = p.previous.result(source.Resource)
	err := safely(func() error { *result = v.run(ctx); return nil })
	if err != nil {
		result.Err = &SourceError{Resource: source.Resource, Err: err}
	}
}

// results returns the result of each source that is not clean from before. Those
// that were never settled are in a circle, or behind one.
func (p *pass) results(states []state) []Result {
	var results []Result
	for i, s := range states {
		resource := p.plan.sources[i].Resource
		if p.previous.clean(resource) {
			continue
		}
		if !s.settled {
			s.result = Result{Resource: resource, Waiting: true}
		}
		results = append(results, s.result)
	}
	return results
}

// cleanAfter returns the types that are known to be empty for good after the pass.
func (p *pass) cleanAfter(results []Result) []Resource {
	clean := slices.Clone(p.previous.Clean)
	for _, r := range results {
		if r.Empty() && p.plan.sources[p.plan.index[r.Resource]].Final {
			clean = append(clean, r.Resource)
		}
	}
	slices.SortFunc(clean, Resource.Compare)
	return slices.Compact(clean)
}
