package deleter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Composed is a [Deleter] and [Waiter] made of sources by [New] or [Discovering]. It
// remembers abilities of the sources, and nothing about namespaces.
type Composed struct {
	opts     Options
	discover func(context.Context) ([]Source, error) // nil: static
	static   sources
	memory   memory
}

var (
	_ Deleter = (*Composed)(nil)
	_ Waiter  = (*Composed)(nil)
)

// Options tune a composed [Deleter]. Zero fields, and a nil *Options, mean the defaults;
// negative ones are [ErrInvalid].
type Options struct {
	// Parallelism bounds the concurrent calls to sources in one pass. Default 128. Passes
	// for several namespaces do not share it, so a slow one does not delay the others (rule
	// R10).
	Parallelism int
	// ObjectParallelism bounds the concurrent deletions of single objects of one type within
	// Parallelism. Default 16.
	ObjectParallelism int
	// PageSize is the number of objects that a listing asks for at once. Default 500.
	PageSize int
	// MaxDeletes bounds the deletions of objects of one type in a pass. Default 10,000.
	MaxDeletes int
	// Samples is the number of object names in a report, for each type and each finalizer.
	// Default 5.
	Samples int
	// CallTimeout bounds each call to a source, and the discovery. Default one minute. A
	// source that hangs fails after that. It can be waived ([Target].Waived) only if the
	// context of the pass lasts longer, because a pass that is cut short waives nothing.
	CallTimeout time.Duration
}

const defaultPageSize = 500

func (o Options) withDefaults() Options {
	setDefault(&o.Parallelism, 128)
	setDefault(&o.ObjectParallelism, 16)
	setDefault(&o.PageSize, defaultPageSize)
	setDefault(&o.MaxDeletes, 10_000)
	setDefault(&o.Samples, 5)
	setDefault(&o.CallTimeout, time.Minute)
	return o
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (o Options) validate() error {
	for _, field := range []struct {
		name  string
		value int
	}{
		{"Parallelism", o.Parallelism},
		{"ObjectParallelism", o.ObjectParallelism},
		{"PageSize", o.PageSize},
		{"MaxDeletes", o.MaxDeletes},
		{"Samples", o.Samples},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w option %s: must not be negative, is %d", ErrInvalid, field.name, field.value)
		}
	}
	if o.CallTimeout < 0 {
		return fmt.Errorf("%w option CallTimeout: must not be negative, is %v", ErrInvalid, o.CallTimeout)
	}
	return nil
}

func newComposed(opts *Options) (*Composed, error) {
	c := &Composed{}
	if opts != nil {
		c.opts = *opts
	}
	c.opts = c.opts.withDefaults()
	return c, c.opts.validate()
}

// New returns a Deleter for a fixed list of sources. It returns [ErrInvalid] for an empty
// list (the namespace would count as empty at once), two sources for one type, a source
// without content, a type in After that has no source, a cycle of sources (a [*CycleError]),
// and invalid options.
func New(list []Source, opts *Options) (*Composed, error) {
	c, err := newComposed(opts)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w sources: there are none; without a source every namespace would count as empty", ErrInvalid)
	}
	g, problems := newGraph(list)
	problems = append(problems, g.unknown(), g.cycle())
	if err := multierr.Combine(problems...); err != nil {
		return nil, err
	}
	c.static = sources{graph: g, known: c.memory.recall(g.sources), hidden: func(namespace.ResourceType) bool { return false }}
	return c, nil
}

