package force

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// sweep is one call.
type sweep struct {
	namespaces Getter
	content    Content
	log        Log
	req        SweepRequest
	uid        string // of the incarnation
	objects    []audit.Object
	unknown    []audit.Failure // sources that the inventory is without

	mu       sync.Mutex
	types    []*turn
	states   []state
	progress SweepProgress
	faults   []fault
	panicked error     // of Progress
	handed   int       // objects since it was asked whether the name is taken
	asked    time.Time // when
	accepted bool      // that the name is taken: nobody asks any more
	since    string    // that this came about after the sweep began
}

// turn is what is left to do of one resource type.
type turn struct {
	resource string
	left     []int // objects that nobody has taken
	taken    int
	calls    int // under way
	failures int // in a row
}

// enough is how many failures in a row have a type come last.
const enough = 3

// before compares whose turn it is: that of a type that does not fail, with the fewest
// calls under way, and with the fewest made.
func (t *turn) before(other *turn) int {
	return cmp.Or(
		cmp.Compare(t.failures/enough, other.failures/enough),
		cmp.Compare(t.calls, other.calls),
		cmp.Compare(t.taken, other.taken),
	)
}

// take takes in the inventory of a record.
func (s *sweep) take(forcing audit.Record) {
	s.uid = forcing.UID
	if forcing.Inventory == nil {
		return
	}
	s.objects, s.unknown = forcing.Inventory.Objects, forcing.Inventory.Failures
	s.states = make([]state, len(s.objects))
	s.progress.Objects = len(s.objects)
	at := map[string]*turn{}
	for i, o := range s.objects {
		t := at[o.Resource]
		if t == nil {
			t = &turn{resource: o.Resource}
			at[o.Resource], s.types = t, append(s.types, t)
		}
		t.left = append(t.left, i)
	}
}

// state is what became of an object.
type state uint8

const (
	unreached state = iota
	gone
	held
	broken
)

// fault is what failed of one resource type.
type fault struct {
	resource string
	first    error // the first failure
	object   string
	others   int
}

// run goes through the objects, several at once, and returns what failed.
func (s *sweep) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.asked = time.Now()
	var workers sync.WaitGroup
	for range min(cmp.Or(s.req.Parallel, 8), len(s.objects)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				t, i := s.next()
				if t == nil {
					return
				}
				if err := s.ask(ctx); err != nil {
					stop(err) // also what is under way
					return
				}
				is, err := s.remove(ctx, s.objects[i])
				if err != nil && ctx.Err() != nil {
					return // perhaps removed, perhaps not: not reached
				}
				s.tell(t, i, is, err)
			}
		})
	}
	workers.Wait()
	slices.SortFunc(s.faults, func(a, b fault) int { return strings.Compare(a.resource, b.resource) })
	var errs []error
	if ctx.Err() != nil {
		errs = append(errs, failed(s.req.Name, "the sweep was cut short", context.Cause(ctx)))
	}
	if s.panicked != nil {
		errs = append(errs, failed(s.req.Name, "tell the progress", s.panicked))
	}
	for _, f := range s.faults {
		errs = append(errs, failed(s.req.Name, "remove "+f.text(), f.first))
	}
	return errors.Join(errs...)
}

// next hands out an object, and the type whose turn it is; nil: nothing is left.
func (s *sweep) next() (*turn, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t *turn
	for _, other := range s.types {
		if len(other.left) > 0 && (t == nil || other.before(t) < 0) {
			t = other
		}
	}
	if t == nil {
		return nil, 0
	}
	i := t.left[0]
	t.left = t.left[1:]
	t.taken++
	t.calls++
	return t, i
}

// How many objects, and how long, until it is asked again whether the name is taken.
const (
	askEach  = 64
	askAfter = time.Second
)

// ask returns why the sweep must not go on, see recreated: now and then, since each time
// costs a read.
func (s *sweep) ask(ctx context.Context) error {
	if !s.due() {
		return nil
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	accepted, err := s.recreated(ctx, s.uid)
	if err != nil || accepted == "" {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted, s.since = true, accepted
	return nil
}

func (s *sweep) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed++
	if s.accepted || s.handed < askEach && time.Since(s.asked) < askAfter {
		return false
	}
	s.handed, s.asked = 0, time.Now()
	return true
}

// within bounds one call.
func (s *sweep) within(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := cmp.Or(s.req.CallTimeout, time.Minute)
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v: %w", timeout, context.DeadlineExceeded))
}

var errNoUID = errors.New("it has no uid, so that it cannot be told from another of that name; look at it and delete it by hand")

func (s *sweep) remove(ctx context.Context, o audit.Object) (is state, err error) {
	if o.UID == "" {
		return broken, errNoUID
	}
	within, cancel := s.within(ctx)
	defer cancel()
	name, group, _ := strings.Cut(o.Resource, ".") // names of resources have no dots
	done := false
	err = safely(func() (err error) {
		done, err = s.content.Remove(within, namespace.ResourceType{Group: group, Name: name}, s.req.Name, o.Name, o.UID, s.req.Release)
		return err
	})
	switch {
	case err != nil && within.Err() != nil && !errors.Is(err, context.Cause(within)):
		return broken, fmt.Errorf("%w: %w", context.Cause(within), err)
	case err != nil:
		return broken, err
	case done:
		return gone, nil
	}
	return held, nil
}

// safely returns a panic of f as an error.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v", r)
		}
	}()
	return f()
}

// tell notes what became of an object.
func (s *sweep) tell(t *turn, i int, is state, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.calls--
	t.failures++
	s.states[i] = is
	switch is {
	case gone:
		s.progress.Gone++
	case held:
		s.progress.Held++
	case broken:
		s.progress.Failed++
		s.fault(s.objects[i], err)
	}
	if is != broken {
		t.failures = 0
	}
	if s.req.Progress != nil && s.panicked == nil {
		s.panicked = safely(func() error { s.req.Progress(s.progress); return nil })
	}
}

func (s *sweep) fault(o audit.Object, err error) {
	for i := range s.faults {
		if s.faults[i].resource == o.Resource {
			s.faults[i].others++
			return
		}
	}
	s.faults = append(s.faults, fault{resource: o.Resource, first: err, object: o.Name})
}

func (f fault) text() string {
	text := fmt.Sprintf("%s %q", f.resource, f.object)
	if f.others > 0 {
		text += fmt.Sprintf(" (and %d others of its type)", f.others)
	}
	return text
}

func (s *sweep) result() SweepResult {
	r := SweepResult{SweepProgress: s.progress}
	for i, o := range s.objects {
		if s.states[i] != gone {
			r.Left = append(r.Left, o)
		}
	}
	for _, f := range s.unknown {
		r.Failures = append(r.Failures, audit.Failure{Source: f.Source, Text: phase.Truncate("did not answer when the inventory was taken: "+f.Text, maxText)})
	}
	for _, f := range s.faults {
		r.Failures = append(r.Failures, audit.Failure{Source: f.resource, Text: phase.Truncate(fmt.Sprintf("%s: %v", f.text(), f.first), maxText)})
	}
	return r
}
