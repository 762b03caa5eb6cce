package phase

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Observation is what one pass saw of the content of one party in one
// namespace. The zero Observation is: everything answered, nothing is left.
type Observation struct {
	// Discovery are groups of resource types that could not be discovered. An error with
	// a method Failures() int stands for so many; zero: it is not about single groups.
	Discovery  []error
	Parsing    []error     // resource types whose group or version could not be read
	Content    []error     // resource types whose deletion or listing failed
	Remaining  []Remaining // resource types that still have objects
	Finalizers []Holder    // finalizers on those objects
	// LastSeen lists the resource types that had objects when their sources last answered,
	// including the types of Remaining. An entry without a Resource stands for unknown types.
	LastSeen []Remaining
	// Unasked counts the resource types that were not asked at all, since they wait
	// for others to be empty. What they hold is not known.
	Unasked int
	// Provisional reports that content may still be created, so the observation is not
	// final and a party must observe again before it removes its finalizer (rule R7).
	Provisional bool
	// Waived are failures that count for nothing, since an operator has declared that
	// what failed holds nothing of the namespace; WaivedDiscovery are those of groups that
	// could not be discovered. The conditions tell of them.
	Waived, WaivedDiscovery []error
}

// Remaining is how many objects of one resource type are left.
type Remaining struct {
	Group    string // empty: the core group
	Resource string // plural and lower case, such as "pods"
	Count    int
}

// Holder is a finalizer that holds objects.
type Holder struct {
	Finalizer string   `json:"finalizer"`
	Objects   int      `json:"objects"`
	Sample    []string `json:"sample,omitempty"` // names of some of the objects, sorted
}

// Answered reports whether nothing that was asked failed, but for what is waived.
func (o Observation) Answered() bool {
	return len(o.Discovery)+len(o.Parsing)+len(o.Content) == 0
}

// Partial reports whether the pass may have missed something: a source did not
// answer or was not asked, content may still come, or a count is negative.
func (o Observation) Partial() bool {
	return !o.Answered() || o.Unasked != 0 || o.Provisional ||
		slices.ContainsFunc(o.Remaining, func(r Remaining) bool { return r.Count < 0 }) ||
		slices.ContainsFunc(o.Finalizers, func(h Holder) bool { return h.Objects < 0 })
}

// Empty reports whether everything was asked, everything answered or is waived, and
// nothing is left: only then may a party let go (rule R7).
func (o Observation) Empty() bool {
	return !o.Partial() &&
		!slices.ContainsFunc(o.Remaining, func(r Remaining) bool { return r.Count != 0 }) &&
		!slices.ContainsFunc(o.Finalizers, func(h Holder) bool { return h.Objects != 0 })
}

// texts returns the texts of errs, sorted, so that the same failures read the
// same on every pass.
func texts(errs []error) []string {
	list := make([]string, 0, len(errs))
	for _, err := range errs {
		text := "unknown error"
		if err != nil && err.Error() != "" {
			text = err.Error()
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// counted sums up counts by name and returns a phrase for each that has any,
// sorted. Negative counts say nothing and are left out; a sum stops at the greatest
// number there is.
func counted[T any](list []T, count func(T) (name string, n int), phrase string) []string {
	sums := make(map[string]int, len(list))
	for _, e := range list {
		name, n := count(e)
		sums[name] += min(max(n, 0), math.MaxInt-sums[name])
	}
	phrases := make([]string, 0, len(sums))
	for name, n := range sums {
		if n > 0 {
			phrases = append(phrases, fmt.Sprintf(phrase, name, n))
		}
	}
	slices.Sort(phrases)
	return phrases
}

func (o Observation) remaining() []string {
	return counted(o.Remaining, func(r Remaining) (string, int) { return r.Resource + "." + r.Group, r.Count },
		"%s has %d resource instances")
}

func (o Observation) held() []string {
	return counted(o.Finalizers, func(h Holder) (string, int) { return h.Finalizer, h.Objects },
		"%s in %d resource instances")
}

func joined(list []string) string { return strings.Join(list, ", ") }
