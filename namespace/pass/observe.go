package pass

import (
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// StorageError is a failed read or write of the namespace, as opposed to a failed deletion of
// its content.
type StorageError struct {
	Op  string // "read", "write status" or "finalize"
	Err error
}

// Error implements error.
func (e *StorageError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// PatienceError is the cause of a deleter's context that ended after [Request.Patience].
type PatienceError struct{ Patience time.Duration }

// Error implements error.
func (e *PatienceError) Error() string {
	return fmt.Sprintf("the deleter did not answer within %v", e.Patience)
}

// observe converts the deleter's answer for the incarnation uid into the input of the
// decision. It fails closed (rule R7): any error sets Failed, and a type that was not listed
// to its end, or has a negative count, counts as not asked.
func observe(uid string, report deleter.Report, err error) namespace.Observed {
	if err == nil {
		err = report.Err()
	}
	seen := namespace.Observed{
		UID:         uid,
		Observation: report.Observation(),
		Failed:      err,
		Estimate:    report.Estimate(),
	}
	for _, c := range report.LastCounts() {
		seen.LastSeen = append(seen.LastSeen, phase.Remaining{Group: c.Resource.Group, Resource: c.Resource.Name, Count: c.Objects})
	}
	for _, r := range report.Results {
		negative := r.Remaining < 0 || slices.ContainsFunc(r.Holders, func(h phase.Holder) bool { return h.Objects < 0 })
		if r.Waiting || negative || r.More && r.Remaining == 0 {
			seen.Unasked++
		}
	}
	return seen
}
