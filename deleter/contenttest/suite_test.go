package contenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// backendOf declares everything of a fake.
func backendOf(f *Fake, content deleter.Content) Backend {
	incarnations := 0
	seed := func(namespace string, active bool, objects []Object) deleter.Target {
		incarnations++
		target := deleter.Target{Namespace: namespace, UID: fmt.Sprint("uid-", incarnations), DeletedAt: time.Unix(1e9, 0)}
		f.Put(target, objects...)
		f.SetActive(target, active)
		return target
	}
	return Backend{
		Content: content,
		Seed: func(_ context.Context, namespace string, objects ...Object) (deleter.Target, error) {
			return seed(namespace, false, objects), nil
		},
		SeedActive: func(_ context.Context, namespace string, objects ...Object) (deleter.Target, error) {
			return seed(namespace, true, objects), nil
		},
		Names: func(_ context.Context, target deleter.Target) ([]string, error) { return f.Names(target), nil },
		Release: func(_ context.Context, target deleter.Target, name string) error {
			if !f.Release(target, name) {
				return fmt.Errorf("no object %s", name)
			}
			return nil
		},
		UIDs: true, Collections: true, Estimates: true, Notifies: true, Views: true,
	}
}

func TestFake(t *testing.T) {
	for name, options := range map[string]*FakeOptions{
		"plain":         nil,
		"small pages":   {PageSize: 3},
		"small batches": {Batch: 3},
		"uncounted":     {Uncounted: true, Batch: 7},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(*testing.T) Backend {
				f := NewFake(options)
				return backendOf(f, f)
			})
		})
	}
}

// A source may have nothing but the two methods.
func TestFakeWithoutCapabilities(t *testing.T) {
	Run(t, func(*testing.T) Backend {
		f := NewFake(nil)
		b := backendOf(f, struct{ deleter.Content }{f})
		b.Release, b.SeedActive = nil, nil
		b.Collections, b.Estimates, b.Notifies, b.Views = false, false, false, false
		return b
	})
}

// mutant is a fake of which some methods are broken.
type mutant struct {
	*Fake
	list       func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error)
	del        func(ctx context.Context, target deleter.Target, name, uid string) error
	collection func(ctx context.Context, target deleter.Target) (int, bool, error)
	view       func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error)
	estimate   func(ctx context.Context, target deleter.Target) (time.Duration, error)
	wait       func(ctx context.Context, target deleter.Target, seen string) error
}

func (m *mutant) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if m.list != nil {
		return m.list(ctx, target, limit, next)
	}
	return m.Fake.List(ctx, target, limit, next)
}

func (m *mutant) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if m.view != nil {
		return m.view(ctx, target, limit, next)
	}
	return m.Fake.View(ctx, target, limit, next)
}

func (m *mutant) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if m.del != nil {
		return m.del(ctx, target, name, uid)
	}
	return m.Fake.Delete(ctx, target, name, uid)
}

func (m *mutant) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	if m.collection != nil {
		return m.collection(ctx, target)
	}
	return m.Fake.DeleteCollection(ctx, target)
}

func (m *mutant) Estimate(ctx context.Context, target deleter.Target) (time.Duration, error) {
	if m.estimate != nil {
		return m.estimate(ctx, target)
	}
	return m.Fake.Estimate(ctx, target)
}

func (m *mutant) Wait(ctx context.Context, target deleter.Target, seen string) error {
	if m.wait != nil {
		return m.wait(ctx, target, seen)
	}
	return m.Fake.Wait(ctx, target, seen)
}

// listed changes each page on its way out.
func (m *mutant) listed(change func(target deleter.Target, next string, page *deleter.Page)) {
	m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
		page, err := m.Fake.List(ctx, target, limit, next)
		change(target, next, &page)
		return page, err
	}
}

// viewed changes each page of a view on its way out.
func (m *mutant) viewed(change func(page *deleter.Page)) {
	m.view = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
		page, err := m.Fake.View(ctx, target, limit, next)
		change(&page)
		return page, err
	}
}

// present returns the target of the incarnation that is there now.
func (m *mutant) present(target deleter.Target) deleter.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.spaces[target.Namespace]; s != nil {
		target.UID = s.uid
	}
	return target
}

