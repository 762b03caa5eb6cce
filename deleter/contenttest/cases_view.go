package contenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nslifecycle/nslifecycle/deleter"
)

func views(b Backend) bool { return b.Views }

func (p *probe) viewer() (deleter.Viewer, error) {
	v, ok := p.Content.(deleter.Viewer)
	if !ok {
		return nil, fmt.Errorf("%T has no View", p.Content)
	}
	return v, nil
}

// view reads all pages of at most limit objects.
func (p *probe) view(target deleter.Target, limit int) ([]deleter.Item, error) {
	v, err := p.viewer()
	if err != nil {
		return nil, err
	}
	return p.pages("View", v.View, target, limit)
}

// undated returns target without the time of deletion, as in a preview.
func undated(target deleter.Target) deleter.Target {
	target.DeletedAt = time.Time{}
	return target
}

// checkView views namespaces of either phase, with and without the time of deletion.
func checkView(p *probe) error {
	want := numbered(7)
	seeds := map[string]func() (deleter.Target, error){
		"a terminating namespace": func() (deleter.Target, error) { return p.seed("viewed", want...) },
		"an empty namespace":      func() (deleter.Target, error) { return p.seed("viewed-empty") },
	}
	if p.SeedActive != nil {
		seeds["an Active namespace"] = func() (deleter.Target, error) {
			target, err := p.SeedActive(p.ctx, "viewed-active", plainObjects(want...)...)
			if err != nil {
				return target, fmt.Errorf("the backend's SeedActive failed: %w", err)
			}
			return target, nil
		}
	}
	if _, err := p.seed("viewed-2", "neighbour"); err != nil {
		return err
	}
	for name, seed := range seeds {
		target, err := seed()
		if err != nil {
			return err
		}
		names := want
		if target.Namespace == "viewed-empty" {
			names = nil
		}
		for _, at := range []deleter.Target{target, undated(target)} {
			if err := p.views(at, names); err != nil {
				return fmt.Errorf("%s, deletion time %v: %w", name, at.DeletedAt, err)
			}
		}
		if err := p.expectNames(target, "a view", names...); err != nil {
			return err
		}
	}
	return nil
}

// views checks a view, in one page and in small ones.
func (p *probe) views(target deleter.Target, want []string) error {
	for _, limit := range []int{0, 3} {
		items, err := p.view(target, limit)
		if err != nil {
			return err
		}
		names := []string{}
		for _, item := range items {
			names = append(names, item.Name)
			if p.UIDs != (item.UID != "") {
				return fmt.Errorf("the backend declares UIDs: %t, but %s is viewed with uid %q", p.UIDs, item.Name, item.UID)
			}
			if item.Deleting {
				return fmt.Errorf("%s is viewed as being deleted, but its deletion was never requested", item.Name)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff(append([]string{}, want...), names); diff != "" {
			return fmt.Errorf("View with limit %d should return (-) but returned (+):\n%s", limit, diff)
		}
	}
	return nil
}

// checkViewHeld checks that views have finalizers, which inventories need.
func checkViewHeld(p *probe) error {
	target, err := p.seedObjects("viewed-held", Object{Name: "held", Finalizers: []string{hold}})
	if err != nil {
		return err
	}
	if err := errors.Join(p.everything(target, "held")...); err != nil {
		return err
	}
	items, err := p.view(undated(target), 0)
	if err != nil {
		return err
	}
	if len(items) != 1 || !items[0].Deleting || !slices.Contains(items[0].Finalizers, hold) {
		return fmt.Errorf("View should show one object that is being deleted and held by %s, got: %+v", hold, items)
	}
	return nil
}

func checkViewOtherIncarnations(p *probe) error {
	old, err := p.seed("viewed-again", "apple")
	if err != nil {
		return err
	}
	if err := errors.Join(p.everything(old, "apple")...); err != nil {
		return err
	}
	if _, err := p.seed("viewed-again", "banana"); err != nil {
		return err
	}
	for _, target := range []deleter.Target{old, undated(old)} {
		if items, err := p.view(target, 0); !errors.Is(err, deleter.ErrIncarnation) {
			return fmt.Errorf("View of the old incarnation should fail with ErrIncarnation, got %d objects and: %w", len(items), orNil(err))
		}
	}
	return nil
}

func checkViewNoIncarnation(p *probe) error {
	target, err := p.seed("viewed-existing", "apple")
	if err != nil {
		return err
	}
	target.Namespace = "viewed-never"
	for _, target := range []deleter.Target{target, undated(target)} {
		if items, err := p.view(target, 0); !errors.Is(err, deleter.ErrIncarnation) {
			return fmt.Errorf("View of a namespace that does not exist should fail with ErrIncarnation, got %d objects and: %w", len(items), orNil(err))
		}
	}
	return nil
}

func checkViewBadInput(p *probe) error {
	good, err := p.seed("viewed-good", "apple")
	if err != nil {
		return err
	}
	v, err := p.viewer()
	if err != nil {
		return err
	}
	for name, target := range badTargets(good) {
		if name == "no deletion time" {
			continue // it may be Active
		}
		if _, err := v.View(p.ctx, target, 0, ""); !errors.Is(err, deleter.ErrInvalid) {
			return fmt.Errorf("View with a bad target (%s) should fail with ErrInvalid, got: %w", name, orNil(err))
		}
	}
	if _, err := v.View(p.ctx, good, -1, ""); !errors.Is(err, deleter.ErrInvalid) {
		return fmt.Errorf("View with limit -1 should fail with ErrInvalid, got: %w", orNil(err))
	}
	if _, err := v.View(p.ctx, good, 0, "\xff no token at all /../"); !errors.Is(err, deleter.ErrInvalid) && !errors.Is(err, deleter.ErrExpired) {
		return fmt.Errorf("View with a token that never was should fail with ErrInvalid or ErrExpired, got: %w", orNil(err))
	}
	ended, cancel := context.WithCancelCause(p.ctx)
	cancel(errEnded)
	if _, err := v.View(ended, good, 0, ""); !errors.Is(err, errEnded) {
		return fmt.Errorf("View with a context that has ended should fail with its cause, got: %w", orNil(err))
	}
	return nil
}

// errEnded is why a context of a case has ended.
var errEnded = errors.New("the case has ended it")
