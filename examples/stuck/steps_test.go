package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// verb is a command of the scenario language.
type verb struct {
	do          func(w *world, words []string) error
	least, most int // number of words; -1: unlimited
}

// verbs are documented in testdata/scenarios/README. A [player] performs those without do.
var verbs = map[string]verb{
	"agent":     {(*world).agent, 3, -1},
	"start":     {(*world).startAgent, 1, 1},
	"stop":      {(*world).stopAgent, 1, 1},
	"crash":     {(*world).crash, 1, 1},
	"elsewhere": {(*world).elsewhere, 1, 3},
	"order":     {(*world).order, 3, 3},
	"create":    {(*world).create, 1, -1},
	"put":       {(*world).put, 3, 5},
	"delete":    {(*world).delete, 1, 1},
	"release":   {(*world).release, 2, 2},
	"letgo":     {(*world).letGo, 2, 2},
	"fail":      {(*world).fail, 2, 2},
	"hang":      {(*world).hang, 1, 1},
	"heal":      {(*world).heal, 1, 1},
	"hide":      {(*world).hide, 2, 2},
	"show":      {(*world).show, 1, 1},
	"rival":     {(*world).rival, 1, 1},
	"retire":    {(*world).retire, 1, 1},
	"intrude":   {(*world).intrude, 3, 3},
	"protect":   {(*world).protect, 4, 4},
	"unprotect": {(*world).unprotect, 2, 2},
	"grace":     {(*world).grace, 2, 2},
	"restore":   {(*world).restore, 1, 1},
	"waive":     {(*world).waive, 5, 5},
	"force":     {(*world).force, 4, 4},
	"sweep":     {(*world).sweep, 3, 3},
	"wait":      {(*world).wait, 1, 1},
	"outsider":  {(*world).outsider, 0, 0},
	"gone":      {(*world).gone, 1, 1},
	"active":    {(*world).active, 1, 1},
	"left":      {(*world).left, 3, 3},
	refused:     {nil, 2, -1},
	planned:     {nil, 1, 1},
	explained:   {nil, 1, 1},
}

// agent FINALIZER CONTACT TYPE...
func (w *world) agent(words []string) error {
	a, err := w.newAgent(finalizer.Name(words[0]), words[1], words[2:])
	if err == nil {
		w.agents[a.finalizer] = a
	}
	return err
}

func (w *world) startAgent(words []string) error {
	a, err := w.agentOf(words[0])
	if err != nil {
		return err
	}
	return w.start(a)
}

func (w *world) stopAgent(words []string) error {
	a, err := w.agentOf(words[0])
	if err == nil {
		a.end(false)
	}
	return err
}

// crash FINALIZER stops the agent without withdrawing its announcement.
func (w *world) crash(words []string) error {
	a, err := w.agentOf(words[0])
	if err == nil {
		a.end(true)
	}
	return err
}

func (w *world) agentOf(f string) (*agent, error) {
	if a := w.agents[finalizer.Name(f)]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("there is no agent of %q", f)
}

// elsewhere TYPE [pace N|returning]
func (w *world) elsewhere(words []string) error {
	f, err := w.source(words[0])
	if err != nil {
		return err
	}
	if f.outside == nil {
		f.outside = newOutside(w.registry)
	}
	o := f.outside
	switch strings.Join(words[1:min(2, len(words))], "") {
	case "":
		o.behave(0, false)
	case "returning":
		o.behave(0, true)
	case "pace":
		pace, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			return err
		}
		o.behave(pace, false)
	default:
		return fmt.Errorf("a type can be returning, or have a pace, but not be %q", words[1])
	}
	return nil
}

// order TYPE after TYPE
func (w *world) order(words []string) error {
	for _, name := range []string{words[0], words[2]} {
		if _, err := w.source(name); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after[resource(words[0])] = append(w.after[resource(words[0])], resource(words[2]))
	return nil
}

// create NAMESPACE [FINALIZER...]
func (w *world) create(words []string) error {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: words[0]}}
	for _, f := range words[1:] {
		ns.Spec.Finalizers = ns.Spec.Finalizers.With(finalizer.Name(f))
	}
	_, err := w.registry.Create(w.ctx, ns)
	return err
}

