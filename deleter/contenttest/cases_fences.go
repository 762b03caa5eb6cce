package contenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// everything calls every deleting operation for target and returns their errors.
func (p *probe) everything(target deleter.Target, names ...string) []error {
	var errs []error
	if p.Functions {
		for before := -1; ; {
			remaining, err := p.empty(target)
			if err != nil || remaining == 0 || remaining == before {
				return []error{err}
			}
			before = remaining
		}
	}
	for _, name := range names {
		errs = append(errs, p.Content.Delete(p.ctx, target, name, ""))
	}
	if p.Collections {
		_, err := p.collect(target)
		errs = append(errs, err)
	}
	return errs
}

func checkOtherNamespaces(p *probe) error {
	names := []string{"apple", "banana"}
	others := map[string]deleter.Target{}
	for _, name := range []string{"team", "team-a-2", "team-aa", "a"} {
		target, err := p.seed(name, names...)
		if err != nil {
			return err
		}
		others[name] = target
	}
	target, err := p.seed("team-a", names...)
	if err != nil {
		return err
	}
	if _, err := p.lists(target, 0, names...); lists(p.Backend) && err != nil {
		return fmt.Errorf("with the same names in other namespaces: %w", err)
	}
	if err := errors.Join(p.everything(target, names...)...); err != nil {
		return err
	}
	if err := p.expectNames(target, "its deletion"); err != nil {
		return err
	}
	for _, other := range others {
		if err := p.expectNames(other, "deletion in namespace team-a", names...); err != nil {
			return err
		}
	}
	return nil
}

func checkOtherIncarnations(p *probe) error {
	old, err := p.seed("again", "apple", "banana")
	if err != nil {
		return err
	}
	if err := errors.Join(p.everything(old, "apple", "banana")...); err != nil {
		return err
	}
	now, err := p.seed("again", "apple", "cherry")
	if err != nil {
		return err
	}
	if now.UID == old.UID {
		return fmt.Errorf("the backend's Seed returned the same uid %q for two incarnations", now.UID)
	}
	items, err := p.list(old, 0)
	if !lists(p.Backend) {
		err = nil
	}
	if err == nil && len(items) > 0 {
		return fmt.Errorf("List of the old incarnation returned objects of the new one: %+v", items)
	}
	if err != nil && !errors.Is(err, deleter.ErrIncarnation) {
		return fmt.Errorf("List of the old incarnation should fail with ErrIncarnation or return nothing, got: %w", err)
	}
	for _, err := range p.everything(old, "apple", "cherry") {
		if err != nil && !errors.Is(err, deleter.ErrIncarnation) {
			return fmt.Errorf("deletion in the old incarnation should fail with ErrIncarnation or do nothing, got: %w", err)
		}
	}
	return p.expectNames(now, "deletion for the old incarnation", "apple", "cherry")
}

func checkActive(p *probe) error {
	target, err := p.SeedActive(p.ctx, "in-use", plainObjects("apple", "banana")...)
	if err != nil {
		return fmt.Errorf("the backend's SeedActive failed: %w", err)
	}
	if _, err := p.list(target, 0); objects(p.Backend) && !errors.Is(err, deleter.ErrIncarnation) {
		return fmt.Errorf("List in an Active namespace should fail with ErrIncarnation, got: %w", orNil(err))
	}
	for _, err := range p.everything(target, "apple") {
		if !errors.Is(err, deleter.ErrIncarnation) {
			return fmt.Errorf("deletion in an Active namespace should fail with ErrIncarnation, got: %w", orNil(err))
		}
	}
	return p.expectNames(target, "deletion in an Active namespace", "apple", "banana")
}

// badTargets returns invalid targets, by their defect.
func badTargets(good deleter.Target) map[string]deleter.Target {
	bad := map[string]deleter.Target{"zero": {}}
	for name, namespace := range map[string]string{
		"no namespace": "", "a path": good.Namespace + "/..", "a parent": "..", "invalid UTF-8": "a\xff",
		"a line break": "a\n", "oversized": strings.Repeat("a", 1<<16),
	} {
		target := good
		target.Namespace = namespace
		bad[name] = target
	}
	noUID, notDeleted := good, good
	noUID.UID = ""
	notDeleted.DeletedAt = time.Time{}
	bad["no uid"], bad["no deletion time"] = noUID, notDeleted
	return bad
}

