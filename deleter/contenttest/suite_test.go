package contenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// backendOf declares everything of a fake.
func backendOf(f *Fake, content deleter.Content) Backend {
	incarnations := 0
	var failing atomic.Bool
	f.opts.Fault = func(context.Context, Call) error {
		if failing.Load() {
			return errBeneath
		}
		return nil
	}
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
		Fail: func(_ context.Context, fail bool) error {
			failing.Store(fail)
			return nil
		},
		UIDs: true, Collections: true, Estimates: true, Notifies: true, Views: true,
	}
}

// errBeneath is a failure of the place beneath the content.
var errBeneath = errors.New("the database is down")

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
		b.Release, b.SeedActive, b.Fail = nil, nil, nil
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

// present returns the target of the current incarnation.
func (m *mutant) present(target deleter.Target) deleter.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.spaces[target.Namespace]; s != nil {
		target.UID = s.uid
	}
	return target
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
	for _, broken := range slices.Concat(defects, viewDefects, failureDefects) {
		t.Run(broken.fails+"/"+broken.defect, func(t *testing.T) {
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
				time.Sleep(20 * deadline) // virtual: calls that hang must end before the bubble does
			})
		})
		found[broken.fails]++
	}
	for _, broken := range brokenFunctions {
		found[broken.fails]++
	}
	for name := range cases {
		require.NotZero(t, found[name], "no mutant fails case %q", name)
	}
}

func TestBadInput(t *testing.T) {
	for name, b := range map[string]Backend{
		"nothing":    {},
		"no content": {Seed: backendOf(NewFake(nil), nil).Seed, Names: backendOf(NewFake(nil), nil).Names},
		"no seed":    {Content: NewFake(nil)},
	} {
		require.Error(t, b.check(), name)
	}
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
