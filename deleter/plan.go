package deleter

import (
	"fmt"
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"go.uber.org/multierr"
)

// plan is a set of sources, checked and in order, with what comes after what.
type plan struct {
	sources []Source // sorted by resource, each once
	index   map[namespace.ResourceType]int
	then    [][]int // for each source those that come after it
	before  []int   // for each source how many it comes after
	// missing names, for each source, what it comes after that is not in the plan.
	missing [][]namespace.ResourceType
}

// check returns why source cannot be used.
func (s Source) check() error {
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

// newPlan makes a plan of those sources that can be used and returns the reasons
// against each other one. Of several sources for one type none can be used, since
// nobody knows which is right.
func newPlan(sources []Source) (*plan, []error) {
	var problems []error
	usable := make([]Source, 0, len(sources))
	for _, s := range sources {
		if err := s.check(); err != nil {
			problems = append(problems, err)
			continue
		}
		usable = append(usable, s)
	}
	slices.SortStableFunc(usable, func(a, b Source) int { return a.Resource.Compare(b.Resource) })
	p := &plan{index: make(map[namespace.ResourceType]int, len(usable))}
	for i := 0; i < len(usable); {
		same := i + 1
		for same < len(usable) && usable[same].Resource == usable[i].Resource {
			same++
		}
		if same > i+1 {
			problems = append(problems, fmt.Errorf("%w source %s: is given %d times", ErrInvalid, usable[i].Resource, same-i))
		} else {
			p.index[usable[i].Resource] = len(p.sources)
			p.sources = append(p.sources, usable[i])
		}
		i = same
	}
	p.link()
	return p, problems
}

func (p *plan) link() {
	p.then = make([][]int, len(p.sources))
	p.before = make([]int, len(p.sources))
	p.missing = make([][]namespace.ResourceType, len(p.sources))
	for i, s := range p.sources {
		for at, earlier := range s.After {
			if slices.Contains(s.After[:at], earlier) {
				continue
			}
			j, ok := p.index[earlier]
			if !ok {
				p.missing[i] = append(p.missing[i], earlier)
				continue
			}
			p.then[j] = append(p.then[j], i)
			p.before[i]++
		}
	}
}

// unknown returns an error for each name in After that no source has.
func (p *plan) unknown() error {
	var err error
	for i, names := range p.missing {
		for _, name := range names {
			err = multierr.Append(err, fmt.Errorf("%w source %s: comes after %s, which no source is for",
				ErrInvalid, p.sources[i].Resource, name))
		}
	}
	return err
}

// cycle returns a *CycleError with one of the cycles, or nil.
func (p *plan) cycle() error {
	left := slices.Clone(p.before)
	var free []int
	for i, n := range left {
		if n == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, j := range p.then[i] {
			if left[j]--; left[j] == 0 {
				free = append(free, j)
			}
		}
	}
	start := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	if start < 0 {
		return nil
	}
	return &CycleError{Cycle: p.walkBack(start, left)}
}

// walkBack goes from start to something it comes after and so on, among those
// that are left, until it meets itself. What is left is in a cycle or behind one,
// so that each has something left to come after.
func (p *plan) walkBack(start int, left []int) []namespace.ResourceType {
	var path []int
	for at := start; !slices.Contains(path, at); {
		path = append(path, at)
		for _, earlier := range p.sources[at].After {
			if j, ok := p.index[earlier]; ok && left[j] > 0 {
				start = j
				break
			}
		}
		at = start
	}
	path = path[slices.Index(path, start):]
	// The same cycle reads the same wherever the walk entered it.
	first := slices.Index(path, slices.Min(path))
	path = slices.Concat(path[first:], path[:first])
	cycle := make([]namespace.ResourceType, len(path))
	for i, at := range path {
		cycle[i] = p.sources[at].Resource
	}
	return cycle
}
