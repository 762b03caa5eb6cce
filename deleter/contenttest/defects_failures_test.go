package contenttest

import (
	"context"
	"errors"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// failureDefects hide failures, and miscount the objects beyond a page.
var failureDefects = []defect{
	{"failures", "lists nothing when it cannot read", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.List(ctx, target, limit, next)
			return page, swallowed(err)
		}
	}},
	{"failures", "ends the listing when it cannot read the next page", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.List(ctx, target, limit, next)
			if next != "" {
				err = swallowed(err)
			}
			return page, err
		}
	}},
	{"failures", "takes a deletion for done when it cannot write", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			return swallowed(m.Fake.Delete(ctx, target, name, uid))
		}
	}},
	{"failures", "takes a collection for deleted when it cannot write", func(m *mutant, _ *Backend) {
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			deleted, more, err := m.Fake.DeleteCollection(ctx, target)
			return deleted, more, swallowed(err)
		}
	}},
	{"failures", "shows nothing when it cannot read", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.View(ctx, target, limit, next)
			return page, swallowed(err)
		}
	}},
	{"remaining", "counts the page itself", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) { p.Remaining += len(p.Items) })
	}},
	{"remaining", "is one short", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) { p.Remaining = max(p.Remaining-1, 0) })
	}},
	{"remaining", "reports more after the last page", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) { p.Remaining = max(p.Remaining, 1) })
	}},
	{"remaining", "is negative", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) { p.Remaining = -p.Remaining })
	}},
	{"remaining", "counts the page itself in views", func(m *mutant, _ *Backend) {
		m.viewed(func(p *deleter.Page) { p.Remaining += len(p.Items) })
	}},
}

// swallowed hides a failure of the place beneath.
func swallowed(err error) error {
	if errors.Is(err, errBeneath) {
		return nil
	}
	return err
}
