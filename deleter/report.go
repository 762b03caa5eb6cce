package deleter

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Report is the outcome of one pass over the content of one namespace. It is a value: do not
// change it, or the elements of its slices, after Delete returned it.
type Report struct {
	UID       string                   // the incarnation
	Results   []Result                 // one for each resource type that was not Clean before, sorted by resource
	Clean     []namespace.ResourceType // types that are empty for good in this incarnation, sorted
	Discovery []error                  // groups of resource types that could not be discovered
	Parsing   []error                  // resource types with an unreadable group or version, and invalid sources
	Failed    error                    // any other failure
	// Provisional is how much longer content may still be created, where creates are not
	// conditional on the state of the namespace (rule R6). While it is positive, the report
	// is not final.
	Provisional time.Duration
	// Waived lists the failures of sources that count as empty by [Target].Waived. No other
	// error of the report has them. The Result of such a type has only
	// Resource and Deleted. A pass that was cut short waives nothing.
	Waived []error
	// LastSeen has, for each type that this pass could not count, the objects of its last
	// count: types that failed, were not called or were not discovered; sorted. Waivers of
	// these types are refused.
	LastSeen []ResourceCount
}

// Result is the outcome for one resource type.
type Result struct {
	Resource  namespace.ResourceType
	Deleted   int            // objects deleted or newly marked as being deleted, as far as known
	Remaining int            // objects left; a lower bound if More or Err is set
	Deleting  int            // remaining objects that are being deleted
	Holders   []phase.Holder // finalizers on remaining objects, sorted
	Sample    []string       // names of some of the remaining objects, sorted
	Estimate  time.Duration  // until their graceful deletion should end, or zero
	Err       error          // all failures of the source
	Waiting   bool           // not called: a type in After is not known to be empty, or the pass was cut short
	More      bool           // too many objects for one pass: start the next one at once
	Seen      string         // position of the listing, for [Notifier]
}

// ResourceCount is a number of objects of one resource type.
type ResourceCount struct {
	Resource namespace.ResourceType
	Objects  int // a lower bound
}

// Empty reports whether the source was called, answered, and has no objects left.
func (r Result) Empty() bool { return r.Err == nil && !r.Waiting && !r.More && r.Remaining == 0 }

// FailureKind is the part of a pass that failed.
type FailureKind int

// The kinds of [Failure].
const (
	DiscoveryFailed FailureKind = iota + 1 // an element of [Report].Discovery
	ParsingFailed                          // an element of [Report].Parsing
	SourceFailed                           // the Err of a [Result]
	PassFailed                             // [Report].Failed
)

// Failure is a failure in a [Report].
type Failure struct {
	Kind   FailureKind
	Result *Result // of the source that failed; nil for the other kinds
	Err    error
}

// Source returns the name of the resource type or group that failed, as in [Target].Waived,
// or an empty string.
func (f Failure) Source() string {
	if f.Result != nil {
		return f.Result.Resource.String()
	}
	return SourceOf(f.Err)
}

// Sources returns the Source of each failure that was joined into this one. Groups of
// resource types may fail together.
func (f Failure) Sources() []string {
	if f.Result != nil {
		return []string{f.Source()}
	}
	return sourcesOf(f.Err)
}

func sourcesOf(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{SourceOf(err)}
	}
	var names []string
	for _, one := range joined.Unwrap() {
		names = append(names, sourcesOf(one)...)
	}
	return names
}

// Failures iterates over all failures except waived ones: those of the discovery, of
// parsing, of the sources, and of the pass.
func (r Report) Failures() iter.Seq[Failure] {
	return func(yield func(Failure) bool) {
		for _, err := range r.Discovery {
			if err != nil && !yield(Failure{Kind: DiscoveryFailed, Err: err}) {
				return
			}
		}
		for _, err := range r.Parsing {
			if err != nil && !yield(Failure{Kind: ParsingFailed, Err: err}) {
				return
			}
		}
		for i := range r.Results {
			if result := &r.Results[i]; result.Err != nil && !yield(Failure{SourceFailed, result, result.Err}) {
				return
			}
		}
		if r.Failed != nil {
			yield(Failure{Kind: PassFailed, Err: r.Failed})
		}
	}
}

// Err returns all failures, with every cause in reach of [errors.Is] and [errors.As]. It
// returns nil if every source that was called answered or is waived.
func (r Report) Err() error {
	var errs []error
	for f := range r.Failures() {
		errs = append(errs, f.Err)
	}
	return multierr.Combine(errs...)
}

// Empty reports whether every source answered or is waived, none has objects left, and no
// content can be created any more. A party may then remove its finalizer (rule R7).
func (r Report) Empty() bool { return r.Observation().Empty() }

