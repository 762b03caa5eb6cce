package contenttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// hold is the finalizer of held objects in cases.
const hold = "contenttest.example.com/hold"

// probe adds helpers for cases to a backend.
type probe struct {
	Backend
	ctx context.Context
}

func plainObjects(names ...string) []Object {
	objects := make([]Object, len(names))
	for i, name := range names {
		objects[i] = Object{Name: name}
	}
	return objects
}

// numbered returns n names in order: object-00, object-01 and so on.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("object-%02d", i)
	}
	return names
}

// seed makes a namespace with objects of these names.
func (p *probe) seed(namespace string, names ...string) (deleter.Target, error) {
	return p.seedObjects(namespace, plainObjects(names...)...)
}

func (p *probe) seedObjects(namespace string, objects ...Object) (deleter.Target, error) {
	target, err := p.Seed(p.ctx, namespace, objects...)
	if err != nil {
		return target, fmt.Errorf("the backend's Seed failed: %w", err)
	}
	if err := target.Validate(); err != nil {
		return target, fmt.Errorf("the backend's Seed returned a bad target: %w", err)
	}
	return target, nil
}

// expectNames checks the objects in the namespace with Names.
func (p *probe) expectNames(target deleter.Target, after string, want ...string) error {
	got, err := p.Names(p.ctx, target)
	if err != nil {
		return fmt.Errorf("the backend's Names failed: %w", err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, got...)); diff != "" {
		return fmt.Errorf("after %s, these objects should be in namespace %s (-) but these are (+):\n%s", after, target.Namespace, diff)
	}
	return nil
}

// list reads all pages of at most limit objects.
func (p *probe) list(target deleter.Target, limit int) ([]deleter.Item, error) {
	return p.pages("List", p.Content.List, target, limit)
}

// lister is List, or View.
type lister func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error)

// pages calls the method of that name until its listing ends.
func (p *probe) pages(method string, list lister, target deleter.Target, limit int) ([]deleter.Item, error) {
	var items []deleter.Item
	next := ""
	for pages := 1; ; pages++ {
		page, err := list(p.ctx, target, limit, next)
		if err != nil {
			return nil, fmt.Errorf("%s of page %d, limit %d, token %q failed: %w", method, pages, limit, next, err)
		}
		if limit > 0 && len(page.Items) > limit {
			return nil, fmt.Errorf("%s with limit %d returned %d objects", method, limit, len(page.Items))
		}
		items = append(items, page.Items...)
		if page.Remaining < 0 {
			return nil, fmt.Errorf("%s returned Remaining %d", method, page.Remaining)
		}
		if page.Next == "" {
			return items, nil
		}
		if pages > 1000 {
			return nil, fmt.Errorf("%s with limit %d continues after %d pages of a few objects; token now %q", method, limit, pages, page.Next)
		}
		next = page.Next
	}
}

// lists checks that the listing has exactly these names, each once.
func (p *probe) lists(target deleter.Target, limit int, want ...string) ([]deleter.Item, error) {
	items, err := p.list(target, limit)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, item := range items {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(append([]string{}, want...), names); diff != "" {
		return nil, fmt.Errorf("List with limit %d should return (-) but returned (+):\n%s", limit, diff)
	}
	slices.SortFunc(items, func(a, b deleter.Item) int { return strings.Compare(a.Name, b.Name) })
	return items, nil
}

// deletes calls Delete and expects it to succeed.
func (p *probe) deletes(target deleter.Target, name, uid string) error {
	if err := p.Content.Delete(p.ctx, target, name, uid); err != nil {
		return fmt.Errorf("Delete of %q, uid %q failed: %w", name, uid, err)
	}
	return nil
}

// collect calls DeleteCollection until there is no more, and returns the sum;
// -1 if a call did not count.
func (p *probe) collect(target deleter.Target) (int, error) {
	c, ok := p.Content.(deleter.CollectionDeleter)
	if !ok {
		return 0, fmt.Errorf("%T has no DeleteCollection", p.Content)
	}
	sum := 0
	for calls := 1; ; calls++ {
		deleted, more, err := c.DeleteCollection(p.ctx, target)
		if err != nil {
			return sum, fmt.Errorf("DeleteCollection, call %d, failed: %w", calls, err)
		}
		if deleted < 0 || sum < 0 {
			sum = -1
		} else {
			sum += deleted
		}
		if !more {
			return sum, nil
		}
		if calls > 1000 {
			return sum, fmt.Errorf("DeleteCollection still reports more objects after %d calls", calls)
		}
	}
}

// wait calls Wait with a context that ends after limit; zero: with the case.
func (p *probe) wait(target deleter.Target, seen string, limit time.Duration) error {
	n, ok := p.Content.(deleter.Notifier)
	if !ok {
		return fmt.Errorf("%T has no Wait", p.Content)
	}
	ctx := p.ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return n.Wait(ctx, target, seen)
}

// seen lists and returns the mark of the listing.
func (p *probe) seen(target deleter.Target) (string, error) {
	page, err := p.Content.List(p.ctx, target, 0, "")
	if err != nil {
		return "", fmt.Errorf("List failed: %w", err)
	}
	return page.Seen, nil
}
