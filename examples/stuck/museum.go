package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// museum is all exhibits, each in a room of its own, at the same time. To the debug
// pages it is one place that has all their namespaces.
type museum struct {
	rooms []*room
	stop  func()
}

// room is an exhibit that plays by itself until its remedy, and waits there.
type room struct {
	exhibit
	namespace string
	ctx       context.Context

	mu    sync.Mutex
	world *world
	at    state
	err   error
	told  bytes.Buffer
	play  sync.WaitGroup
}

// state is how far a room is.
type state string

const (
	preparing state = "It is being prepared."
	waiting   state = "It waits for the remedy."
	curing    state = "The remedy is applied."
	over      state = "It is over."
)

var errNotNow = errors.New("the exhibit is not ready for that")

func newMuseum(ctx context.Context, all []exhibit) *museum {
	ctx, stop := context.WithCancel(ctx)
	m := &museum{stop: stop}
	for _, e := range all {
		r := &room{exhibit: e, namespace: e.namespace(), ctx: ctx, at: over}
		_ = r.again() // it is over, so it can begin; what fails then is shown
		m.rooms = append(m.rooms, r)
	}
	return m
}

// again begins the exhibit anew, in a new world.
func (r *room) again() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != over {
		return errNotNow
	}
	if r.world != nil {
		if err := r.world.close(); err != nil {
			return err
		}
	}
	r.told.Reset()
	if r.world, r.err = newWorld(r.ctx, leisurely); r.err != nil {
		return r.err
	}
	r.run(preparing, waiting, r.Steps[:r.remedy()])
	return nil
}

// cure applies the remedy.
func (r *room) cure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != waiting {
		return errNotNow
	}
	r.run(curing, over, r.Steps[r.remedy():])
	return nil
}

// run takes steps in the background. The room is locked.
func (r *room) run(during, after state, steps []step) {
	w := r.world
	r.at = during
	r.play.Go(func() {
		var told bytes.Buffer
		s := show{world: w, tell: &teller{w: &told, quiet: true, blank: true}}
		err := s.play(steps)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at, r.err = after, err
		if err != nil {
			r.at = over
		}
		r.told.Write(told.Bytes())
	})
}

// close ends all worlds.
func (m *museum) close() error {
	m.stop()
	var err error
	for _, r := range m.rooms {
		r.play.Wait()
		r.mu.Lock()
		if r.world != nil {
			err = errors.Join(err, r.world.close())
		}
		r.mu.Unlock()
	}
	return err
}

func (m *museum) room(name string) *room {
	if i := slices.IndexFunc(m.rooms, func(r *room) bool { return r.Name == name }); i >= 0 {
		return m.rooms[i]
	}
	return nil
}

// shown is a room as the front page shows it.
type shown struct {
	exhibit
	Namespace string
	Told      []string
	State     string
	Summary   string
	Curable   bool
	Over      bool
}

func (m *museum) state() []shown {
	var all []shown
	for _, r := range m.rooms {
		w, _ := m.world(r.namespace)
		r.mu.Lock()
		s := shown{exhibit: r.exhibit, Namespace: r.namespace, State: string(r.at), Curable: r.at == waiting, Over: r.at == over}
		s.Told = strings.Split(strings.TrimSpace(r.told.String()), "\n\n")
		if r.err != nil {
			s.State = fmt.Sprintf("It went wrong: %v.", r.err)
		}
		r.mu.Unlock()
		if w != nil && s.Curable {
			if d, err := w.diagnose(w.ctx, r.namespace); err == nil {
				s.Summary = d.Summary
			}
		}
		all = append(all, s)
	}
	return all
}

// From here on: what the debug pages ask for.

// world returns the one that has a namespace of that name, now or once.
func (m *museum) world(name string) (*world, error) {
	for _, r := range m.rooms {
		if r.namespace == name {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.world != nil {
				return r.world, nil
			}
		}
	}
	return nil, &namespace.Error{Kind: namespace.ErrNotFound, Resource: "namespaces", Name: name, Message: fmt.Sprintf("namespaces %q not found", name)}
}

// Get implements [debug.Namespaces].
func (m *museum) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	w, err := m.world(name)
	if err != nil {
		return namespace.Namespace{}, err
	}
	return w.registry.Get(ctx, name)
}

// Explain implements [debug.Explainer].
func (m *museum) Explain(ctx context.Context, name string) (explain.Diagnosis, error) {
	w, err := m.world(name)
	if err != nil {
		return explain.Diagnosis{}, err
	}
	return w.diagnose(ctx, name)
}

func (m *museum) records(ctx context.Context, name string) ([]audit.Record, error) {
	w, err := m.world(name)
	if err != nil {
		return nil, err
	}
	return w.audit.List(ctx, name)
}

// worlds returns all there are.
func (m *museum) worlds() []*world {
	var all []*world
	for _, r := range m.rooms {
		if w, err := m.world(r.namespace); err == nil {
			all = append(all, w)
		}
	}
	return all
}

// Count implements [debug.Counter].
func (m *museum) Count(ctx context.Context) (active, terminating int, err error) {
	for _, w := range m.worlds() {
		a, t, err := w.registry.Count(ctx)
		if err != nil {
			return 0, 0, err
		}
		active, terminating = active+a, terminating+t
	}
	return active, terminating, nil
}

// Terminating implements [debug.Namespaces]: what is terminating now, in all worlds.
func (m *museum) Terminating(ctx context.Context, _ string) iter.Seq2[namespace.TerminationEvent, error] {
	return func(yield func(namespace.TerminationEvent, error) bool) {
		for _, w := range m.worlds() {
			for event, err := range w.registry.Terminating(ctx, "") {
				if err == nil && event.Type == namespace.EventSynced {
					break
				}
				if !yield(event, err) || err != nil {
					return
				}
			}
		}
		yield(namespace.TerminationEvent{Type: namespace.EventSynced}, nil)
	}
}

// Holds implements [debug.Holds]: what is on hold now, in all worlds.
func (m *museum) Holds(ctx context.Context, _ string) iter.Seq2[declare.HoldEvent, error] {
	return func(yield func(declare.HoldEvent, error) bool) {
		for _, w := range m.worlds() {
			for event, err := range w.registry.Holds(ctx, "") {
				if err == nil && event.Type == declare.HoldsSynced {
					break
				}
				if !yield(event, err) || err != nil {
					return
				}
			}
		}
		yield(declare.HoldEvent{Type: declare.HoldsSynced}, nil)
	}
}
