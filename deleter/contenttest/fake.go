package contenttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// Object is an object of a [Fake].
type Object struct {
	Name       string
	UID        string // empty: the fake makes one up
	Finalizers []string
	// HeldFor is the time after which the finalizers of a deleted object disappear; zero:
	// they stay until [Fake.Release].
	HeldFor time.Duration
	// Grace is how long the object stays after the request to delete it.
	Grace time.Duration
}

// Call is one call to a [Fake].
type Call struct {
	Op     deleter.Op
	Target deleter.Target
	Object string // of a Delete
}

// anyPhase reports whether the namespace may be Active.
func (c Call) anyPhase() bool { return c.Op == deleter.OpView || c.Op == deleter.OpCount }

// FakeOptions shape a [Fake]. The zero value refuses no operation and answers at once.
// Counting and emptying are available through [Fake.Funcs].
type FakeOptions struct {
	// Latency is the time each call takes.
	Latency time.Duration
	// PageSize bounds the pages of a listing; zero: the caller's limit alone.
	PageSize int
	// Batch is how many objects one DeleteCollection takes; zero: all.
	Batch int
	// Uncounted makes DeleteCollection answer -1.
	Uncounted bool
	// Unsupported names the operations that are refused with [deleter.ErrNotSupported].
	Unsupported []deleter.Op
	// Fault runs before each call. If it returns an error, the call fails with that. It may
	// block and panic, and is called concurrently.
	Fault func(ctx context.Context, call Call) error
}

// Fake is content in memory: a source that answers after a fixed time per call, with the
// finalizers, grace periods and failures that a test needs. It uses
// timers only while a call runs, so that it works in a [testing/synctest] bubble;
// make it inside.
//
// The first [Fake.Put], [Fake.SetActive] or [Fake.Release] for a target creates its namespace, and
// ends another incarnation of that name with its content. An unknown target has no content, and
// cannot be viewed. A Fake is safe for concurrent use.
type Fake struct {
	opts   FakeOptions
	mu     sync.Mutex
	spaces map[string]*space // by namespace
	calls  map[deleter.Op]int
	uids   int
}

var (
	_ deleter.Content           = (*Fake)(nil)
	_ deleter.CollectionDeleter = (*Fake)(nil)
	_ deleter.Estimator         = (*Fake)(nil)
	_ deleter.Notifier          = (*Fake)(nil)
	_ deleter.Viewer            = (*Fake)(nil)
)

// NewFake returns an empty Fake; nil options are the zero options.
func NewFake(opts *FakeOptions) *Fake {
	f := &Fake{spaces: map[string]*space{}, calls: map[deleter.Op]int{}}
	if opts != nil {
		f.opts = *opts
		f.opts.Unsupported = slices.Clone(opts.Unsupported)
	}
	return f
}

// Put adds objects to the target's incarnation, replacing those of equal names. If
// the fake knows another incarnation of the namespace, that one and its content are over.
func (f *Fake) Put(target deleter.Target, objects ...Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.incarnation(target)
	for _, o := range objects {
		if o.UID == "" {
			f.uids++
			o.UID = "object-" + strconv.Itoa(f.uids)
		}
		o.Finalizers = slices.Clone(o.Finalizers)
		s.put(o)
	}
}

func (f *Fake) incarnation(target deleter.Target) *space {
	s := f.spaces[target.Namespace]
	if s == nil || s.uid != target.UID {
		s = newSpace(target.UID)
		f.spaces[target.Namespace] = s
	}
	return s
}

// PutMany adds n objects named prefix-000000 and so on.
func (f *Fake) PutMany(target deleter.Target, prefix string, n int) {
	objects := make([]Object, n)
	for i := range objects {
		objects[i].Name = fmt.Sprintf("%s-%06d", prefix, i)
	}
	f.Put(target, objects...)
}

// SetActive says whether the target's incarnation is Active, so that nothing may be
// deleted in it. Incarnations begin as terminating.
func (f *Fake) SetActive(target deleter.Target, active bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.incarnation(target).active = active
}

// Release takes the finalizers off an object; if it is being deleted it goes. It
// reports whether the object existed.
func (f *Fake) Release(target deleter.Target, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.incarnation(target)
	o := s.objects[name]
	if o == nil {
		return false
	}
	o.Finalizers = nil
	s.schedule(o)
	return true
}

// Names returns the names of the existing objects, sorted.
func (f *Fake) Names(target deleter.Target) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.spaces[target.Namespace]
	if s == nil || s.uid != target.UID {
		return nil
	}
	s.expire()
	return slices.Sorted(maps.Keys(s.objects))
}

// Calls returns how many calls were made of the operations named; of all when
// none is.
func (f *Fake) Calls(ops ...deleter.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for op, count := range f.calls {
		if len(ops) == 0 || slices.Contains(ops, op) {
			n += count
		}
	}
	return n
}

// ResetCalls sets the count to zero.
func (f *Fake) ResetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.calls)
}

