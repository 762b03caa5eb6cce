package deleter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/multierr"
	"golang.org/x/sync/semaphore"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// graph is the valid sources with their order.
type graph struct {
	sources    []Source // sorted by resource, one for each
	index      map[namespace.ResourceType]int
	dependents [][]int                    // for each source, the sources that come after it
	waits      []int                      // for each source, the number of sources that it comes after
	missing    [][]namespace.ResourceType // for each source, the types in After without a source
}

func (s Source) validate() error {
	if err := s.Resource.Validate(); err != nil {
		return fmt.Errorf("%w %w", ErrInvalid, err)
	}
	if s.Content == nil {
		return fmt.Errorf("%w source %s: has no Content", ErrInvalid, s.Resource)
	}
	if f, ok := s.Content.(*functions); ok && f.funcs.Delete == nil {
		return fmt.Errorf("%w source %s: Funcs.Delete is nil", ErrInvalid, s.Resource)
	}
	return nil
}

// newGraph returns the graph of the valid sources, and an error for each other one. Two
// sources for one type are both invalid, because either may be wrong.
func newGraph(list []Source) (*graph, []error) {
	var problems []error
	valid := make([]Source, 0, len(list))
	for _, s := range list {
		if err := s.validate(); err != nil {
			problems = append(problems, err)
			continue
		}
		valid = append(valid, s)
	}
	slices.SortStableFunc(valid, func(a, b Source) int { return a.Resource.Compare(b.Resource) })
	g := &graph{index: make(map[namespace.ResourceType]int, len(valid))}
	for i, next := 0, 0; i < len(valid); i = next {
		for next = i + 1; next < len(valid) && valid[next].Resource == valid[i].Resource; {
			next++
		}
		if next > i+1 {
			problems = append(problems, fmt.Errorf("%w source %s: %d sources have this type; only one may", ErrInvalid, valid[i].Resource, next-i))
			continue
		}
		g.index[valid[i].Resource] = len(g.sources)
		g.sources = append(g.sources, valid[i])
	}
	g.link()
	return g, problems
}

func (g *graph) link() {
	g.dependents = make([][]int, len(g.sources))
	g.waits = make([]int, len(g.sources))
	g.missing = make([][]namespace.ResourceType, len(g.sources))
	for i, s := range g.sources {
		for at, earlier := range s.After {
			if slices.Contains(s.After[:at], earlier) {
				continue
			}
			j, ok := g.index[earlier]
			if !ok {
				g.missing[i] = append(g.missing[i], earlier)
				continue
			}
			g.dependents[j] = append(g.dependents[j], i)
			g.waits[i]++
		}
	}
}

// unknown returns an error for each type in After that has no source.
func (g *graph) unknown() error {
	var err error
	for i, names := range g.missing {
		for _, name := range names {
			err = multierr.Append(err, fmt.Errorf("%w source %s: After lists %s, which has no source",
				ErrInvalid, g.sources[i].Resource, name))
		}
	}
	return err
}

// cycle returns a [*CycleError] with one of the cycles, or nil. It removes sources in
// topological order; the rest is in cycles or after them.
func (g *graph) cycle() error {
	waits := slices.Clone(g.waits)
	var free []int
	for i, n := range waits {
		if n == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, j := range g.dependents[i] {
			if waits[j]--; waits[j] == 0 {
				free = append(free, j)
			}
		}
	}
	start := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
	if start < 0 {
		return nil
	}
	return &CycleError{Cycle: g.walkBack(start, waits)}
}

// walkBack follows After from start among the remaining sources until it visits one twice.
// Each remaining source comes after another remaining one.
func (g *graph) walkBack(start int, waits []int) []namespace.ResourceType {
	var path []int
	at := start
	for !slices.Contains(path, at) {
		path = append(path, at)
		next := slices.IndexFunc(g.sources[at].After, func(r namespace.ResourceType) bool {
			j, ok := g.index[r]
			return ok && waits[j] > 0
		})
		at = g.index[g.sources[at].After[next]]
	}
	path = path[slices.Index(path, at):]
	// Begin with the first source, so that the text does not depend on the start.
	first := slices.Index(path, slices.Min(path))
	var cycle []namespace.ResourceType
	for _, i := range slices.Concat(path[first:], path[:first]) {
		cycle = append(cycle, g.sources[i].Resource)
	}
	return cycle
}

