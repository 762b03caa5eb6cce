package deleter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"go.uber.org/multierr"
	"golang.org/x/sync/semaphore"
)

// Composed is a [Deleter] and [Waiter] made of sources, by [New] or
// [Discovering]. It keeps what it learns about the sources' abilities and nothing
// about namespaces.
type Composed struct {
	opts     Options
	discover func(context.Context) ([]Source, error) // nil: fixed
	fixed    found                                   // when there is no discovery
	memory   memory
	clean    cleanSets
}

var (
	_ Deleter = (*Composed)(nil)
	_ Waiter  = (*Composed)(nil)
)

// New makes a Deleter of a fixed list of sources. It refuses with [ErrInvalid]: an
// empty list (a namespace would count as empty at once), two sources for one type,
// a source without content, a name in After that no source has, a circle of them
// (a [*CycleError] that names it), and invalid options.
func New(sources []Source, opts *Options) (*Composed, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%w sources: there are none", ErrInvalid)
	}
	p, problems := newPlan(sources)
	problems = append(problems, p.unknown(), p.cycle())
	if err := multierr.Combine(problems...); err != nil {
		return nil, err
	}
	c := &Composed{opts: o}
	c.fixed = found{plan: p, known: c.memory.recall(p.sources), hidden: func(namespace.ResourceType) bool { return false }}
	return c, nil
}

// Discovering makes a Deleter of the sources that discover finds, anew in each
// pass; discover may cache. What it returns is taken as far as possible, and
// whatever is wrong with it fails the pass closed:
//
//   - With a [*DiscoveryError] it has found a part. The sources found are asked, but
//     none that comes after a type which may exist unseen: one of a group that
//     failed, or any unseen type if Parsing is not empty.
//   - With any other error any unseen type may exist.
//   - Without sources and without an error it has failed ([ErrNothingDiscovered]).
//   - Sources that cannot be used, and all sources of a type that was found twice,
//     are left out and reported in [Report].Parsing.
//   - Sources in a circle, and those behind it, do not start; a [*CycleError] in
//     [Report].Discovery names it.
//
// A type that a source comes after and that a complete discovery does not show
// does not exist and is not waited for.
func Discovering(discover func(ctx context.Context) ([]Source, error), opts *Options) (*Composed, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if discover == nil {
		return nil, fmt.Errorf("%w discovery function: is nil", ErrInvalid)
	}
	return &Composed{opts: o, discover: discover}, nil
}

// Delete implements [Deleter].
func (c *Composed) Delete(ctx context.Context, target Target, previous Report) (Report, error) {
	if previous.UID != target.UID {
		previous = Report{}
	}
	report := Report{UID: target.UID, Clean: previous.Clean}
	if err := checkCall(ctx, target); err != nil {
		report.LastSeen = previous.LastCounts()
		report.Failed = err
		return report, err
	}
	found := c.find(ctx, &waiver{target.Waived, previous})
	report.Discovery, report.Parsing = found.groups, found.parsing
	p := &pass{
		composed: c,
		plan:     found.plan,
		known:    found.known,
		slots:    semaphore.NewWeighted(int64(c.opts.Parallelism)),
		target:   target,
		previous: previous,
	}
	report.Results = p.run(ctx, found.hidden)
	report.Clean = c.clean.share(p.cleanAfter(report.Results))
	report.LastSeen = p.lastSeen(found.hidden)
	if ctx.Err() != nil {
		report.Discovery = slices.Concat(found.groups, found.waived)
		sortErrors(report.Discovery)
		report.Failed = fmt.Errorf("the pass was cut short: %w", context.Cause(ctx))
		return report, report.Err()
	}
	report.Waived = append(found.waived, p.waive(report.Results)...)
	return report, report.Err()
}

func checkCall(ctx context.Context, target Target) error {
	if ctx == nil {
		return fmt.Errorf("%w context: is nil", ErrInvalid)
	}
	if err := target.Validate(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// found is what discovery found.
type found struct {
	plan    *plan
	known   []*known
	groups  []error
	parsing []error
	waived  []error // groups that count as found without types
	// hidden reports whether a type that is not in the plan may exist nevertheless.
	hidden func(namespace.ResourceType) bool
}

// find finds the sources. Groups that w waives hide nothing; it may be nil.
func (c *Composed) find(ctx context.Context, w *waiver) found {
	if c.discover == nil {
		return c.fixed
	}
	var sources []Source
	err := TraceCall(ctx, Call{Op: OpDiscover}, func(ctx context.Context) (int, error) {
		err := bounded(ctx, c.opts.CallTimeout, func(ctx context.Context) (err error) {
			sources, err = c.discover(ctx)
			return err
		})
		return len(sources), err
	})
	if err == nil && len(sources) == 0 {
		err = ErrNothingDiscovered
	}
	p, problems := newPlan(sources)
	f := found{plan: p, known: c.memory.recall(p.sources)}
	f.read(err, problems, w)
	if cycle := p.cycle(); cycle != nil {
		f.groups = append(f.groups, cycle)
	}
	return f
}

// read sorts the outcome of discovery into what failed, and what that may hide.
func (f *found) read(err error, problems []error, w *waiver) {
	part := partly(err)
	everything := false
	switch {
	case err == nil:
	case part.tells():
		part, f.waived = w.groups(part, f.plan)
		f.groups = part.failures()
		f.parsing = slices.DeleteFunc(slices.Clone(part.Parsing), func(err error) bool { return err == nil })
	default:
		f.groups = []error{err}
		everything = true
	}
	f.parsing = append(f.parsing, problems...)
	if len(f.waived) > 0 && len(f.plan.sources)+len(f.groups)+len(f.parsing) == 0 {
		f.groups = []error{ErrNothingDiscovered} // a waiver of all there is would make it empty unseen
		everything = true
	}
	sortErrors(f.groups)
	sortErrors(f.parsing)
	everything = everything || len(f.parsing) > 0
	f.hidden = func(r namespace.ResourceType) bool {
		return everything || slices.ContainsFunc(part.groups(), func(g GroupError) bool { return g.Group == r.Group })
	}
}

// partly returns the [*DiscoveryError] that err is, or wraps alone: beside another
// error it does not tell of all that failed.
func partly(err error) *DiscoveryError {
	for ; err != nil; err = errors.Unwrap(err) {
		if part, ok := err.(*DiscoveryError); ok {
			return part
		}
	}
	return nil
}

// tells reports whether e names anything that failed.
func (e *DiscoveryError) tells() bool {
	return e != nil && (len(e.Groups) > 0 || slices.ContainsFunc(e.Parsing, func(err error) bool { return err != nil }))
}

// failures returns what [Report].Discovery tells of e.
func (e *DiscoveryError) failures() []error {
	if e.Message != "" && len(e.Groups) > 0 {
		return []error{&groupsError{message: e.Message, groups: slices.Clone(e.Groups)}}
	}
	var list []error
	for _, g := range e.Groups {
		list = append(list, g)
	}
	return list
}

func (e *DiscoveryError) groups() []GroupError {
	if e == nil {
		return nil
	}
	return e.Groups
}

func sortErrors(errs []error) {
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
