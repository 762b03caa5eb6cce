package deleter

import (
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Report is what one pass over the content of one namespace did and saw. A
// Report is a value: nobody changes it, or what its slices hold, after Delete
// returned it.
type Report struct {
	UID       string                   // the incarnation it tells of
	Results   []Result                 // one for each resource type that was to be asked, sorted by resource
	Clean     []namespace.ResourceType // types that are empty for good in this incarnation, sorted
	Discovery []error                  // groups of resource types that could not be discovered
	Parsing   []error                  // resource types that could not be read: group, version, or source unusable
	Failed    error                    // what failed beyond the above and beyond the results
	// Provisional is how long content may still come although nothing more is asked for,
	// because creates are not held against the namespace's end in one commit (rule R6).
	// While it is positive nothing is final; zero: what was seen is.
	Provisional time.Duration
	// Waived are the failures of sources that count as empty by [Target].Waived. They
	// are among no other errors of the report; the result of a type that one is about
	// has nothing in it but how much was Deleted. A pass that was cut short waives nothing.
	Waived []error
	// LastSeen are the types of which the report does not tell what is left, since they
	// failed, were not asked or could not be discovered, but of which something was left
	// when that could last be told; sorted. They are not waived.
	LastSeen []ResourceCount
}

// Result is what was done to and seen of one resource type.
type Result struct {
	Resource  namespace.ResourceType
	Deleted   int            // objects deleted or newly marked as being deleted, as far as known
	Remaining int            // objects left; at least so many if More
	Deleting  int            // of those left, the ones that are being deleted
	Holders   []phase.Holder // which finalizers hold how many of them, sorted by finalizer
	Sample    []string       // names of some of them, sorted
	Estimate  time.Duration  // until graceful deletion of them should be over; zero: not known
	Err       error          // the failures; Remaining then counts the objects that the pass saw and did not see removed
	Waiting   bool           // not asked: something it comes after is not known to be empty
	More      bool           // there was too much for one pass; the next goes on, at once
	Seen      string         // the source's mark of the listing, for [Notifier]
}

// Empty reports whether the type was asked, answered, and has nothing left.
func (r Result) Empty() bool { return r.Err == nil && !r.Waiting && !r.More && r.Remaining == 0 }

// Err returns everything that failed, every cause within reach of [errors.Is]
// and [errors.As]; nil if every source that was asked answered, or is waived.
func (r Report) Err() error {
	errs := slices.Concat(r.Discovery, r.Parsing)
	for _, result := range r.Results {
		errs = append(errs, result.Err)
	}
	return multierr.Combine(append(errs, r.Failed)...)
}

// Empty reports whether every source answered or is waived, none has anything left and
// nothing can come any more: what must be seen before a finalizer may go (rule R7).
func (r Report) Empty() bool {
	return r.Err() == nil && r.Provisional <= 0 && !slices.ContainsFunc(r.Results, func(one Result) bool { return !one.Empty() })
}

// Remaining returns how many objects are left, as far as known.
func (r Report) Remaining() int { return r.sum(func(one Result) int { return one.Remaining }) }

// Deleted returns how many objects were deleted or newly marked as being deleted,
// as far as known.
func (r Report) Deleted() int { return r.sum(func(one Result) int { return one.Deleted }) }

func (r Report) sum(of func(Result) int) int {
	n := 0
	for _, result := range r.Results {
		n = plus(n, of(result))
	}
	return n
}

// plus adds b to a, up to the largest number.
func plus(a, b int) int {
	if b > 0 && a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// More reports whether there was too much for one pass and the next should
// follow at once.
func (r Report) More() bool {
	return slices.ContainsFunc(r.Results, func(one Result) bool { return one.More })
}

// Estimate returns after what time another pass is worth while as far as graceful
// deletion goes; zero: not known. As long as types wait for others it is the
// shortest estimate of all, since the end of that deletion may let one begin;
// otherwise the longest. It is not shorter than Provisional if nothing is left.
func (r Report) Estimate() time.Duration {
	var shortest, longest time.Duration
	waiting := false
	for _, result := range r.Results {
		waiting = waiting || result.Waiting
		if result.Estimate <= 0 {
			continue
		}
		longest = max(longest, result.Estimate)
		if shortest == 0 || result.Estimate < shortest {
			shortest = result.Estimate
		}
	}
	if waiting {
		return shortest
	}
	if r.Remaining() == 0 {
		longest = max(longest, r.Provisional)
	}
	return longest
}

// Progress reports whether this pass came closer to the end than previous, the one
// before: something was deleted, less is left, another type is empty for good, or
// less failed.
func (r Report) Progress(previous Report) bool {
	return r.Deleted() > 0 ||
		len(r.Clean) > len(previous.Clean) ||
		r.failures() < previous.failures() ||
		r.failures() == previous.failures() && r.Remaining() < previous.Remaining()
}

func (r Report) failures() int {
	n := r.sum(func(one Result) int {
		if one.Err != nil {
			return 1
		}
		return 0
	})
	if r.Failed != nil {
		n++
	}
	return n + len(r.Discovery) + len(r.Parsing)
}

// Compact returns what of r the next pass and [Waiter] can use: without the types
// that have nothing left and those that were not asked. It shares memory with r.
func (r Report) Compact() Report {
	var kept []Result
	for _, result := range r.Results {
		if !result.Waiting && !result.Empty() {
			kept = append(kept, result)
		}
	}
	r.Results, r.Waived = kept, nil
	return r
}

// Observation returns what the five conditions are made of (rule R9): lists are
// sorted, every failure is in it.
func (r Report) Observation() phase.Observation {
	seen := phase.Observation{Discovery: r.Discovery, Parsing: r.Parsing, Provisional: r.Provisional > 0}
	for _, err := range r.Waived {
		if _, group := sourceOf(err); group {
			seen.WaivedDiscovery = append(seen.WaivedDiscovery, err)
		} else {
			seen.Waived = append(seen.Waived, err)
		}
	}
	held := map[string]int{}
	for _, result := range r.Results {
		if result.Err != nil {
			seen.Content = append(seen.Content, result.Err)
		}
		if result.Remaining > 0 {
			seen.Remaining = append(seen.Remaining, phase.Remaining{
				Group: result.Resource.Group, Resource: result.Resource.Name, Count: result.Remaining,
			})
		}
		for _, holder := range result.Holders {
			held[holder.Finalizer] = plus(held[holder.Finalizer], holder.Objects)
		}
	}
	if r.Failed != nil {
		seen.Content = append(seen.Content, r.Failed)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		seen.Finalizers = append(seen.Finalizers, phase.Holder{Finalizer: name, Objects: held[name]})
	}
	return seen
}

// result returns what r tells of resource; nil if that was not asked.
func (r Report) result(resource namespace.ResourceType) *Result {
	i, ok := sort.Find(len(r.Results), func(i int) int { return resource.Compare(r.Results[i].Resource) })
	if !ok || r.Results[i].Waiting {
		return nil
	}
	return &r.Results[i]
}

// clean reports whether r knows resource to be empty for good.
func (r Report) clean(resource namespace.ResourceType) bool {
	_, ok := slices.BinarySearchFunc(r.Clean, resource, namespace.ResourceType.Compare)
	return ok
}
