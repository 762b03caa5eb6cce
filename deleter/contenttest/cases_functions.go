package contenttest

import (
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// empty calls the Delete function.
func (p *probe) empty(target deleter.Target) (remaining int, err error) {
	e, ok := p.Content.(deleter.Emptier)
	if !ok {
		return 0, fmt.Errorf("the backend declares Functions, but %T is not made of deleter.Funcs", p.Content)
	}
	result, err := e.Empty(p.ctx, target)
	if err != nil {
		return 0, fmt.Errorf("Delete failed: %w", err)
	}
	return result.Remaining, nil
}

func checkFunction(p *probe) error {
	target, err := p.seed("function", numbered(30)...)
	if err != nil {
		return err
	}
	for calls := 1; ; calls++ { // the second call as another pass would
		remaining, err := p.empty(target)
		if err != nil {
			return err
		}
		names, err := p.Names(p.ctx, target)
		if err != nil {
			return fmt.Errorf("the backend's Names failed: %w", err)
		}
		if remaining != len(names) {
			return fmt.Errorf("Delete, call %d, returned %d remaining objects, but %d remain", calls, remaining, len(names))
		}
		if remaining == 0 && calls > 1 {
			return nil
		}
		if calls > 100 {
			return fmt.Errorf("after %d calls of Delete %d objects remain", calls, remaining)
		}
	}
}

func checkFunctionHeld(p *probe) error {
	target, err := p.seedObjects("function-held", Object{Name: "free"}, Object{Name: "held", Finalizers: []string{hold}})
	if err != nil {
		return err
	}
	for range 2 {
		if remaining, err := p.empty(target); err != nil || remaining != 1 {
			return fmt.Errorf("Delete should return 1 remaining object, the held one; got %d: %w", remaining, orNil(err))
		}
	}
	if err := p.expectNames(target, "Delete", "held"); err != nil {
		return err
	}
	if err := p.Release(p.ctx, target, "held"); err != nil {
		return fmt.Errorf("the backend's Release failed: %w", err)
	}
	if remaining, err := p.empty(target); err != nil || remaining != 0 {
		return fmt.Errorf("after Release, Delete should return 0 remaining objects; got %d: %w", remaining, orNil(err))
	}
	return p.expectNames(target, "Release and Delete")
}

func checkCount(p *probe) error {
	c, ok := p.Content.(deleter.Counter)
	if !ok {
		return fmt.Errorf("%T has no Count", p.Content)
	}
	counts := func(target deleter.Target, want int) error {
		for _, target := range []deleter.Target{target, undated(target)} {
			n, err := c.Count(p.ctx, target)
			if err != nil || n != want {
				return fmt.Errorf("the count of namespace %s should return %d, got %d: %w", target.Namespace, want, n, orNil(err))
			}
		}
		return nil
	}
	if _, err := p.seed("counted-2", "neighbour"); err != nil {
		return err
	}
	names := numbered(7)
	target, err := p.seed("counted", names...)
	if err != nil {
		return err
	}
	if err := counts(target, len(names)); err != nil {
		return err
	}
	if p.SeedActive != nil {
		active, err := p.SeedActive(p.ctx, "counted-active", plainObjects(names...)...)
		if err != nil {
			return fmt.Errorf("the backend's SeedActive failed: %w", err)
		}
		if err := counts(active, len(names)); err != nil {
			return err
		}
	}
	if err := p.expectNames(target, "Count", names...); err != nil {
		return err
	}
	again, err := p.seed("counted")
	if err != nil {
		return err
	}
	if err := counts(again, 0); err != nil {
		return err
	}
	for _, target := range []deleter.Target{target, undated(target)} {
		if n, err := c.Count(p.ctx, target); !errors.Is(err, deleter.ErrIncarnation) {
			return fmt.Errorf("the count of the old incarnation should fail with ErrIncarnation, got %d: %w", n, orNil(err))
		}
	}
	return nil
}