// Discovering returns a Deleter for the sources that discover finds in each pass. discover
// may cache. Each defect of its result fails the pass closed, and the pass still deletes the
// rest:
//
//   - With a [*DiscoveryError] it found a part. A source does not start if it comes after a
//     type that may exist undiscovered: a type of a failed group, or any type if Parsing is
//     not empty.
//   - With any other error any type may exist undiscovered.
//   - Without sources and without an error it failed ([ErrNothingDiscovered]).
//   - Invalid sources, and all sources of a type that was found twice, are left out and
//     reported in [Report].Parsing.
//   - Sources in a cycle, and those after one, do not start. A [*CycleError] in
//     [Report].Discovery lists the cycle.
//
// A type in After that a complete discovery does not find does not exist.
func Discovering(discover func(ctx context.Context) ([]Source, error), opts *Options) (*Composed, error) {
	c, err := newComposed(opts)
	if err != nil {
		return nil, err
	}
	if discover == nil {
		return nil, fmt.Errorf("%w discovery function: is nil", ErrInvalid)
	}
	c.discover = discover
	return c, nil
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
	found := c.find(ctx, target.Waived, previous)
	report.Discovery, report.Parsing = found.groups, found.parsing
	s := newSchedule(c.opts, found, target, previous)
	report.Results = s.run(ctx)
	report.Clean = s.clean(report.Results)
	report.LastSeen = s.lastSeen()
	if ctx.Err() != nil {
		report.Discovery = slices.Concat(found.groups, found.waived)
		sortErrors(report.Discovery)
		report.Failed = fmt.Errorf("the pass was cut short: %w", context.Cause(ctx))
		return report, report.Err()
	}
	report.Waived = append(found.waived, s.takeWaived(report.Results)...)
	return report, report.Err()
}

func checkCall(ctx context.Context, target Target) error {
	if err := target.Validate(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// sources is the result of a discovery.
type sources struct {
	graph   *graph
	known   []*known
	groups  []error
	parsing []error
	waived  []error // failed groups that count as found without types
	// hidden reports whether a type that is not in the graph may exist.
	hidden func(namespace.ResourceType) bool
}

// find returns the static sources, or discovers them. Waived groups hide no types, except
// types that previous saw with objects.
func (c *Composed) find(ctx context.Context, waived []string, previous Report) sources {
	if c.discover == nil {
		return c.static
	}
	var list []Source
	err := TraceCall(ctx, Call{Op: OpDiscover}, func(ctx context.Context) (int, error) {
		err := withTimeout(ctx, c.opts.CallTimeout, func(ctx context.Context) (err error) {
			list, err = c.discover(ctx)
			return err
		})
		return len(list), err
	})
	if err == nil && len(list) == 0 {
		err = ErrNothingDiscovered
	}
	g, problems := newGraph(list)
	s := sources{graph: g, known: c.memory.recall(g.sources)}
	s.classify(err, problems, waived, previous)
	if cycle := g.cycle(); cycle != nil {
		s.groups = append(s.groups, cycle)
	}
	return s
}

// classify records the failures of a discovery and the types that they may hide.
func (s *sources) classify(err error, problems []error, waived []string, previous Report) {
	part := asDiscoveryError(err)
	anything := false // any type may be hidden
	switch {
	case err == nil:
	case part == nil:
		s.groups = []error{err}
		anything = true
	default:
		part, s.waived = splitGroups(part, waived, previous, s.graph)
		s.groups = groupErrors(part.Groups)
		if part.Message != "" && len(part.Groups) > 0 {
			s.groups = []error{&groupsError{part.Message, part.Groups}}
		}
		s.parsing = slices.DeleteFunc(slices.Clone(part.Parsing), func(err error) bool { return err == nil })
	}
	s.parsing = append(s.parsing, problems...)
	if len(s.waived) > 0 && len(s.graph.sources)+len(s.groups)+len(s.parsing) == 0 {
		// Waivers for everything would make the namespace empty unseen.
		s.groups = []error{ErrNothingDiscovered}
		anything = true
	}
	sortErrors(s.groups)
	sortErrors(s.parsing)
	anything = anything || len(s.parsing) > 0
	s.hidden = func(r namespace.ResourceType) bool {
		return anything || part != nil && slices.ContainsFunc(part.Groups, func(g GroupError) bool { return g.Group == r.Group })
	}
}

// asDiscoveryError returns the [*DiscoveryError] that err is or wraps, if it lists a
// failure. It ignores one that is joined with other errors, because it does not cover those.
func asDiscoveryError(err error) *DiscoveryError {
	for ; err != nil; err = errors.Unwrap(err) {
		part, ok := err.(*DiscoveryError)
		if !ok {
			continue
		}
		if len(part.Groups) == 0 && !slices.ContainsFunc(part.Parsing, func(err error) bool { return err != nil }) {
			return nil
		}
		return part
	}
	return nil
}

func sortErrors(errs []error) {
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
