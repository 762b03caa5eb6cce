package contenttest

import (
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// checkFailures makes the backing store fail. No method may then report an empty listing
// or a successful deletion.
func checkFailures(p *probe) error {
	want := numbered(5)
	target, err := p.seed("failing", want...)
	if err != nil {
		return err
	}
	var first deleter.Page
	calls := map[string]func() error{
		"Delete": func() error {
			if p.Functions {
				_, err := p.empty(target)
				return err
			}
			return p.Content.Delete(p.ctx, target, want[0], "")
		},
	}
	if lists(p.Backend) {
		if first, err = p.Content.List(p.ctx, target, 2, ""); err != nil {
			return fmt.Errorf("List failed: %w", err)
		}
		calls["List"] = func() error {
			page, err := p.Content.List(p.ctx, target, 0, "")
			return answered(err, page)
		}
	}
	if c, ok := p.Content.(deleter.Counter); ok && p.Counts {
		calls["Count"] = func() error {
			_, err := c.Count(p.ctx, target)
			return err
		}
	}
	if first.Next != "" {
		calls["List of the second page"] = func() error {
			page, err := p.Content.List(p.ctx, target, 2, first.Next)
			return answered(err, page)
		}
	}
	if c, ok := p.Content.(deleter.CollectionDeleter); ok && p.Collections {
		calls["DeleteCollection"] = func() error {
			_, _, err := c.DeleteCollection(p.ctx, target)
			return err
		}
	}
	if v, ok := p.Content.(deleter.Viewer); ok && p.Views {
		calls["View"] = func() error {
			page, err := v.View(p.ctx, target, 0, "")
			return answered(err, page)
		}
	}
	for name, call := range calls {
		if err := p.fail(true); err != nil {
			return err
		}
		failed := call()
		if err := p.fail(false); err != nil {
			return err
		}
		if failed == nil {
			return fmt.Errorf("%s succeeded although the backing store of the content failed", name)
		}
	}
	if err := p.expectNames(target, "calls that failed", want...); err != nil {
		return err
	}
	if lists(p.Backend) {
		_, err = p.lists(target, 0, want...)
	}
	return err
}

// answered returns err. A page with objects counts as an error too: it may come from a cache
// and hides no objects.
func answered(err error, page deleter.Page) error {
	if err == nil && len(page.Items) > 0 {
		return fmt.Errorf("the listing had %d objects from elsewhere", len(page.Items))
	}
	return err
}

func (p *probe) fail(failing bool) error {
	if err := p.Fail(p.ctx, failing); err != nil {
		return fmt.Errorf("the backend's Fail failed: %w", err)
	}
	return nil
}

// checkRemaining checks Page.Remaining on each page that has it.
func checkRemaining(p *probe) error {
	want := numbered(23)
	target, err := p.seed("remaining", want...)
	if err != nil {
		return err
	}
	methods := map[string]lister{"List": p.Content.List}
	if v, ok := p.Content.(deleter.Viewer); ok && p.Views {
		methods["View"] = v.View
	}
	for name, list := range methods {
		for _, limit := range []int{1, 2, 7, 22, 23, 24} {
			if err := p.counts(name, list, target, limit, len(want)); err != nil {
				return err
			}
		}
	}
	return nil
}

// counts reads and checks all pages of a listing of the given number of objects.
func (p *probe) counts(name string, list lister, target deleter.Target, limit, objects int) error {
	next := ""
	for read, pages := 0, 1; ; pages++ {
		page, err := list(p.ctx, target, limit, next)
		if err != nil {
			return fmt.Errorf("%s of page %d, limit %d failed: %w", name, pages, limit, err)
		}
		read += len(page.Items)
		switch beyond := objects - read; {
		case page.Next == "" && page.Remaining != 0:
			return fmt.Errorf("%s with limit %d returned Remaining %d for its last page, which should be 0", name, limit, page.Remaining)
		case page.Remaining != 0 && page.Remaining != beyond:
			return fmt.Errorf("%s with limit %d returned Remaining %d for page %d, beyond which are %d objects (0 is allowed: not known)",
				name, limit, page.Remaining, pages, beyond)
		case page.Next == "" || pages > objects:
			return nil // other cases check the pages
		}
		next = page.Next
	}
}