// put NAMESPACE TYPE N [held-by FINALIZER]
func (w *world) put(words []string) error {
	f, err := w.source(words[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	if o := f.outside; o != nil {
		o.add(words[0], n)
		return nil
	}
	objects, err := w.registry.Content(resource(words[1]))
	if err != nil {
		return err
	}
	for i := range n {
		var o registry.Object
		o.Name = fmt.Sprintf("%s-%d", objects.Type().Resource, i)
		if len(words) == 5 {
			o.Name = fmt.Sprintf("held-%d", i)
			o.Finalizers = finalizer.NewSet(finalizer.Name(words[4]))
		}
		if _, err := objects.Create(w.ctx, words[0], o); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) delete(words []string) error {
	_, err := w.registry.Delete(w.ctx, words[0], namespace.Preconditions{})
	return err
}

// release NAMESPACE TYPE removes the finalizers of the objects.
func (w *world) release(words []string) error {
	objects, err := w.registry.Content(resource(words[1]))
	if err != nil {
		return err
	}
	list, err := objects.List(w.ctx, words[0], registry.ListOptions{})
	for _, o := range list.Items {
		o.Finalizers = finalizer.Set{}
		if _, err := objects.Update(w.ctx, words[0], o); err != nil {
			return err
		}
	}
	return err
}

// letGo NAMESPACE FINALIZER
func (w *world) letGo(words []string) error {
	for {
		ns, err := w.registry.Get(w.ctx, words[0])
		if err != nil {
			return err
		}
		ns.Spec.Finalizers = ns.Spec.Finalizers.Without(finalizer.Name(words[1]))
		if _, err = w.registry.Finalize(w.ctx, ns); !errors.Is(err, namespace.ErrConflict) {
			return err
		}
	}
}

// fail TYPE TEXT
func (w *world) fail(words []string) error {
	f, err := w.source(words[0])
	if err == nil {
		f.set(errors.New(words[1]), false)
	}
	return err
}

func (w *world) hang(words []string) error {
	f, err := w.source(words[0])
	if err == nil {
		f.set(nil, true)
	}
	return err
}

func (w *world) heal(words []string) error {
	f, err := w.source(words[0])
	if err == nil {
		f.set(nil, false)
	}
	return err
}

// hide GROUP TEXT
func (w *world) hide(words []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden[words[0]] = errors.New(words[1])
	return nil
}

func (w *world) show(words []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hidden, words[0])
	return nil
}

func (w *world) rival(words []string) error  { w.contest(words[0], true); return nil }
func (w *world) retire(words []string) error { w.contest(words[0], false); return nil }

func (w *world) contest(name string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rivals[name] = on
}

// intrude NAMESPACE TYPE INTERVAL
func (w *world) intrude(words []string) error {
	objects, err := w.registry.Content(resource(words[1]))
	if err != nil {
		return err
	}
	every, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	w.beside(func(ctx context.Context) {
		for backoff.Sleep(ctx, every) == nil {
			var o registry.Object
			o.GenerateName = "intruder-"
			_, _ = objects.Create(ctx, words[0], o) // ignore the answer
		}
	})
	return nil
}

// wait DURATION
func (w *world) wait(words []string) error {
	d, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	return backoff.Sleep(w.ctx, d)
}

// outsider makes later explanations use the namespace only.
func (w *world) outsider([]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.explain = explain.New(w.registry, nil)
	return nil
}

// gone waits until the namespace is removed.
func (w *world) gone(words []string) error {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
	defer cancel()
	ns, err := w.registry.Get(ctx, words[0])
	if errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.registry.WaitRemoved(ctx, ns.Name, ns.UID)
}

// active NAMESPACE
func (w *world) active(words []string) error {
	ns, err := w.registry.Get(w.ctx, words[0])
	if err == nil && !ns.DeletionTimestamp.IsZero() {
		err = errors.New("it is terminating")
	}
	return err
}

// left NAMESPACE TYPE N
func (w *world) left(words []string) error {
	f, err := w.source(words[1])
	if err != nil {
		return err
	}
	n := 0
	if o := f.outside; o != nil {
		n = o.count(words[0])
	} else if n, err = w.count(words[0], words[1]); err != nil {
		return err
	}
	if strconv.Itoa(n) != words[2] {
		return fmt.Errorf("%d are left", n)
	}
	return nil
}

func (w *world) count(ns, name string) (int, error) {
	objects, err := w.registry.Content(resource(name))
	if err != nil {
		return 0, err
	}
	list, err := objects.List(w.ctx, ns, registry.ListOptions{})
	return len(list.Items), err
}
