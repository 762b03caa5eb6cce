package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// content is the interface of a registry's content sources.
type content interface {
	deleter.Content
	deleter.CollectionDeleter
	deleter.Notifier
	deleter.Viewer
}

// faulty is content that fails or hangs on demand.
type faulty struct {
	content
	*behavior
}

// behavior is the current behavior of the content of one type.
type behavior struct {
	outside *outside // holds the content; if nil, the registry does

	mu      sync.Mutex
	failure error
	hangs   bool
}

func (b *behavior) set(failure error, hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failure, b.hangs = failure, hangs
}

// call fails or hangs if the source currently does.
func (b *behavior) call(ctx context.Context) error {
	b.mu.Lock()
	failure, hangs := b.failure, b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return failure
}

// List implements [deleter.Content].
func (f faulty) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := f.call(ctx); err != nil {
		return deleter.Page{}, err
	}
	return f.content.List(ctx, target, limit, next)
}

// Delete implements [deleter.Content].
func (f faulty) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if err := f.call(ctx); err != nil {
		return err
	}
	return f.content.Delete(ctx, target, name, uid)
}

// DeleteCollection implements [deleter.CollectionDeleter].
func (f faulty) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	if err := f.call(ctx); err != nil {
		return 0, false, err
	}
	return f.content.DeleteCollection(ctx, target)
}

// View implements [deleter.Viewer].
func (f faulty) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := f.call(ctx); err != nil {
		return deleter.Page{}, err
	}
	return f.content.View(ctx, target, limit, next)
}

// outside is content outside of the registry. Its creations do not check the gate.
type outside struct {
	registry *registry.Registry

	mu      sync.Mutex
	objects map[string][]deleter.Item // by namespace, sorted by name
	serial  int
	pace    int  // objects deleted per second; zero: all at once
	returns bool // another client recreates deleted objects
}

func newOutside(r *registry.Registry) *outside {
	return &outside{registry: r, objects: map[string][]deleter.Item{}}
}

func (o *outside) add(ns string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(ns, n)
}

func (o *outside) put(ns string, n int) {
	for range n {
		o.serial++
		item := deleter.Item{Name: fmt.Sprintf("object-%06d", o.serial), UID: fmt.Sprint("outside-", o.serial)}
		o.objects[ns] = append(o.objects[ns], item)
	}
}

func (o *outside) behave(pace int, returns bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pace, o.returns = pace, returns
}

func (o *outside) count(ns string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.objects[ns])
}

// fence rejects a target of another incarnation (rule R8) or, if terminating is set, of an Active
// namespace.
func (o *outside) fence(ctx context.Context, target deleter.Target, terminating bool) error {
	if !terminating && target.DeletedAt.IsZero() {
		target.DeletedAt = time.Now() // Validate requires it
	}
	if err := target.Validate(); err != nil {
		return err
	}
	ns, err := o.registry.Get(ctx, target.Namespace)
	if errors.Is(err, namespace.ErrNotFound) {
		return fmt.Errorf("%w: %w", deleter.ErrIncarnation, err)
	}
	if err != nil {
		return err
	}
	if ns.UID != target.UID || terminating && ns.DeletionTimestamp.IsZero() {
		return deleter.ErrIncarnation
	}
	return nil
}

// List implements [deleter.Content].
func (o *outside) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := o.fence(ctx, target, true); err != nil {
		return deleter.Page{}, err
	}
	return o.page(target.Namespace, limit, next)
}

// View implements [deleter.Viewer].
func (o *outside) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := o.fence(ctx, target, false); err != nil {
		return deleter.Page{}, err
	}
	return o.page(target.Namespace, limit, next)
}

// after is the prefix of page tokens. The name of the last object follows.
const after = "after "

func (o *outside) page(ns string, limit int, next string) (deleter.Page, error) {
	name, token := strings.CutPrefix(next, after)
	if limit < 0 || next != "" && !token {
		return deleter.Page{}, fmt.Errorf("%w limit %d or page token %q", deleter.ErrInvalid, limit, next)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.objects[ns]
	from, found := slices.BinarySearchFunc(items, name, func(i deleter.Item, name string) int { return strings.Compare(i.Name, name) })
	if found {
		from++
	}
	to := min(len(items), from+cmp.Or(limit, 500))
	page := deleter.Page{Items: slices.Clone(items[from:to]), Remaining: len(items) - to}
	if page.Remaining > 0 {
		page.Next = after + items[to-1].Name
	}
	return page, nil
}

// Delete implements [deleter.Content].
func (o *outside) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if err := o.fence(ctx, target, true); err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("%w object: it has no name", deleter.ErrInvalid)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.objects[target.Namespace]
	i := slices.IndexFunc(items, func(i deleter.Item) bool { return i.Name == name })
	switch {
	case i < 0:
	case uid != "" && items[i].UID != uid:
		return deleter.ErrReplaced
	default:
		o.objects[target.Namespace] = slices.Delete(items, i, i+1)
	}
	return nil
}

// DeleteCollection implements [deleter.CollectionDeleter].
func (o *outside) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	if err := o.fence(ctx, target, true); err != nil {
		return 0, false, err
	}
	const interval = 50 * time.Millisecond
	o.mu.Lock()
	pace, n := o.pace, len(o.objects[target.Namespace])
	o.mu.Unlock()
	if pace > 0 {
		n = int(float64(pace) * interval.Seconds())
		if err := backoff.Sleep(ctx, interval); err != nil {
			return 0, false, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n = o.cut(target.Namespace, n)
	return n, pace > 0 && len(o.objects[target.Namespace]) > 0, nil
}

// cut removes the first n objects, or replaces them with new objects of the same names.
func (o *outside) cut(ns string, n int) int {
	n = min(n, len(o.objects[ns]))
	if !o.returns {
		o.objects[ns] = o.objects[ns][n:]
		return n
	}
	for i := range n {
		o.serial++
		o.objects[ns][i].UID = fmt.Sprint("outside-", o.serial)
	}
	return n
}

// Wait implements [deleter.Notifier].
func (o *outside) Wait(context.Context, deleter.Target, string) error {
	return deleter.ErrNotSupported
}
