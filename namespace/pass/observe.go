package pass

import (
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// StorageError is a read or a write of the namespace that failed, as opposed to the
// deletion of its content.
type StorageError struct {
	Op  string // "read", "write status" or "finalize"
	Err error
}

// Error implements error.
func (e *StorageError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// PatienceError tells that the deleter did not answer within [Request.Patience].
type PatienceError struct{ Patience time.Duration }

// Error implements error.
func (e *PatienceError) Error() string {
	return fmt.Sprintf("the deleter did not answer within %v", e.Patience)
}

// observe turns what a deleter answered about the incarnation uid into what the
// decision is made of. It fails closed (rule R7): an error anywhere sets Failed, and
// a type that was not looked at to its end, or counted badly, counts as not asked.
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
	for _, s := range report.LastCounts() {
		seen.LastSeen = append(seen.LastSeen, phase.Remaining{Group: s.Resource.Group, Resource: s.Resource.Name, Count: s.Objects})
	}
	for _, r := range report.Results {
		odd := r.Remaining < 0 || slices.ContainsFunc(r.Holders, func(h phase.Holder) bool { return h.Objects < 0 })
		if r.Waiting || odd || r.More && r.Remaining == 0 {
			seen.Unasked++
		}
	}
	return seen
}
