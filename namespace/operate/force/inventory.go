package force

import (
	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// keep returns an inventory as it is put on record. What is wrong with it is among its
// failures, so that without any it is complete.
func keep(listed deleter.Inventory, err error) audit.Inventory {
	var kept audit.Inventory
	for _, o := range listed.Objects {
		kept.Objects = append(kept.Objects, audit.Object{
			Resource: o.Resource.String(), Name: o.Name, UID: o.UID, Finalizers: o.Finalizers,
		})
	}
	report := listed.Report
	for _, errs := range [][]error{report.Discovery, report.Parsing, {report.Failed}} {
		for _, err := range errs {
			if err != nil {
				kept.Failures = append(kept.Failures, failure(deleter.SourceOf(err), err))
			}
		}
	}
	for _, r := range report.Results {
		switch {
		case r.Err != nil:
			kept.Failures = append(kept.Failures, failure(r.Resource.String(), r.Err))
		case r.More || r.Waiting:
			kept.Failures = append(kept.Failures, audit.Failure{Source: r.Resource.String(), Text: "was not listed to its end"})
		}
	}
	if err != nil && len(kept.Failures) == 0 {
		kept.Failures = append(kept.Failures, failure("", err))
	}
	return kept
}

func failure(source string, err error) audit.Failure {
	return audit.Failure{Source: source, Text: phase.Truncate(err.Error(), maxText)}
}