// Remaining returns the number of objects left, as far as known.
func (r Report) Remaining() int { return r.sum(func(one Result) int { return one.Remaining }) }

// Deleted returns the number of objects deleted or newly marked as being deleted, as far as
// known.
func (r Report) Deleted() int { return r.sum(func(one Result) int { return one.Deleted }) }

func (r Report) sum(of func(Result) int) int {
	n := 0
	for _, result := range r.Results {
		n = plus(n, of(result))
	}
	return n
}

// plus adds b to a and saturates.
func plus(a, b int) int {
	if b > 0 && a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// More reports whether a type had too many objects for one pass, so that the next pass
// should start at once.
func (r Report) More() bool {
	return slices.ContainsFunc(r.Results, func(one Result) bool { return one.More })
}

// Estimate returns when graceful deletion makes another pass useful, or zero if unknown. It
// is the shortest estimate while types wait for others, because a type may become empty
// then, and the longest one otherwise. With no object left it is at least Provisional.
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

// Compact returns the part of r that the next pass and [Waiter] use, without types that are
// empty or were not called. It shares memory with r.
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

// Observation returns the input of the decision and of the five conditions, with every
// failure (rule R9) and sorted lists. A type counts as not asked if it has a negative count, or
// if its incomplete listing showed no object (rule R7).
func (r Report) Observation() phase.Observation {
	seen := phase.Observation{Provisional: r.Provisional > 0}
	for f := range r.Failures() {
		switch f.Kind {
		case DiscoveryFailed:
			seen.Discovery = append(seen.Discovery, f.Err)
		case ParsingFailed:
			seen.Parsing = append(seen.Parsing, f.Err)
		default:
			seen.Content = append(seen.Content, f.Err)
		}
	}
	for _, err := range r.Waived {
		if _, group := sourceOf(err); group {
			seen.WaivedDiscovery = append(seen.WaivedDiscovery, err)
		} else {
			seen.Waived = append(seen.Waived, err)
		}
	}
	held := map[string]int{}
	for _, result := range r.Results {
		negative := slices.ContainsFunc(result.Holders, func(h phase.Holder) bool { return h.Objects < 0 })
		if result.Waiting || negative || result.Remaining < 0 || result.More && result.Remaining == 0 {
			seen.Unasked++
		}
		if result.Remaining > 0 {
			seen.Remaining = append(seen.Remaining, remaining(result.Resource, result.Remaining))
		}
		for _, holder := range result.Holders {
			held[holder.Finalizer] = plus(held[holder.Finalizer], holder.Objects)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		seen.Finalizers = append(seen.Finalizers, phase.Holder{Finalizer: name, Objects: held[name]})
	}
	for _, c := range r.LastCounts() {
		seen.LastSeen = append(seen.LastSeen, remaining(c.Resource, c.Objects))
	}
	return seen
}

func remaining(r namespace.ResourceType, objects int) phase.Remaining {
	return phase.Remaining{Group: r.Group, Resource: r.Name, Count: objects}
}

// LastCounts returns the remaining objects of each type as of the last time that its source
// answered, in this pass or an earlier one; sorted, without zeros. A [Deleter] that fails
// before it calls its sources returns the LastCounts of the previous report as LastSeen.
func (r Report) LastCounts() []ResourceCount {
	var counts []ResourceCount
	for _, c := range r.LastSeen {
		if n := r.lastCount(c.Resource); n > 0 {
			counts = append(counts, ResourceCount{c.Resource, n})
		}
	}
	for _, result := range r.Results {
		if n := r.lastCount(result.Resource); n > 0 {
			counts = append(counts, ResourceCount{result.Resource, n})
		}
	}
	return sortCounts(counts)
}

func sortCounts(counts []ResourceCount) []ResourceCount {
	slices.SortStableFunc(counts, func(a, b ResourceCount) int { return a.Resource.Compare(b.Resource) })
	return slices.CompactFunc(counts, func(a, b ResourceCount) bool { return a.Resource == b.Resource })
}

func (r Report) lastCount(resource namespace.ResourceType) int {
	n := 0
	if i, ok := slices.BinarySearchFunc(r.LastSeen, resource, func(c ResourceCount, r namespace.ResourceType) int { return c.Resource.Compare(r) }); ok {
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

// result returns the result of resource, or nil if its source was not called.
func (r Report) result(resource namespace.ResourceType) *Result {
	i, ok := sort.Find(len(r.Results), func(i int) int { return resource.Compare(r.Results[i].Resource) })
	if !ok || r.Results[i].Waiting {
		return nil
	}
	return &r.Results[i]
}

// clean reports whether resource is empty for good.
func (r Report) clean(resource namespace.ResourceType) bool {
	_, ok := slices.BinarySearchFunc(r.Clean, resource, namespace.ResourceType.Compare)
	return ok
}
