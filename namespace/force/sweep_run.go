package force

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/audit"
)

// sweep is one call.
type sweep struct {
	content Content
	log     Log
	req     SweepRequest
	uid     string // of the incarnation
	objects []audit.Object

	mu       sync.Mutex
	next     int // the first object that nobody has taken
	states   []state
	progress SweepProgress
	faults   []fault
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
	var workers sync.WaitGroup
	for range min(cmp.Or(s.req.Parallel, 8), len(s.objects)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i, ok := s.take()
				if !ok {
					return
				}
				is, err := s.remove(ctx, s.objects[i])
				if err != nil && ctx.Err() != nil {
					return // perhaps removed, perhaps not: not reached
				}
				s.tell(i, is, err)
			}
		})
	}
	workers.Wait()
	slices.SortFunc(s.faults, func(a, b fault) int { return strings.Compare(a.resource, b.resource) })
	var errs []error
	if ctx.Err() != nil {
		errs = append(errs, failed(s.req.Name, "the sweep was cut short", context.Cause(ctx)))
	}
	for _, f := range s.faults {
		errs = append(errs, failed(s.req.Name, "remove "+f.text(), f.first))
	}
	return errors.Join(errs...)
}

func (s *sweep) take() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.next
	s.next++
	return i, i < len(s.objects)
}

var errNoUID = errors.New("it has no uid, so that it cannot be told from another of that name; look at it and delete it by hand")

func (s *sweep) remove(ctx context.Context, o audit.Object) (state, error) {
	if o.UID == "" {
		return broken, errNoUID
	}
	name, group, _ := strings.Cut(o.Resource, ".") // names of resources have no dots
	done, err := s.content.Remove(ctx, deleter.Resource{Group: group, Name: name}, s.req.Name, o.Name, o.UID, s.req.Release)
	switch {
	case err != nil:
		return broken, err
	case done:
		return gone, nil
	}
	return held, nil
}

// tell notes what became of an object.
func (s *sweep) tell(i int, is state, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if s.req.Progress != nil {
		s.req.Progress(s.progress)
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
	for _, f := range s.faults {
		r.Failures = append(r.Failures, audit.Failure{Source: f.resource, Text: short(fmt.Sprintf("%s: %v", f.text(), f.first))})
	}
	return r
}
