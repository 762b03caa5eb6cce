package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// held is a finalizer of documents that an auditor has to look at before they go.
const held finalizer.Name = "audit.example.com/copy"

// story is one telling.
type story struct {
	backend
	say      *timeline
	registry *registry.Registry
	record   *record
	crew     map[string]*process
	patience time.Duration // of the replicas
	tenants  []string
}

// limit is how long a story may take; it takes some seconds, and is ended rather than
// left hanging when something is wrong with the store.
const limit = 2 * time.Minute

func tell(ctx context.Context, say *timeline, b backend, tenants int) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the story takes too long"))
	defer cancel()
	opened, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	r, err := registry.New(opened, &registry.Options{Types: types})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t := &story{backend: b, say: say, registry: r, record: newRecord(), crew: map[string]*process{}, patience: patience}
	for i := range tenants {
		t.tenants = append(t.tenants, fmt.Sprintf("tenant-%04d", i))
	}
	defer func() {
		for _, p := range t.crew { // none is left when all went well
			p.kill()
		}
	}()
	for _, act := range []func(context.Context) error{t.prepare, t.fill, t.killOne, t.takeOver, t.finish} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hear takes up what a replica says, and tells of what matters.
func (t *story) hear(s said) {
	t.record.add(s)
	switch s.Message {
	case saidMembers:
		t.say.line("replica %s: members it knows of: %d", s.Replica, s.Members)
	case saidLapsed:
		t.say.line("replica %s: owns nothing from now on: %s", s.Replica, s.Why)
	case saidExpelled:
		t.say.line("replica %s: replica %s has been silent for %v, it is expelled", s.Replica, s.Member, t.patience)
	case saidFailed:
		t.say.line("replica %s: a call failed: %s", s.Replica, s.Why)
	case saidDivided:
		t.say.line("replica %s: takes over %d tenants that are terminating, hands over %d", s.Replica, s.Taken, s.Left)
	}
}

var crew = []string{"a", "b", "c"}