// mutants break one thing each; the case named must find it.
var mutants = []struct {
	fails, what string
	breaks      func(m *mutant, b *Backend)
}{
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
	{"list", "deletes what it lists", func(m *mutant, _ *Backend) {
		m.list = func(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
			page, err := m.Fake.List(ctx, target, limit, next)
			_, _, _ = m.Fake.DeleteCollection(ctx, target)
			return page, err
		}
	}},
	{"list nothing", "lists an object that is not there", func(m *mutant, _ *Backend) {
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
	{"delete what is missing", "fails for what is not there", func(m *mutant, _ *Backend) {
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
	{"delete collection", "always tells of more", func(m *mutant, _ *Backend) {
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
	{"wait for what goes", "sleeps through it", func(m *mutant, _ *Backend) {
		m.wait = func(ctx context.Context, _ deleter.Target, _ string) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}},
	{"wait for what goes", "returns at once", func(m *mutant, _ *Backend) {
		m.wait = func(context.Context, deleter.Target, string) error { return nil }
	}},
	{"wait for what has gone", "ignores the mark", func(m *mutant, _ *Backend) {
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
				return 0, fmt.Errorf("cannot tell")
			}
			return 0, nil
		}
	}},
	{"capabilities", "does not declare its views", func(_ *mutant, b *Backend) { b.Views = false }},
	{"view", "is List", func(m *mutant, _ *Backend) { m.view = m.Fake.List }},
	{"view", "refuses what is not being deleted", func(m *mutant, _ *Backend) {
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
	{"view", "deletes what it shows", func(m *mutant, _ *Backend) {
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

func unmarked(_ deleter.Target, _ string, p *deleter.Page) {
	for i := range p.Items {
		p.Items[i].Deleting = false
	}
}

// listByOffset pages by how many objects were listed before.
func (m *mutant) listByOffset(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	skip := 0
	if next != "" {
		if _, err := fmt.Sscanf(next, "%d", &skip); err != nil {
			return deleter.Page{}, deleter.ErrInvalid
		}
	}
	page, err := m.Fake.List(ctx, target, 0, "")
	page.Items = page.Items[min(skip, len(page.Items)):]
	if limit > 0 && len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = fmt.Sprint(skip + limit)
	}
	return page, err
}

// Each case must be able to fail, and for the mutant made for it.
func TestCasesFindMutants(t *testing.T) {
	cases := map[string]testCase{}
	found := map[string]int{}
	for _, c := range allCases() {
		cases[c.name] = c
	}
	for _, broken := range mutants {
		t.Run(broken.fails+"/"+broken.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFake(nil)
				m := &mutant{Fake: f}
				b := backendOf(f, m)
				c, ok := cases[broken.fails]
				require.True(t, ok, "no such case")
				require.NoError(t, c.run(t.Context(), b), "the case must pass before anything is broken")
				f = NewFake(nil)
				m = &mutant{Fake: f}
				b = backendOf(f, m)
				broken.breaks(m, &b)
				err := c.run(t.Context(), b)
				require.Error(t, err, "the case did not notice")
				require.NotContains(t, err.Error(), "the backend's", "the case failed for another reason")
				time.Sleep(20 * deadline) // virtual: what hangs must be over before the bubble is
			})
		})
		found[broken.fails]++
	}
	for name := range cases {
		require.NotZero(t, found[name], "no mutant fails case %q", name)
	}
}

func TestBadInput(t *testing.T) {
	for what, b := range map[string]Backend{
		"nothing":    {},
		"no content": {Seed: backendOf(NewFake(nil), nil).Seed, Names: backendOf(NewFake(nil), nil).Names},
		"no seed":    {Content: NewFake(nil)},
	} {
		require.Error(t, b.check(), what)
	}
	var noContext context.Context
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	good := deleter.Target{Namespace: "a", UID: "a-1", DeletedAt: time.Unix(1, 0)}
	long := deleter.Target{Namespace: strings.Repeat("a", 1000), UID: "a-1", DeletedAt: time.Unix(1, 0)}
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		target deleter.Target
		want   error
	}{
		{"nil context", noContext, good, deleter.ErrInvalid},
		{"ended context", ended, good, context.Canceled},
		{"no target", t.Context(), deleter.Target{}, deleter.ErrInvalid},
		{"a path", t.Context(), deleter.Target{Namespace: "../a", UID: "a-1", DeletedAt: time.Unix(1, 0)}, deleter.ErrInvalid},
		{"invalid UTF-8", t.Context(), deleter.Target{Namespace: "\xff", UID: "a-1", DeletedAt: time.Unix(1, 0)}, deleter.ErrInvalid},
		{"oversized", t.Context(), long, deleter.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFake(nil)
			f.Put(good, Object{Name: "x"})
			_, err := f.List(tt.ctx, tt.target, 0, "")
			require.ErrorIs(t, err, tt.want)
			require.ErrorIs(t, f.Delete(tt.ctx, tt.target, "x", ""), tt.want)
			_, _, err = f.DeleteCollection(tt.ctx, tt.target)
			require.ErrorIs(t, err, tt.want)
			_, err = f.Estimate(tt.ctx, tt.target)
			require.ErrorIs(t, err, tt.want)
			require.ErrorIs(t, f.Wait(tt.ctx, tt.target, ""), tt.want)
			require.Equal(t, []string{"x"}, f.Names(good))
		})
	}
	f := NewFake(nil)
	_, err := f.List(t.Context(), good, -1, "")
	require.ErrorIs(t, err, deleter.ErrInvalid)
}
