package deleter

import (
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"go.uber.org/multierr"
)

// ResourceCount is what was seen of a resource type.
type ResourceCount struct {
	Resource namespace.ResourceType
	Objects  int // how many were left of it, or at least so many
}

// Sights returns what was left of each type when that could last be told, be it by this
// pass or an earlier one; sorted, without types that had nothing left. A [Deleter] that
// answers without having asked its sources hands them on, as Report.LastSeen.
func (r Report) LastCounts() []ResourceCount {
	var sights []ResourceCount
	for _, s := range r.LastSeen {
		if n := r.seen(s.Resource); n > 0 {
			sights = append(sights, ResourceCount{s.Resource, n})
		}
	}
	for _, result := range r.Results {
		if n := r.seen(result.Resource); n > 0 {
			sights = append(sights, ResourceCount{result.Resource, n})
		}
	}
	return sorted(sights)
}

func sorted(sights []ResourceCount) []ResourceCount {
	slices.SortStableFunc(sights, func(a, b ResourceCount) int { return a.Resource.Compare(b.Resource) })
	return slices.CompactFunc(sights, func(a, b ResourceCount) bool { return a.Resource == b.Resource })
}

// seen returns how many objects were left of resource when that could last be told.
func (r Report) seen(resource namespace.ResourceType) int {
	n := 0
	if i, ok := slices.BinarySearchFunc(r.LastSeen, resource, func(s ResourceCount, r namespace.ResourceType) int { return s.Resource.Compare(r) }); ok {
		n = r.LastSeen[i].Objects
	}
	if result := r.result(resource); result != nil {
		n = max(n, result.Remaining)
		if result.More {
			n = max(n, 1)
		}
	}
	return n
}

// waiver is what a pass may waive.
type waiver struct {
	names    []string
	previous Report
}

// groups divides what discovery told of into what failed and what is waived. A group is
// waived if it is named, and no type is known to have had objects that it may hide.
// The core group has no name, and is never waived.
func (w *waiver) groups(part *DiscoveryError, p *plan) (failed *DiscoveryError, waived []error) {
	if w == nil || len(w.names) == 0 {
		return part, nil
	}
	failed = &DiscoveryError{Parsing: part.Parsing}
	named := false
	for _, g := range part.Groups {
		if g.Group == "" || !slices.Contains(w.names, g.Group) {
			failed.Groups = append(failed.Groups, g)
			continue
		}
		named = true
		if n := w.hidden(g.Group, p); n > 0 {
			g.Err = &UnwaivedError{n, g.Err}
			failed.Groups = append(failed.Groups, g)
			continue
		}
		waived = append(waived, g)
	}
	if !named {
		return part, nil
	}
	sortErrors(waived)
	return failed, waived // without part's message, which tells of them all
}

// hidden returns how many objects were seen of the types of group that p does not have.
func (w *waiver) hidden(group string, p *plan) int {
	n := 0
	for _, s := range w.previous.LastCounts() {
		if _, found := p.index[s.Resource]; !found && s.Resource.Group == group {
			n = plus(n, s.Objects)
		}
	}
	return n
}

// failed notes that source i failed, and how many objects were seen of it. It is waived
// if none was and the target says so, unless the pass is cut short; if some were, its
// error tells that the target says so for nothing.
func (p *pass) failed(i, seen int) {
	r := &p.results[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen > r.Remaining {
		p.lost = append(p.lost, ResourceCount{r.Resource, seen})
	}
	switch named := slices.Contains(p.target.Waived, r.Resource.String()); {
	case named && seen == 0:
		p.states[i].waived = true
	case named:
		r.Err = unwaived(r.Err, seen)
	}
}

// unwaived returns err, of a source of which so many objects were seen, as the failure
// of one that is waived for nothing.
func unwaived(err error, seen int) error {
	var all error
	for _, one := range multierr.Errors(err) {
		if of, ok := one.(*SourceError); ok {
			told := *of
			told.Err = &UnwaivedError{seen, of.Err}
			one = &told
		} else {
			one = &UnwaivedError{seen, one}
		}
		all = multierr.Append(all, one)
	}
	return all
}

// waive takes the failures that are waived out of results, and returns them.
func (p *pass) waive(results []Result) []error {
	if len(p.target.Waived) == 0 {
		return nil
	}
	var waived []error
	for i := range results {
		r := &results[i]
		if p.states[p.plan.index[r.Resource]].waived {
			waived = append(waived, r.Err)
			*r = Result{Resource: r.Resource, Deleted: r.Deleted}
		}
	}
	return waived
}

// lastSeen returns [Report].LastSeen of the pass.
func (p *pass) lastSeen(hidden func(namespace.ResourceType) bool) []ResourceCount {
	sights := p.lost
	carry := func(r namespace.ResourceType) {
		seen := p.previous.seen(r)
		if seen <= 0 {
			return
		}
		if i, found := p.plan.index[r]; found && p.results[i].Waiting || !found && hidden(r) {
			sights = append(sights, ResourceCount{r, seen})
		}
	}
	for _, s := range p.previous.LastSeen {
		carry(s.Resource)
	}
	for i := range p.previous.Results {
		carry(p.previous.Results[i].Resource)
	}
	return sorted(sights)
}

// lastSeen returns how many objects of a type that failed were left when that could last
// be told, which before the pass were so many.
func (v *visit) lastSeen(before int) int {
	r := &v.result
	if v.told {
		return r.Remaining
	}
	n := max(before, v.sight, r.Deleted, r.shown())
	if r.More {
		n = max(n, 1)
	}
	return n
}