// prepare starts the replicas. They also finish with what an earlier story left in a
// store that is not new.
func (t *story) prepare(ctx context.Context) error {
	for _, name := range crew {
		p, err := launch(t.backend, name, nil, t.hear)
		if err != nil {
			return err
		}
		t.crew[name] = p
		t.say.line("replica %s: started, process %d", name, p.cmd.Process.Pid)
		go func() {
			<-p.ended
			<-p.heard
			t.record.lost(name)
		}()
	}
	if err := t.record.group(ctx, len(crew)); err != nil {
		return errors.Join(err, t.faults())
	}
	list, err := t.registry.List(ctx, registry.ListOptions{})
	if err != nil {
		return err
	}
	group, discarding := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, ns := range list.Items {
		group.Go(func() error { return t.discard(discarding, ns.Name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		t.say.line("deleted %d tenants that an earlier story had left", len(list.Items))
	}
	return nil
}

// faults tells what replicas died of.
func (t *story) faults() error {
	var errs []error
	for _, p := range t.crew {
		select {
		case <-p.ended:
			errs = append(errs, fmt.Errorf("replica %s: %s", p.name, p.fault.String()))
		default:
		}
	}
	return errors.Join(errs...)
}

// discard removes a tenant for good.
func (t *story) discard(ctx context.Context, name string) error {
	if _, err := t.registry.Delete(ctx, name, namespace.Preconditions{}); errors.Is(err, namespace.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	if err := t.audit(ctx, name); err != nil {
		return err
	}
	return t.gone(ctx, name)
}

// gone waits until a tenant is gone.
func (t *story) gone(ctx context.Context, name string) error {
	ns, err := t.registry.Get(ctx, name)
	if errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.registry.WaitRemoved(ctx, name, ns.UID)
}

// writers is how many requests the story makes at the same time.
const writers = 16

// each does the same for all tenants, or for those of which every n-th is one.
func (t *story) each(ctx context.Context, n int, do func(ctx context.Context, name string, number int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := 0; i < len(t.tenants); i += n {
		group.Go(func() error { return do(ctx, t.tenants[i], i) })
	}
	return group.Wait()
}

// One of so many tenants has a document that the auditor holds.
const audited = 3

// fill creates the tenants with two objects of each type.
func (t *story) fill(ctx context.Context) error {
	err := t.each(ctx, 1, func(ctx context.Context, name string, number int) error {
		return fillTenant(ctx, t.registry, name, number%audited == 0)
	})
	if err != nil {
		return err
	}
	t.say.line("%d tenants created, with %d objects of %d types; an auditor holds %d of them",
		len(t.tenants), 2*len(types)*len(t.tenants), len(types), t.held())
	return nil
}

func (t *story) held() int { return (len(t.tenants) + audited - 1) / audited }

func fillTenant(ctx context.Context, r *registry.Registry, name string, hold bool) error {
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}}); err != nil {
		return err
	}
	for i, typ := range types {
		content, err := r.Content(typ.Name())
		if err != nil {
			return err
		}
		for j := range 2 {
			o := registry.Object{
				Meta:   namespace.Meta{Name: fmt.Sprintf("%s-%d", typ.Resource, j)},
				Fields: map[string]json.RawMessage{"data": json.RawMessage(`{"of":"` + name + `"}`)},
			}
			if hold && i+j == 0 {
				o.Finalizers = finalizer.NewSet(held)
			}
			if _, err := content.Create(ctx, name, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// killOne deletes all tenants, and kills a replica in the midst of the work.
func (t *story) killOne(ctx context.Context) error {
	t.say.line("DELETE all %d tenants", len(t.tenants))
	group, deleting := errgroup.WithContext(ctx)
	group.Go(func() error {
		return t.each(deleting, 1, func(ctx context.Context, name string, _ int) error {
			_, err := t.registry.Delete(ctx, name, namespace.Preconditions{})
			return err
		})
	})
	third := len(t.tenants) / 3
	err := t.record.await(ctx, "a third of the tenants is gone", func() bool { return total(t.record.emptied) >= third })
	if err != nil {
		return errors.Join(err, group.Wait())
	}
	t.dismiss("b").kill()
	t.say.line("replica b: killed (kill -9) when %d tenants were gone", third)
	return group.Wait()
}

// dismiss takes a replica from the crew.
func (t *story) dismiss(name string) *process {
	p := t.crew[name]
	delete(t.crew, name)
	return p
}

// takeOver waits until the others have done the work of the one that died, and then
// lets the auditor finish.
func (t *story) takeOver(ctx context.Context) error {
	killed := time.Now()
	if err := t.record.group(ctx, len(crew)-1); err != nil {
		return err
	}
	t.say.line("its share has new owners, %.1f s after its death; the bound is %v and what the store takes",
		time.Since(killed).Seconds(), patience+beat)
	err := t.each(ctx, 1, func(ctx context.Context, name string, number int) error {
		if number%audited == 0 {
			return nil
		}
		return t.gone(ctx, name)
	})
	if err != nil {
		return err
	}
	t.say.line("all tenants are gone but the %d that the auditor holds", t.held())
	err = t.each(ctx, audited, func(ctx context.Context, name string, _ int) error { return t.audit(ctx, name) })
	if err != nil {
		return err
	}
	t.say.line("auditor: the documents are copied, their finalizer goes")
	if err := t.each(ctx, audited, func(ctx context.Context, name string, _ int) error { return t.gone(ctx, name) }); err != nil {
		return err
	}
	t.say.line("all tenants are gone")
	return nil
}

// audit takes the auditor's finalizer from the document of a tenant.
func (t *story) audit(ctx context.Context, name string) error {
	documents, err := t.registry.Content(types[0].Name())
	if err != nil {
		return err
	}
	return release(ctx, documents, name)
}

func release(ctx context.Context, documents *registry.Content, tenant string) error {
	o, err := documents.Get(ctx, tenant, types[0].Resource+"-0")
	if errors.Is(err, namespace.ErrNotFound) || err == nil && !o.Finalizers.Has(held) {
		return nil
	}
	if err != nil {
		return err
	}
	o.Finalizers = o.Finalizers.Without(held)
	o.ResourceVersion = "" // whatever else changed in it meanwhile
	if _, err = documents.Update(ctx, tenant, o); errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	return err
}

// finish lets the replicas leave one after another, and sums up.
func (t *story) finish(ctx context.Context) error {
	for _, name := range []string{"a", "c"} {
		if err := t.dismiss(name).stop(ctx); err != nil {
			return err
		}
		t.say.line("replica %s: has left", name)
	}
	left := 0
	for _, typ := range types {
		content, err := t.registry.Content(typ.Name())
		if err != nil {
			return err
		}
		list, err := content.List(ctx, "", registry.ListOptions{})
		if err != nil {
			return err
		}
		left += len(list.Items)
	}
	passes, double := t.record.figures()
	t.say.line("tenants emptied: %s; by b in the moment of its death: %d", shares(t.record.emptied), len(t.tenants)-total(t.record.emptied))
	t.say.line("calls to content: %s; at most %d for one type of one tenant", shares(t.record.calls), t.record.types)
	t.say.line("passes: %d; beside another of the same tenant: %d", passes, len(double))
	t.say.line("content left behind: %d objects", left)
	return nil
}
