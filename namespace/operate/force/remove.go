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

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// sweep is a running call.
type sweep struct {
	namespaces Getter
	content    Content
	log        Log
	req        SweepRequest
	uid        string // of the incarnation
	objects    []audit.Object
	unknown    []audit.Failure // sources that are missing in the inventory

	mu       sync.Mutex
	types    []*queue
	states   []state
	progress SweepProgress
	faults   []fault
	panicked error     // panic of Progress
	handed   int       // objects since the last check of the name
	checked  time.Time // the last check
	accepted bool      // the name is taken, which the request accepts: no more checks
	note     string    // the name was taken after the start
}

// queue is the objects of one resource type.
type queue struct {
	resource string
	waiting  []int // objects that no worker has taken
	taken    int
	calls    int // under way
	failures int // in a row
}

// maxFailures is the number of failures in a row after which a type comes last.
const maxFailures = 3

// compare orders queues for the next call: a type that does not fail, then the fewest calls
// under way, then the fewest objects taken.
func (t *queue) compare(other *queue) int {
	return cmp.Or(
		cmp.Compare(t.failures/maxFailures, other.failures/maxFailures),
		cmp.Compare(t.calls, other.calls),
		cmp.Compare(t.taken, other.taken),
	)
}

// queue queues the objects of the inventory.
func (s *sweep) queue(forcing audit.Record) {
	s.uid = forcing.UID
	if forcing.Inventory == nil {
		return
	}
	s.objects, s.unknown = forcing.Inventory.Objects, forcing.Inventory.Failures
	s.states = make([]state, len(s.objects))
	s.progress.Objects = len(s.objects)
	at := map[string]*queue{}
	for i, o := range s.objects {
		t := at[o.Resource]
		if t == nil {
			t = &queue{resource: o.Resource}
			at[o.Resource], s.types = t, append(s.types, t)
		}
		t.waiting = append(t.waiting, i)
	}
}

// state is the state of an object.
type state uint8

const (
	unreached state = iota
	gone
	held
	broken
)

// fault is the failures of one resource type.
type fault struct {
	resource string
	first    error // the first failure
	object   string
	others   int
}

// run removes the objects concurrently and returns the failures.
func (s *sweep) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.checked = time.Now()
	var workers sync.WaitGroup
	for range min(s.req.Parallel, len(s.objects)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				t, i := s.next()
				if t == nil {
					return
				}
				if err := s.checkIncarnationIfDue(ctx); err != nil {
					stop(err) // calls under way too
					return
				}
				is, err := s.remove(ctx, s.objects[i])
				if err != nil && ctx.Err() != nil {
					return // the outcome is unknown: the object counts as not reached
				}
				s.recordState(t, i, is, err)
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
		errs = append(errs, failed(s.req.Name, "call Progress", s.panicked))
	}
	for _, f := range s.faults {
		errs = append(errs, failed(s.req.Name, "remove "+f.text(), f.first))
	}
	return errors.Join(errs...)
}

// next returns the next object and its queue, or nil.
func (s *sweep) next() (*queue, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t *queue
	for _, other := range s.types {
		if len(other.waiting) > 0 && (t == nil || other.compare(t) < 0) {
			t = other
		}
	}
	if t == nil {
		return nil, 0
	}
	i := t.waiting[0]
	t.waiting = t.waiting[1:]
	t.taken++
	t.calls++
	return t, i
}

// The number of objects, and the time, between two checks of the name.
const (
	checkEach  = 64
	checkAfter = time.Second
)

// checkIncarnationIfDue calls checkIncarnation if a check is due. Each check costs a read.
func (s *sweep) checkIncarnationIfDue(ctx context.Context) error {
	if !s.due() {
		return nil
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	accepted, err := s.checkIncarnation(ctx, s.uid)
	if err != nil || accepted == "" {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted, s.note = true, accepted
	return nil
}

func (s *sweep) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed++
	if s.accepted || s.handed < checkEach && time.Since(s.checked) < checkAfter {
		return false
	}
	s.handed, s.checked = 0, time.Now()
	return true
}

// within bounds one call.
func (s *sweep) within(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := s.req.CallTimeout
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v: %w", timeout, context.DeadlineExceeded))
}

var errNoUID = errors.New("it has no uid, so it may be another object of that name; check it and delete it by hand")

func (s *sweep) remove(ctx context.Context, o audit.Object) (is state, err error) {
	if o.UID == "" {
		return broken, errNoUID
	}
	within, cancel := s.within(ctx)
	defer cancel()
	name, group, _ := strings.Cut(o.Resource, ".") // the name of a resource has no dots
	done := false
	err = deleter.CatchPanic("", func() (err error) {
		done, err = s.content.RemoveObject(within, namespace.ResourceType{Group: group, Name: name}, s.req.Name, o.Name, o.UID, s.req.Release)
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

// recordState records the state of an object.
func (s *sweep) recordState(t *queue, i int, is state, err error) {
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
		s.panicked = deleter.CatchPanic("", func() error { s.req.Progress(s.progress); return nil })
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
		r.Failures = append(r.Failures, audit.Failure{Source: f.Source, Text: phase.Truncate("did not answer for the inventory: "+f.Text, maxText)})
	}
	for _, f := range s.faults {
		r.Failures = append(r.Failures, audit.Failure{Source: f.resource, Text: phase.Truncate(fmt.Sprintf("%s: %v", f.text(), f.first), maxText)})
	}
	return r
}
