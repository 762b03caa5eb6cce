package deleter

import (
	"slices"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// splitGroups splits the failed groups of a discovery into unwaived and waived ones. A group
// is waived if names lists it and no object of its undiscovered types was seen in previous.
// The core group has no name and is never waived.
func splitGroups(part *DiscoveryError, names []string, previous Report, g *graph) (failed *DiscoveryError, waived []error) {
	failed = &DiscoveryError{Parsing: part.Parsing}
	named := false
	for _, group := range part.Groups {
		if group.Group == "" || !slices.Contains(names, group.Group) {
			failed.Groups = append(failed.Groups, group)
			continue
		}
		named = true
		seen := 0
		for _, c := range previous.LastCounts() {
			if _, found := g.index[c.Resource]; !found && c.Resource.Group == group.Group {
				seen = plus(seen, c.Objects)
			}
		}
		if seen > 0 {
			group.Err = &UnwaivedError{seen, group.Err}
			failed.Groups = append(failed.Groups, group)
			continue
		}
		waived = append(waived, group)
	}
	if !named {
		return part, nil
	}
	sortErrors(waived)
	return failed, waived // without part.Message, which describes the waived groups too
}

// failed records that source i failed, and the number of objects seen of it. If the target
// waives it and no object of it was seen, the source counts as empty. If objects were seen,
// the waiver is refused and the error explains why.
func (s *schedule) failed(i, seen int) {
	r := &s.results[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen > r.Remaining {
		s.lost = append(s.lost, ResourceCount{r.Resource, seen})
	}
	switch named := slices.Contains(s.target.Waived, r.Resource.String()); {
	case named && seen == 0:
		s.states[i].waived = true
	case named:
		r.Err = unwaived(r.Err, seen)
	}
}

// unwaived adds an [UnwaivedError] to each error of a source.
func unwaived(err error, seen int) error {
	var all error
	for _, one := range multierr.Errors(err) {
		if e, ok := one.(*SourceError); ok {
			refused := *e
			refused.Err = &UnwaivedError{seen, e.Err}
			one = &refused
		} else {
			one = &UnwaivedError{seen, one}
		}
		all = multierr.Append(all, one)
	}
	return all
}

// takeWaived removes the waived failures from results and returns them.
func (s *schedule) takeWaived(results []Result) []error {
	if len(s.target.Waived) == 0 {
		return nil
	}
	var waived []error
	for i := range results {
		r := &results[i]
		if s.states[s.found.graph.index[r.Resource]].waived {
			waived = append(waived, r.Err)
			*r = Result{Resource: r.Resource, Deleted: r.Deleted}
		}
	}
	return waived
}

// lastSeen returns [Report].LastSeen of the pass: the counts of failed types, and the
// previous counts of types that were not visited or discovered.
func (s *schedule) lastSeen() []ResourceCount {
	counts := s.lost
	carry := func(r namespace.ResourceType) {
		n := s.previous.lastCount(r)
		if n <= 0 {
			return
		}
		if i, found := s.found.graph.index[r]; found && s.results[i].Waiting || !found && s.found.hidden(r) {
			counts = append(counts, ResourceCount{r, n})
		}
	}
	for _, c := range s.previous.LastSeen {
		carry(c.Resource)
	}
	for i := range s.previous.Results {
		carry(s.previous.Results[i].Resource)
	}
	return sortCounts(counts)
}