// schedule visits the sources of one pass in the order of their graph.
type schedule struct {
	opts     Options
	found    sources
	slots    *semaphore.Weighted // calls in flight
	target   Target
	previous Report

	results []Result // by source; a worker writes the result of the source that it visits
	workers sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	states  []state
	ready   []int           // sources that wait for no other
	lost    []ResourceCount // remaining objects of failed types, if their results do not count them
	spawned bool            // a new worker has not begun yet
}

// state is the state of one source in a pass.
type state struct {
	waits   int  // number of unfinished sources that it comes after
	blocked bool // one of those is not empty, failed, did not start, or may be hidden
	waived  bool // it failed and counts as empty
}

func newSchedule(opts Options, found sources, target Target, previous Report) *schedule {
	n := len(found.graph.sources)
	s := &schedule{
		opts: opts, found: found, target: target, previous: previous,
		slots:   semaphore.NewWeighted(int64(opts.Parallelism)),
		results: make([]Result, n), states: make([]state, n),
	}
	for i := range s.states {
		s.results[i] = Result{Resource: found.graph.sources[i].Resource, Waiting: true}
		s.states[i].waits = found.graph.waits[i]
		s.states[i].blocked = slices.ContainsFunc(found.graph.missing[i], func(r namespace.ResourceType) bool {
			return found.hidden(r) && !previous.clean(r)
		})
		if s.states[i].waits == 0 {
			s.ready = append(s.ready, i)
		}
	}
	return s
}

// run visits each source once all sources that it comes after are empty. It returns the
// results, sorted by resource, without those of clean types.
//
// A clean type is not visited and still finishes in its order: a source that comes after it
// also comes after everything before it. Sources in a cycle, or after one, never get ready
// and keep Waiting.
func (s *schedule) run(ctx context.Context) []Result {
	s.workers.Go(func() { s.work(ctx) })
	s.workers.Wait()
	if len(s.previous.Clean) == 0 {
		return s.results
	}
	var results []Result
	for _, r := range s.results {
		if !s.previous.clean(r.Resource) {
			results = append(results, r)
		}
	}
	return results
}

// work visits sources until none is ready. A worker that leaves ready sources starts one
// more worker. So slow content soon has a worker for each ready source, and a pass over
// content that answers at once needs one or two.
func (s *schedule) work(ctx context.Context) {
	for i, ok := s.next(ctx, none); ok; i, ok = s.next(ctx, i) {
		s.visit(ctx, i)
	}
}

// none is no source.
const none = -1

// next finishes the source that the worker visited (none: it is new) and returns the next
// one to visit.
func (s *schedule) next(ctx context.Context, visited int) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if visited == none {
		s.spawned = false
	} else {
		s.finish(visited)
	}
	for len(s.ready) > 0 {
		i := s.ready[0]
		s.ready = s.ready[1:]
		r := &s.results[i]
		clean := s.previous.clean(r.Resource)
		r.Waiting = !clean
		if clean || s.states[i].blocked || ctx.Err() != nil {
			s.finish(i)
			continue
		}
		if len(s.ready) > 0 && !s.spawned {
			s.spawned = true
			s.workers.Go(func() { s.work(ctx) })
		}
		return i, true
	}
	return 0, false
}

// finish passes the outcome of source i on to its dependents.
func (s *schedule) finish(i int) {
	empty := !s.states[i].blocked && (s.results[i].Empty() || s.states[i].waived)
	for _, next := range s.found.graph.dependents[i] {
		s.states[next].waits--
		s.states[next].blocked = s.states[next].blocked || !empty
		if s.states[next].waits == 0 {
			s.ready = append(s.ready, next)
		}
	}
}

// visit calls source i.
func (s *schedule) visit(ctx context.Context, i int) {
	source, result := &s.found.graph.sources[i], &s.results[i]
	v := &visit{
		opts: &s.opts, slots: s.slots, source: source, known: s.found.known[i], target: s.target,
		before: s.previous.result(source.Resource),
	}
	err := CatchPanic("", func() error {
		*result = v.run(ctx)
		return nil
	})
	if err != nil {
		*result = v.result
		result.Err = &SourceError{Resource: source.Resource, Err: err}
	}
	if result.Err != nil {
		s.failed(i, v.lastSeen(s.previous.lastCount(source.Resource)))
	}
}

// clean returns the types that are empty for good after the pass.
func (s *schedule) clean(results []Result) []namespace.ResourceType {
	clean := slices.Clone(s.previous.Clean)
	for _, r := range results {
		if r.Empty() && s.found.graph.sources[s.found.graph.index[r.Resource]].Final {
			clean = append(clean, r.Resource)
		}
	}
	slices.SortFunc(clean, namespace.ResourceType.Compare)
	return slices.Compact(clean)
}
