package contenttest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// viewDefects are those of [deleter.Viewer].
var viewDefects = []defect{
	{"capabilities", "does not declare its views", func(_ *mutant, b *Backend) { b.Views = false }},
	{"view", "is List", func(m *mutant, _ *Backend) { m.view = m.Fake.List }},
	{"view", "refuses a namespace that is not terminating", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			if err := target.Validate(); err != nil {
				return deleter.Page{}, err
			}
			return m.Fake.View(ctx, target, limit, next)
		}
	}},
	{"view", "leaves out an object", func(m *mutant, _ *Backend) {
		m.viewed(func(p *deleter.Page) { p.Items = p.Items[:max(0, len(p.Items)-1)] })
	}},
	{"view", "ends after the first page", func(m *mutant, _ *Backend) { m.viewed(func(p *deleter.Page) { p.Next = "" }) }},
	{"view", "ignores the limit", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, _ int, next string) (deleter.Page, error) {
			return m.Fake.View(ctx, target, 0, next)
		}
	}},
	{"view", "has no uids", func(m *mutant, _ *Backend) {
		m.viewed(func(p *deleter.Page) {
			for i := range p.Items {
				p.Items[i].UID = ""
			}
		})
	}},
	{"view", "deletes the objects that it shows", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.View(ctx, target, limit, next)
			if next == "" {
				target.DeletedAt = time.Unix(1e9, 0)
				_, _, _ = m.Fake.DeleteCollection(ctx, target)
			}
			return page, err
		}
	}},
	{"view held", "shows no finalizers", func(m *mutant, _ *Backend) {
		m.viewed(func(p *deleter.Page) {
			for i := range p.Items {
				p.Items[i].Finalizers = nil
			}
		})
	}},
	{"view held", "shows no deletion marks", func(m *mutant, _ *Backend) {
		m.viewed(func(p *deleter.Page) { unmarked(deleter.Target{}, "", p) })
	}},
	{"R8 view of other incarnations", "views by the name alone", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			return m.Fake.View(ctx, m.present(target), limit, next)
		}
	}},
	{"R8 view of other incarnations", "does so without a time of deletion", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			if target.DeletedAt.IsZero() {
				target = m.present(target)
			}
			return m.Fake.View(ctx, target, limit, next)
		}
	}},
	{"R8 view of other incarnations", "shows nothing of them", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.View(ctx, target, limit, next)
			if errors.Is(err, deleter.ErrIncarnation) {
				return deleter.Page{}, nil
			}
			return page, err
		}
	}},
	{"R8 view of no incarnation", "takes it for an empty one", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.View(ctx, target, limit, next)
			if errors.Is(err, deleter.ErrIncarnation) && m.spaces[target.Namespace] == nil {
				return deleter.Page{}, nil
			}
			return page, err
		}
	}},
	{"view bad input", "takes a negative limit for none", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			return m.Fake.View(ctx, target, max(limit, 0), next)
		}
	}},
	{"view bad input", "takes any target", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			if target.ValidateView() != nil {
				return deleter.Page{}, nil
			}
			return m.Fake.View(ctx, target, limit, next)
		}
	}},
	{"view bad input", "takes any token", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			if strings.Contains(next, " ") {
				next = ""
			}
			return m.Fake.View(ctx, target, limit, next)
		}
	}},
	{"view bad input", "ignores its context", func(m *mutant, _ *Backend) {
		m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			return m.Fake.View(context.WithoutCancel(ctx), target, limit, next)
		}
	}},
}
