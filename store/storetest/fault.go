package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// ErrInjected is in the chain of every error that [Faulty] makes up.
var ErrInjected = errors.New("injected fault")

// Kind is what goes wrong. All kinds keep the contract of [store.Store]: code that
// fails under them would fail over a network too.
type Kind string

// The kinds of faults.
const (
	// None lets the call through.
	None Kind = ""
	// Conflict lets another writer put the same value again, just before a Commit, at
	// the key of its first condition of the kind At that holds.
	Conflict Kind = "conflict"
	// Lost answers a Commit with an unknown outcome; the write has not happened and
	// never will. A Commit that cannot succeed gets its true answer.
	Lost Kind = "lost"
	// Landed answers a Commit with an unknown outcome; the write has happened. A
	// Commit that did not succeed gets its true answer.
	Landed Kind = "landed"
	// Fail answers any call with Fault.Err; nothing has happened. A watch ends with it
	// after Fault.Changes changes.
	Fail Kind = "fail"
	// Gone ends a watch with [store.ErrGone] after Fault.Changes changes, and answers
	// a List at a position with it.
	Gone Kind = "gone"
)

// Fault is what happens to one call. A kind that does not fit the call does nothing.
type Fault struct {
	Kind    Kind
	Delay   time.Duration // passes before the call, or until its context ends
	Err     error         // of Fail; nil is ErrInjected alone
	Changes int           // a watch yields so many changes with events first
}

// Attempt is a call that a [Plan] decides on.
type Attempt struct {
	Method string     // "get", "list", "commit" or "watch" (each loop over it)
	N      int        // calls of this method before it
	Key    string     // of a get; the prefix of a listing or watch
	Txn    *store.Txn // of a commit; must not be changed
}

// Plan decides what happens to a call. It is called by many goroutines at once.
type Plan func(Attempt) Fault

// Faulty is a store to which a plan happens. Compaction and counting are not offered;
// use [Faulty.Unwrap] for them.
type Faulty struct {
	inner store.Store
	plan  Plan

	mu       sync.Mutex
	calls    map[string]int
	injected map[Kind]int
}

var (
	_ store.Store   = (*Faulty)(nil)
	_ store.Limiter = (*Faulty)(nil)
)

// Inject wraps s, so that plan happens to its calls. A nil plan injects nothing, a
// nil s is [store.ErrInvalid]. Closing the result closes s.
func Inject(s store.Store, plan Plan) (*Faulty, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the store to inject faults into is nil", store.ErrInvalid)
	}
	if plan == nil {
		plan = func(Attempt) Fault { return Fault{} }
	}
	return &Faulty{inner: s, plan: plan, calls: map[string]int{}, injected: map[Kind]int{}}, nil
}

// Unwrap returns the store below.
func (f *Faulty) Unwrap() store.Store { return f.inner }

// Limits implements [store.Limiter].
func (f *Faulty) Limits() store.Limits { return store.LimitsOf(f.inner) }

// Injected returns how often each kind took effect, so that a test can show that it
// met them.
func (f *Faulty) Injected() map[Kind]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.injected)
}

func (f *Faulty) count(k Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injected[k]++
}

// next asks the plan and lets the delay pass.
func (f *Faulty) next(ctx context.Context, a Attempt) Fault {
	f.mu.Lock()
	a.N = f.calls[a.Method]
	f.calls[a.Method]++
	f.mu.Unlock()
	fault := f.plan(a)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done(): // the call below answers that
		}
	}
	return fault
}

// answer makes the error of a fault and counts it.
func (f *Faulty) answer(kind Kind, a Attempt, err error) error {
	f.count(kind)
	if err == nil {
		err = ErrInjected
	} else {
		err = fmt.Errorf("%w (%w)", err, ErrInjected)
	}
	return &store.Error{Op: a.Method, Key: a.Key, Err: err}
}

// Get implements [store.Store].
func (f *Faulty) Get(ctx context.Context, key string) (store.Entry, error) {
	a := Attempt{Method: "get", Key: key}
	if fault := f.next(ctx, a); fault.Kind == Fail {
		return store.Entry{}, f.answer(Fail, a, fault.Err)
	}
	return f.inner.Get(ctx, key)
}

// List implements [store.Store].
func (f *Faulty) List(ctx context.Context, q store.Query) (store.Page, error) {
	a := Attempt{Method: "list", Key: q.Prefix}
	switch fault := f.next(ctx, a); {
	case fault.Kind == Fail:
		return store.Page{}, f.answer(Fail, a, fault.Err)
	case fault.Kind == Gone && q.At != store.Position{}:
		return store.Page{}, f.answer(Gone, a, store.ErrGone)
	}
	return f.inner.List(ctx, q)
}

// Commit implements [store.Store].
func (f *Faulty) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	a := Attempt{Method: "commit", Txn: &txn}
	switch fault := f.next(ctx, a); fault.Kind {
	case Fail:
		return 0, f.answer(Fail, a, fault.Err)
	case Conflict:
		f.rewrite(ctx, txn)
	case Lost:
		if err := txn.Check(f.Limits()); err != nil {
			return 0, &store.Error{Op: "commit", Err: err}
		}
		if _, err := f.inner.Commit(ctx, store.Txn{If: txn.If}); err != nil {
			return 0, err
		}
		return 0, f.answer(Lost, a, store.ErrUnknownOutcome)
	case Landed:
		if _, err := f.inner.Commit(ctx, txn); err != nil {
			return 0, err
		}
		return 0, f.answer(Landed, a, store.ErrUnknownOutcome)
	}
	return f.inner.Commit(ctx, txn)
}

// rewrite puts the same value again where txn wants a revision, so that it is not
// there any more.
func (f *Faulty) rewrite(ctx context.Context, txn store.Txn) {
	for _, c := range txn.If {
		if c.Want != store.WantRevision {
			continue
		}
		e, err := f.inner.Get(ctx, c.Key)
		if err != nil || e.Revision != c.Revision {
			continue
		}
		_, err = f.inner.Commit(ctx, store.Txn{If: []store.Condition{c}, Do: []store.Operation{store.Put(e.Key, e.Value)}})
		if err == nil {
			f.count(Conflict)
			return
		}
	}
}

// Watch implements [store.Store]. The plan is asked once for each loop.
func (f *Faulty) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		a := Attempt{Method: "watch", Key: prefix}
		fault := f.next(ctx, a)
		err := fault.Err
		switch fault.Kind {
		case Fail:
		case Gone:
			err = store.ErrGone
		default:
			f.inner.Watch(ctx, prefix, after)(yield)
			return
		}
		if fault.Changes > 0 && !f.changes(ctx, prefix, after, fault.Changes, yield) {
			return
		}
		yield(store.Change{}, f.answer(fault.Kind, a, err))
	}
}

// changes yields n changes with events, and the bookmarks before the last of them.
// It reports whether the loop goes on.
func (f *Faulty) changes(ctx context.Context, prefix string, after store.Position, n int, yield func(store.Change, error) bool) bool {
	for c, err := range f.inner.Watch(ctx, prefix, after) {
		if !yield(c, err) || err != nil {
			return false
		}
		if !c.Bookmark() {
			n--
		}
		if n == 0 {
			return true
		}
	}
	return false
}

// Close implements [store.Store].
func (f *Faulty) Close() error { return f.inner.Close() }