func checkBadInput(p *probe) error {
	good, err := p.seed("good", "apple", "banana")
	if err != nil {
		return err
	}
	for name, target := range badTargets(good) {
		if _, err := p.Content.List(p.ctx, target, 0, ""); !errors.Is(err, deleter.ErrInvalid) {
			return fmt.Errorf("List with a bad target (%s) should fail with ErrInvalid, got: %w", name, orNil(err))
		}
		for _, err := range p.everything(target, "apple") {
			if !errors.Is(err, deleter.ErrInvalid) {
				return fmt.Errorf("deletion with a bad target (%s) should fail with ErrInvalid, got: %w", name, orNil(err))
			}
		}
	}
	if _, err := p.Content.List(p.ctx, good, -1, ""); !errors.Is(err, deleter.ErrInvalid) {
		return fmt.Errorf("List with limit -1 should fail with ErrInvalid, got: %w", orNil(err))
	}
	_, err = p.Content.List(p.ctx, good, 0, "\xff no token at all /../")
	if !errors.Is(err, deleter.ErrInvalid) && !errors.Is(err, deleter.ErrExpired) {
		return fmt.Errorf("List with a token that never was should fail with ErrInvalid or ErrExpired, got: %w", orNil(err))
	}
	if err := p.Content.Delete(p.ctx, good, "", ""); !errors.Is(err, deleter.ErrInvalid) {
		return fmt.Errorf("Delete of an object without a name should fail with ErrInvalid, got: %w", orNil(err))
	}
	for _, name := range []string{".", "..", "../good/apple", "a/b", "apple/", "%", "*", "apple\x00", "a\xff", strings.Repeat("a", 1<<16)} {
		// Whether Delete refuses it or finds nothing, no object may go.
		_ = p.Content.Delete(p.ctx, good, name, "")
	}
	return p.expectNames(good, "bad input", "apple", "banana")
}

func checkCancelled(p *probe) error {
	target, err := p.seed("cancelled", "apple", "banana")
	if err != nil {
		return err
	}
	cause := errors.New("the pass was stopped")
	ctx, cancel := context.WithCancelCause(p.ctx)
	cancel(cause)
	stopped := &probe{Backend: p.Backend, ctx: ctx}
	errs := stopped.everything(target, "apple")
	if lists(p.Backend) {
		_, err := stopped.list(target, 0)
		errs = append(errs, err)
	}
	if p.Notifies {
		errs = append(errs, stopped.wait(target, "", 0))
	}
	for _, err := range errs {
		if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("a call with a context that has ended should fail with its cause, got: %w", orNil(err))
		}
	}
	return p.expectNames(target, "calls with a context that has ended", "apple", "banana")
}

func checkAtOnce(p *probe) error {
	names := numbered(40)
	target, err := p.seed("at-once", names...)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		group.Go(func() {
			if p.Functions {
				errs <- errors.Join(p.everything(target)...)
			} else {
				errs <- p.listAndDelete(target)
			}
		})
		if p.Collections {
			group.Go(func() {
				_, err := p.collect(target)
				errs <- err
			})
		}
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return fmt.Errorf("with several passes at once: %w", err)
		}
	}
	if err := errors.Join(p.everything(target, names...)...); err != nil {
		return err
	}
	return p.expectNames(target, "several passes at once")
}

// listAndDelete deletes all objects one by one, unless the listing expires.
func (p *probe) listAndDelete(target deleter.Target) error {
	items, err := p.list(target, 7)
	if errors.Is(err, deleter.ErrExpired) {
		return nil
	}
	for _, item := range items {
		if err := p.deletes(target, item.Name, item.UID); err != nil {
			return err
		}
	}
	return err
}

func checkComposed(p *probe) error {
	names := numbered(30)
	target, err := p.seed("composed", names...)
	if err != nil {
		return err
	}
	things := namespace.ResourceType{Name: "things"}
	d, err := deleter.New([]deleter.Source{{Resource: things, Content: p.Content}}, &deleter.Options{PageSize: 7})
	if err != nil {
		return err
	}
	var report deleter.Report
	// More than one pass only if the content takes long to go.
	for passes := 0; passes == 0 || !report.Empty(); passes++ {
		report, err = d.Delete(p.ctx, target, report)
		if err != nil {
			return fmt.Errorf("pass %d of a composed deleter failed: %w", passes+1, err)
		}
		if passes > 100 {
			return fmt.Errorf("after %d passes of a composed deleter %d objects remain", passes, report.Remaining())
		}
	}
	return p.expectNames(target, "the passes of a composed deleter")
}
