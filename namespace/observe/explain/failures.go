package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// The sources of failures that are no resource type and no group.
const (
	sourceDiscovery = "discovery"
	sourceParsing   = "parsing"
	sourceDeleter   = "the deleter"
	sourceStorage   = "the namespace itself"
	coreGroup       = "core group"
)

// failuresOf returns what failed in a pass, each source and text once. Only Kind, Source
// and Text are set.
func failuresOf(result pass.Result, err error) []Failure {
	var list []Failure
	add := func(kind Kind, source, text string, err error) {
		f := Failure{Kind: kind, Source: brief(source, 2*maxName), Text: brief(text, maxText)}
		if unwaived := (*deleter.UnwaivedError)(nil); errors.As(err, &unwaived) {
			f.Unwaived = unwaived.Objects
		}
		same := func(g Failure) bool { return g.Source == f.Source && g.Text == f.Text }
		if len(list) < maxFailures && !slices.ContainsFunc(list, same) {
			list = append(list, f)
		}
	}
	report := result.Report
	for _, err := range report.Discovery {
		each(err, func(err error) {
			var group deleter.GroupError
			if errors.As(err, &group) {
				add(DiscoveryFailed, cmp.Or(group.Group, coreGroup), text(group.Err), err)
				return
			}
			add(DiscoveryFailed, sourceDiscovery, text(err), err)
		})
	}
	for _, err := range report.Parsing {
		add(ParsingFailed, sourceParsing, text(err), err)
	}
	for i := range report.Results {
		r := &report.Results[i]
		each(r.Err, func(err error) { addSource(add, r, err) })
	}
	known := len(list) > 0
	each(report.Failed, func(err error) { addPass(add, err, known) })
	if err == nil {
		return list
	}
	told := toldIn(report)
	each(err, func(err error) {
		if !told(err) {
			addPass(add, err, known)
		}
	})
	return list
}

// adder takes a failure: its kind, source and text, and the error that it is.
type adder func(kind Kind, source, text string, err error)

// addSource adds a failure of one resource type.
func addSource(add adder, r *deleter.Result, err error) {
	kind, say := SourceFailed, text(err)
	var source *deleter.SourceError
	if errors.As(err, &source) && source != nil {
		say = text(source.Err)
		if source.Op != "" {
			say = string(source.Op) + ": " + say // without the object: a hundred of them fail in one way
		}
	}
	switch {
	case errors.Is(err, deleter.ErrUnexpected):
		// Without the counts and names: they differ each time, and the objects are told.
		say = deleter.ErrUnexpected.Error() + ", and nothing holds them"
		if r.Deleted > 0 {
			kind = Returning
		}
	case errors.Is(err, deleter.ErrUndeclared):
		kind = Undeclared
	case slow(err):
		kind = SourceSlow
	}
	add(kind, r.Resource.String(), say, err)
}

// addPass adds what failed beyond the sources.
func addPass(add adder, err error, known bool) {
	say := text(err)
	var storage *pass.StorageError
	var panicked *deleter.PanicError
	switch {
	case errors.Is(err, namespace.ErrConflict):
		add(Conflicts, sourceStorage, say, err)
	case errors.As(err, &storage):
		add(StorageFailed, sourceStorage, say, err)
	case errors.As(err, &panicked) && panicked.In != "" && panicked.In != sourceDeleter:
		add(StorageFailed, sourceStorage, say, err)
	case slow(err):
		if !known { // otherwise it is told which source it was
			add(SourceSlow, sourceDeleter, say, err)
		}
	default:
		add(SourceFailed, sourceDeleter, say, err)
	}
}

// slow reports whether err is the end of somebody's patience.
func slow(err error) bool {
	var late *pass.PatienceError
	return errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}

// toldIn returns whether an error is one of those that the report has at its place.
func toldIn(report deleter.Report) func(error) bool {
	known := map[string]bool{}
	add := func(err error) { known[text(err)] = true }
	for _, err := range slices.Concat(report.Discovery, report.Parsing, []error{report.Failed}) {
		each(err, add)
	}
	for i := range report.Results {
		each(report.Results[i].Err, add)
	}
	return func(err error) bool {
		var found *deleter.DiscoveryError
		return known[text(err)] || len(known) > 0 && errors.As(err, &found)
	}
}

// each calls f for every error that err combines.
func each(err error, f func(error)) {
	if err == nil {
		return
	}
	if list, ok := combined(err); ok {
		for _, one := range list {
			each(one, f)
		}
		return
	}
	f(err)
}

// combined returns what err is made of, if it is a list of errors and no sentence of
// its own. The words that a pass puts before its errors are lost.
func combined(err error) ([]error, bool) {
	if under := errors.Unwrap(err); under != nil && strings.HasPrefix(text(err), "pass for namespace ") {
		return []error{under}, true
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

func text(err error) string {
	if err == nil {
		return "unknown error"
	}
	return cmp.Or(err.Error(), "unknown error")
}

func textsOf(errs []error) []string {
	var list []string
	for _, err := range errs[:min(len(errs), maxFailures)] {
		list = append(list, brief(text(err), maxText))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// fail counts what failed in the pass that has ended now.
func (e *entry) fail(p *part, now []Failure, at time.Time) {
	for i := range now {
		f := &now[i]
		if f.Kind == Conflicts {
			e.conflict++
		}
		f.Count, f.First, f.Last = 1, at, at
		same := slices.IndexFunc(e.failures, func(g Failure) bool { return g.Source == f.Source && g.Text == f.Text })
		if same >= 0 {
			g := e.failures[same]
			f.Count, f.First, f.Source, f.Text = plus(g.Count, 1), g.First, g.Source, g.Text
			e.failures = slices.Delete(e.failures, same, same+1)
		} else if len(e.failures) == maxFailures {
			e.failures = slices.Delete(e.failures, 0, 1)
		}
		e.failures = append(e.failures, *f)
	}
	p.streak(now, at)
}

// streak notes since when each source that failed now has done so without a break.
func (p *part) streak(now []Failure, at time.Time) {
	before := p.streaks
	p.streaks = nil
	for _, f := range now {
		is := func(s Streak) bool { return s.Source == f.Source }
		if slices.ContainsFunc(p.streaks, is) {
			continue
		}
		s := Streak{Party: p.voice.party, Source: f.Source, Since: at}
		if i := slices.IndexFunc(before, is); i >= 0 {
			s = before[i]
		}
		s.Passes = plus(s.Passes, 1)
		p.streaks = append(p.streaks, s)
	}
}
