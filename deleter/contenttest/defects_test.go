package contenttest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// defect breaks one thing; the case named must find it.
type defect struct {
	fails, defect string
	breaks        func(m *mutant, b *Backend)
}

var defects = []defect{
	{"capabilities", "declares collections it has not", func(m *mutant, _ *Backend) {
		m.opts.Unsupported = []deleter.Op{deleter.OpDeleteCollection}
	}},
	{"capabilities", "does not declare its estimates", func(_ *mutant, b *Backend) { b.Estimates = false }},
	{"capabilities", "declares a wait it has not", func(m *mutant, b *Backend) { b.Content = struct{ deleter.Content }{m} }},
	{"list", "leaves out an object", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) { p.Items = p.Items[:max(0, len(p.Items)-1)] })
	}},
	{"list", "claims that all are being deleted", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) {
			for i := range p.Items {
				p.Items[i].Deleting = true
			}
		})
	}},
	{"list", "has one uid for all", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) {
			for i := range p.Items {
				p.Items[i].UID = "same"
			}
		})
	}},
	{"list", "deletes the objects that it lists", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.List(ctx, target, limit, next)
			_, _, _ = m.Fake.DeleteCollection(ctx, target)
			return page, err
		}
	}},
	{"list nothing", "lists an object that does not exist", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) {
			p.Items = append(p.Items, deleter.Item{Name: "ghost"})
		})
	}},
	{"pages", "ends after the first page", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) { p.Next = "" })
	}},
	{"pages", "lists the last object of a page again", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, next string, p *deleter.Page) {
			if next != "" {
				p.Items = append([]deleter.Item{{Name: strings.TrimPrefix(next, tokenPrefix)}}, p.Items...)
			}
		})
	}},
	{"pages", "ignores the limit", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, _ int, next string) (deleter.Page, error) {
			return m.Fake.List(ctx, target, 0, next)
		}
	}},
	{"pages", "never ends", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, next string, p *deleter.Page) {
			if p.Next == "" {
				p.Next = next
			}
		})
	}},
	{"pages while deleting", "has tokens that count objects", func(m *mutant, _ *Backend) { m.list = m.listByOffset }},
	{"delete", "deletes everything that begins with the name", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			for _, other := range m.Names(target) {
				if strings.HasPrefix(other, name) {
					_ = m.Fake.Delete(ctx, target, other, "")
				}
			}
			return m.Fake.Delete(ctx, target, name, uid)
		}
	}},
	{"delete", "does nothing", func(m *mutant, _ *Backend) {
		m.del = func(context.Context, deleter.Target, string, string) error { return nil }
	}},
	{"delete a missing object", "fails for a missing object", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			before := len(m.Names(target))
			err := m.Fake.Delete(ctx, target, name, uid)
			if err == nil && len(m.Names(target)) == before {
				err = fmt.Errorf("no object %s", name)
			}
			return err
		}
	}},
	{"delete held", "ignores finalizers", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			m.Release(target, name)
			return m.Fake.Delete(ctx, target, name, uid)
		}
	}},
	{"delete held", "the second deletion ignores finalizers", func(m *mutant, _ *Backend) {
		seen := map[string]bool{}
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			if seen[name] {
				m.Release(target, name)
			}
			seen[name] = true
			return m.Fake.Delete(ctx, target, name, uid)
		}
	}},
	{"delete held", "does not list finalizers", func(m *mutant, _ *Backend) {
		m.listed(func(_ deleter.Target, _ string, p *deleter.Page) {
			for i := range p.Items {
				p.Items[i].Finalizers = nil
			}
		})
	}},
	{"delete held", "does not list deletion marks", func(m *mutant, _ *Backend) { m.listed(unmarked) }},
	{"delete by uid", "ignores the uid", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, _ string) error {
			return m.Fake.Delete(ctx, target, name, "")
		}
	}},
	{"other namespaces", "deletes in namespaces whose names begin alike", func(m *mutant, _ *Backend) {
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			for _, name := range []string{"team-a-2", "team-aa"} {
				_, _, _ = m.Fake.DeleteCollection(ctx, m.present(deleter.Target{Namespace: name, DeletedAt: target.DeletedAt}))
			}
			return m.Fake.DeleteCollection(ctx, target)
		}
	}},
	{"R8 other incarnations", "deletes by the name alone", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			return m.Fake.Delete(ctx, m.present(target), name, uid)
		}
	}},
	{"R8 other incarnations", "deletes collections by the name alone", func(m *mutant, _ *Backend) {
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			return m.Fake.DeleteCollection(ctx, m.present(target))
		}
	}},
	{"R8 other incarnations", "lists by the name alone", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			return m.Fake.List(ctx, m.present(target), limit, next)
		}
	}},
	{"R6 active namespaces", "deletes in Active namespaces", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			m.SetActive(target, false)
			return m.Fake.Delete(ctx, target, name, uid)
		}
	}},
	{"R6 active namespaces", "lists in Active namespaces", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			m.SetActive(target, false)
			defer m.SetActive(target, true)
			return m.Fake.List(ctx, target, limit, next)
		}
	}},
	{"delete collection", "leaves one without telling of more", func(m *mutant, _ *Backend) {
		m.opts.Batch = 49
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			_, _, err := m.Fake.DeleteCollection(ctx, target)
			return 50, false, err
		}
	}},
	{"delete collection", "counts wrong", func(m *mutant, _ *Backend) {
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			n, more, err := m.Fake.DeleteCollection(ctx, target)
			return n + 1, more, err
		}
	}},
	{"delete collection", "always reports more", func(m *mutant, _ *Backend) {
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			n, _, err := m.Fake.DeleteCollection(ctx, target)
			return n, true, err
		}
	}},
	{"delete held collection", "counts held objects again", func(m *mutant, _ *Backend) {
		m.collection = func(ctx context.Context, target deleter.Target) (int, bool, error) {
			n := len(m.Names(target))
			_, more, err := m.Fake.DeleteCollection(ctx, target)
			return n, more, err
		}
	}},
	{"delete held collection", "does not list deletion marks", func(m *mutant, _ *Backend) { m.listed(unmarked) }},
	{"wait for a removal", "sleeps through it", func(m *mutant, _ *Backend) {
		m.wait = func(ctx context.Context, _ deleter.Target, _ string) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}},
	{"wait for a removal", "returns at once", func(m *mutant, _ *Backend) {
		m.wait = func(context.Context, deleter.Target, string) error { return nil }
	}},
	{"wait after a removal", "ignores the mark", func(m *mutant, _ *Backend) {
		m.wait = func(ctx context.Context, target deleter.Target, _ string) error {
			page, _ := m.Fake.List(ctx, target, 0, "")
			return m.Fake.Wait(ctx, target, page.Seen)
		}
	}},
	{"wait until the end", "returns at once", func(m *mutant, _ *Backend) {
		m.wait = func(context.Context, deleter.Target, string) error { return nil }
	}},
	{"wait until the end", "ignores its context", func(m *mutant, _ *Backend) {
		m.wait = func(context.Context, deleter.Target, string) error {
			time.Sleep(10 * deadline)
			return context.DeadlineExceeded
		}
	}},
	{"estimate", "is negative", func(m *mutant, _ *Backend) {
		m.estimate = func(context.Context, deleter.Target) (time.Duration, error) { return -time.Second, nil }
	}},
	{"estimate", "fails for held objects", func(m *mutant, _ *Backend) {
		m.estimate = func(_ context.Context, target deleter.Target) (time.Duration, error) {
			if len(m.Names(target)) > 0 {
				return 0, fmt.Errorf("cannot count")
			}
			return 0, nil
		}
	}},
	{"bad input", "takes a negative limit for none", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			return m.Fake.List(ctx, target, max(limit, 0), next)
		}
	}},
	{"bad input", "follows paths", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			if name == "" {
				return deleter.ErrInvalid
			}
			return m.Fake.Delete(ctx, target, name[strings.LastIndex(name, "/")+1:], uid)
		}
	}},
	{"bad input", "takes any target", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			if target.Validate() != nil {
				return nil
			}
			return m.Fake.Delete(ctx, target, name, uid)
		}
	}},
	{"cancelled", "deletes nevertheless", func(m *mutant, _ *Backend) {
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			return m.Fake.Delete(context.WithoutCancel(ctx), target, name, uid)
		}
	}},
	{"at once", "refuses a second call at a time", func(m *mutant, b *Backend) {
		b.Collections = false // or they are done before the others begin
		m.opts.Latency = time.Millisecond
		var busy sync.Mutex
		m.del = func(ctx context.Context, target deleter.Target, name, uid string) error {
			if !busy.TryLock() {
				return fmt.Errorf("busy")
			}
			defer busy.Unlock()
			return m.Fake.Delete(ctx, target, name, uid)
		}
	}},
	{"composed", "keeps an object for good", func(m *mutant, _ *Backend) {
		m.opts.Fault = func(_ context.Context, c Call) error {
			if c.Target.Namespace == "composed" && c.Op == deleter.OpDeleteCollection {
				return fmt.Errorf("out of order")
			}
			return nil
		}
	}},
}