// begin counts the call, lets it take its time, and enters its space.
func (f *Fake) begin(ctx context.Context, call Call) (*space, error) {
	validate := call.Target.Validate
	if call.anyPhase() {
		validate = call.Target.ValidateView
	}
	if err := validate(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.calls[call.Op]++
	f.mu.Unlock()
	if err := f.pause(ctx, call.Op); err != nil {
		return nil, err
	}
	if f.opts.Fault != nil {
		if err := f.opts.Fault(ctx, call); err != nil {
			return nil, err
		}
	}
	if slices.Contains(f.opts.Unsupported, call.Op) {
		return nil, fmt.Errorf("%s: %w", call.Op, deleter.ErrNotSupported)
	}
	return f.enter(call)
}

// enter returns the target's space as it is now, empty when the namespace is
// unknown and not viewed. On success f.mu is held.
func (f *Fake) enter(call Call) (*space, error) {
	target := call.Target
	f.mu.Lock()
	s := f.spaces[target.Namespace]
	switch {
	case s == nil && call.anyPhase():
		f.mu.Unlock()
		return nil, fmt.Errorf("%w: %s does not exist", deleter.ErrIncarnation, target.Namespace)
	case s == nil:
		return newSpace(target.UID), nil
	case s.uid != target.UID || s.active && !call.anyPhase():
		f.mu.Unlock()
		return nil, fmt.Errorf("%w: %s is not %s, or is active", deleter.ErrIncarnation, target.Namespace, target.UID)
	}
	s.expire()
	return s, nil
}

func (f *Fake) pause(ctx context.Context, op deleter.Op) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.opts.Latency <= 0 || op == deleter.OpWait {
		return nil
	}
	timer := time.NewTimer(f.opts.Latency)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

const tokenPrefix = "after:"

// List implements [deleter.Content]. A token is the name of the last object before.
func (f *Fake) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	return f.page(ctx, Call{Op: deleter.OpList, Target: target}, limit, next)
}

// View implements [deleter.Viewer].
func (f *Fake) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	return f.page(ctx, Call{Op: deleter.OpView, Target: target}, limit, next)
}

func (f *Fake) page(ctx context.Context, call Call, limit int, next string) (deleter.Page, error) {
	if limit < 0 {
		return deleter.Page{}, fmt.Errorf("%w limit: must not be negative, is %d", deleter.ErrInvalid, limit)
	}
	after, ok := strings.CutPrefix(next, tokenPrefix)
	if next != "" && !ok {
		return deleter.Page{}, fmt.Errorf("%w page token %q", deleter.ErrInvalid, next)
	}
	s, err := f.begin(ctx, call)
	if err != nil {
		return deleter.Page{}, err
	}
	defer f.mu.Unlock()
	size := len(s.objects)
	for _, bound := range []int{limit, f.opts.PageSize} {
		if bound > 0 {
			size = min(size, bound)
		}
	}
	page := deleter.Page{Seen: strconv.Itoa(s.gone)}
	for o := range s.from(after) {
		if len(page.Items) < size {
			page.Items = append(page.Items, o.item())
		} else {
			page.Remaining++
		}
	}
	if page.Remaining > 0 {
		page.Next = tokenPrefix + page.Items[size-1].Name
	}
	return page, nil
}

// Delete implements [deleter.Content].
func (f *Fake) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if name == "" {
		return fmt.Errorf("%w object name: must not be empty", deleter.ErrInvalid)
	}
	s, err := f.begin(ctx, Call{Op: deleter.OpDelete, Target: target, Object: name})
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	o := s.objects[name]
	if o == nil {
		return nil
	}
	if uid != "" && uid != o.UID {
		return fmt.Errorf("%w: %s is of uid %s, not %s", deleter.ErrReplaced, name, o.UID, uid)
	}
	s.mark(o)
	return nil
}

// DeleteCollection implements [deleter.CollectionDeleter].
func (f *Fake) DeleteCollection(ctx context.Context, target deleter.Target) (deleted int, more bool, err error) {
	s, err := f.begin(ctx, Call{Op: deleter.OpDeleteCollection, Target: target})
	if err != nil {
		return 0, false, err
	}
	defer f.mu.Unlock()
	deleted, more = s.markAll(f.opts.Batch)
	if f.opts.Uncounted {
		deleted = -1
	}
	return deleted, more, nil
}

// Funcs returns the fake as plain functions.
func (f *Fake) Funcs() deleter.Funcs {
	return deleter.Funcs{
		Delete: func(ctx context.Context, target deleter.Target) (remaining int, err error) {
			s, err := f.begin(ctx, Call{Op: deleter.OpEmpty, Target: target})
			if err != nil {
				return 0, err
			}
			defer f.mu.Unlock()
			s.markAll(f.opts.Batch)
			return len(s.objects), nil
		},
		Count: func(ctx context.Context, target deleter.Target) (int, error) {
			s, err := f.begin(ctx, Call{Op: deleter.OpCount, Target: target})
			if err != nil {
				return 0, err
			}
			defer f.mu.Unlock()
			return len(s.objects), nil
		},
		List: func(ctx context.Context, target deleter.Target, after string, limit int) ([]deleter.Item, error) {
			page, err := f.View(ctx, target, limit, tokenPrefix+after)
			return page.Items, err
		},
	}
}

// Estimate implements [deleter.Estimator]: the time until everything that goes by
// itself has gone.
func (f *Fake) Estimate(ctx context.Context, target deleter.Target) (time.Duration, error) {
	s, err := f.begin(ctx, Call{Op: deleter.OpEstimate, Target: target})
	if err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	var longest time.Duration
	for _, o := range s.timed {
		longest = max(longest, time.Until(o.goneAt()))
	}
	return longest, nil
}

// Wait implements [deleter.Notifier]. It takes no time of its own.
func (f *Fake) Wait(ctx context.Context, target deleter.Target, seen string) error {
	call := Call{Op: deleter.OpWait, Target: target}
	s, err := f.begin(ctx, call)
	for err == nil {
		if strconv.Itoa(s.gone) != seen {
			f.mu.Unlock()
			return nil
		}
		changed, next := s.changed, s.nextGone()
		f.mu.Unlock()
		if err = await(ctx, changed, next); err == nil {
			s, err = f.enter(call)
		}
	}
	return err
}

// await returns when changed is closed, at a time (zero: never), or when ctx ends.
func await(ctx context.Context, changed <-chan struct{}, at time.Time) error {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
		return nil
	case <-due:
		return nil
	}
}
