package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// The sources of failures that are neither a resource type nor a group.
const (
	sourceDiscovery = "discovery"
	sourceParsing   = "parsing"
	sourceDeleter   = "the deleter"
	sourceNamespace = "the namespace itself"
	coreGroup       = "core group"
)

// same reports whether g is the same failure, in another pass.
func (f *Failure) same(g Failure) bool { return g.Source == f.Source && g.Text == f.Text }

// classify returns the distinct failures of a pass that ended with report and err. Only
// Kind, Source, Text and Unwaived are set.
func classify(report deleter.Report, err error) []Failure {
	var list failureList
	known := false // a failure of another kind than PassFailed
	for f := range report.Failures() {
		each(f.Err, func(err error) {
			switch f.Kind {
			case deleter.DiscoveryFailed:
				list.addDiscovery(err)
			case deleter.ParsingFailed:
				list.add(ParsingFailed, sourceParsing, text(err), err)
			case deleter.SourceFailed:
				list.addSource(f.Result, err)
			case deleter.PassFailed:
				list.addPass(err, known)
			}
		})
		known = known || f.Kind != deleter.PassFailed
	}
	if err != nil {
		reported := reportedIn(report)
		each(err, func(err error) {
			if !reported(err) {
				list.addPass(err, known)
			}
		})
	}
	return list
}

type failureList []Failure

func (l *failureList) add(kind Kind, source, text string, err error) {
	f := Failure{Kind: kind, Source: shorten(source, 2*maxName), Text: shorten(text, maxText)}
	if unwaived := (*deleter.UnwaivedError)(nil); errors.As(err, &unwaived) {
		f.Unwaived = unwaived.Objects
	}
	if len(*l) < maxFailures && !slices.ContainsFunc(*l, f.same) {
		*l = append(*l, f)
	}
}

func (l *failureList) addDiscovery(err error) {
	var group deleter.GroupError
	if errors.As(err, &group) {
		l.add(DiscoveryFailed, cmp.Or(group.Group, coreGroup), text(group.Err), err)
		return
	}
	l.add(DiscoveryFailed, sourceDiscovery, text(err), err)
}

// addSource adds a failure of one resource type. Its text names no objects, so that many
// objects failing in one way are one failure.
func (l *failureList) addSource(r *deleter.Result, err error) {
	kind, say := SourceFailed, text(err)
	if source := (*deleter.SourceError)(nil); errors.As(err, &source) {
		say = text(source.Err)
		if source.Op != "" {
			say = string(source.Op) + ": " + say
		}
	}
	switch {
	case errors.Is(err, deleter.ErrUnexpected):
		say = deleter.ErrUnexpected.Error() + ", and nothing holds them"
		if r.Deleted > 0 {
			kind = Returning
		}
	case errors.Is(err, deleter.ErrUndeclared):
		kind = Undeclared
	case timedOut(err):
		kind = SourceSlow
	}
	l.add(kind, r.Resource.String(), say, err)
}

// addPass adds a failure beyond the sources. If a source failed as well, a timeout of the
// pass is its consequence.
func (l *failureList) addPass(err error, sourceFailed bool) {
	var storage *pass.StorageError
	var panicked *deleter.PanicError
	switch {
	case errors.Is(err, namespace.ErrConflict):
		l.add(Conflicts, sourceNamespace, text(err), err)
	case errors.As(err, &storage), errors.As(err, &panicked) && panicked.In != "" && panicked.In != sourceDeleter:
		l.add(StorageFailed, sourceNamespace, text(err), err)
	case !timedOut(err):
		l.add(SourceFailed, sourceDeleter, text(err), err)
	case !sourceFailed:
		l.add(SourceSlow, sourceDeleter, text(err), err)
	}
}

func timedOut(err error) bool {
	var patience *pass.PatienceError
	return errors.As(err, &patience) || errors.Is(err, context.DeadlineExceeded)
}

// reportedIn returns whether an error of a pass is in its report as well.
func reportedIn(report deleter.Report) func(error) bool {
	known := map[string]bool{}
	for f := range report.Failures() {
		each(f.Err, func(err error) { known[text(err)] = true })
	}
	return func(err error) bool {
		var found *deleter.DiscoveryError
		return known[text(err)] || len(known) > 0 && errors.As(err, &found)
	}
}

// each calls f for each single error in err.
func each(err error, f func(error)) {
	if err == nil {
		return
	}
	list, ok := combined(err)
	if !ok {
		f(err)
	}
	for _, one := range list {
		each(one, f)
	}
}

// combined returns the errors in err if its text adds nothing to theirs, or only the
// prefix of a pass.
func combined(err error) ([]error, bool) {
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(text(err), "pass for namespace ") {
		return []error{inner}, true
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, false
	}
	list := several.Unwrap()
	if _, groups := err.(interface{ Failures() int }); groups && len(list) > 0 {
		return list, true
	}
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	all := text(err)
	return list, len(list) > 1 && (all == strings.Join(texts, "; ") || all == strings.Join(texts, "\n"))
}
