package contenttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

func checkCollection(p *probe) error {
	names := numbered(50)
	target, err := p.seed("collection", names...)
	if err != nil {
		return err
	}
	deleted, err := p.collect(target)
	if err != nil {
		return err
	}
	if deleted >= 0 && deleted != len(names) {
		return fmt.Errorf("DeleteCollection counted %d deletions of %d objects", deleted, len(names))
	}
	if err := p.expectNames(target, "DeleteCollection"); err != nil {
		return err
	}
	deleted, err = p.collect(target)
	if err != nil {
		return err
	}
	if deleted > 0 {
		return fmt.Errorf("DeleteCollection of nothing counted %d deletions", deleted)
	}
	return nil
}

func checkCollectionHeld(p *probe) error {
	target, err := p.seedObjects("held-collection", Object{Name: "free"}, Object{Name: "held", Finalizers: []string{hold}})
	if err != nil {
		return err
	}
	if deleted, err := p.collect(target); err != nil || deleted >= 0 && deleted != 2 {
		return fmt.Errorf("DeleteCollection of one object and one that is held should count 2, got %d: %w", deleted, orNil(err))
	}
	items, err := p.lists(target, 0, "held")
	if err != nil {
		return err
	}
	if !items[0].Deleting {
		return fmt.Errorf("after DeleteCollection the held object should be listed as Deleting, but is %+v", items[0])
	}
	if deleted, err := p.collect(target); err != nil || deleted > 0 {
		return fmt.Errorf("DeleteCollection should not count a held object again, got %d: %w", deleted, orNil(err))
	}
	return p.expectNames(target, "DeleteCollection", "held")
}

// seedWaiting makes a namespace with one held object that is being deleted, and
// returns the mark of a listing that has it.
func (p *probe) seedWaiting(namespace string) (deleter.Target, string, error) {
	target, err := p.seedObjects(namespace, Object{Name: "held", Finalizers: []string{hold}}, Object{Name: "other", Finalizers: []string{hold}})
	if err != nil {
		return target, "", err
	}
	for _, name := range []string{"held", "other"} {
		if err := p.deletes(target, name, ""); err != nil {
			return target, "", err
		}
	}
	seen, err := p.seen(target)
	return target, seen, err
}

func checkWaitBefore(p *probe) error {
	target, seen, err := p.seedWaiting("gone-before")
	if err != nil {
		return err
	}
	if err := p.Release(p.ctx, target, "held"); err != nil {
		return fmt.Errorf("the backend's Release failed: %w", err)
	}
	if err := p.wait(target, seen, 0); err != nil {
		return fmt.Errorf("Wait should return nil, since an object went after the listing; got: %w", err)
	}
	return nil
}

// observedContext is a context that closes waiting when a caller is about to wait for its end.
type observedContext struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (t *observedContext) Done() <-chan struct{} {
	t.once.Do(func() { close(t.waiting) })
	return t.Context.Done()
}

func checkWaitAfter(p *probe) error {
	target, seen, err := p.seedWaiting("goes-after")
	if err != nil {
		return err
	}
	begun := &observedContext{Context: p.ctx, waiting: make(chan struct{})}
	waiting := &probe{Backend: p.Backend, ctx: begun}
	woken := make(chan error, 1)
	go func() { woken <- waiting.wait(target, seen, 0) }()
	select {
	case <-begun.waiting:
	case err := <-woken:
		return fmt.Errorf("Wait should not return before anything has gone; got: %w", orNil(err))
	}
	if err := p.Release(p.ctx, target, "held"); err != nil {
		return fmt.Errorf("the backend's Release failed: %w", err)
	}
	if err := <-woken; err != nil {
		return fmt.Errorf("Wait should return nil when an object goes; got: %w", err)
	}
	return nil
}

func checkWaitEnds(p *probe) error {
	target, seen, err := p.seedWaiting("stays")
	if err != nil {
		return err
	}
	// A neighbour's object that goes is no reason to wake.
	neighbour, _, err := p.seedWaiting("stays-2")
	if err != nil {
		return err
	}
	if err := p.Release(p.ctx, neighbour, "held"); err != nil {
		return fmt.Errorf("the backend's Release failed: %w", err)
	}
	if err := p.wait(target, seen, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("Wait should end with its context, since nothing went; got: %w", orNil(err))
	}
	return nil
}

func checkEstimate(p *probe) error {
	e, ok := p.Content.(deleter.Estimator)
	if !ok {
		return fmt.Errorf("%T has no Estimate", p.Content)
	}
	objects := plainObjects("apple")
	if p.Release != nil {
		objects = append(objects, Object{Name: "held", Finalizers: []string{hold}})
	}
	for _, objects := range [][]Object{nil, objects} {
		target, err := p.seedObjects("estimate", objects...)
		if err != nil {
			return err
		}
		for _, when := range []string{"before", "after"} {
			estimate, err := e.Estimate(p.ctx, target)
			if err != nil {
				return fmt.Errorf("Estimate %s the deletion of %d objects failed: %w", when, len(objects), err)
			}
			if estimate < 0 {
				return fmt.Errorf("Estimate %s the deletion of %d objects returned %v", when, len(objects), estimate)
			}
			for _, o := range objects {
				if err := p.deletes(target, o.Name, ""); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
