package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// ErrInjected is in the chain of every error that [Faulty] injects.
var ErrInjected = errors.New("injected fault")

// Kind is a kind of fault. All kinds keep the contract of [store.Store]: code that fails under
// them would also fail over a network.
type Kind string

// The kinds of faults.
const (
	// None passes the call on.
	None Kind = ""
	// Conflict writes the current value again, like another writer, just before a Commit. The key
	// is that of the first condition of the kind At that holds.
	Conflict Kind = "conflict"
	// Lost returns an unknown outcome for a Commit that is not applied. A Commit that cannot
	// succeed gets its true result.
	Lost Kind = "lost"
	// Landed returns an unknown outcome for a Commit that is applied. A Commit that fails gets
	// its true result.
	Landed Kind = "landed"
	// Fail fails any call with Fault.Err, without an effect. A watch fails after Fault.Changes
	// changes.
	Fail Kind = "fail"
	// Gone ends a watch with [store.ErrGone] after Fault.Changes changes, and fails a List at a
	// position with it.
	Gone Kind = "gone"
)

// Fault is the fault of one call. A kind that does not fit the call has no effect.
type Fault struct {
	Kind    Kind
	Delay   time.Duration // before the call, or until its context ends
	Err     error         // of Fail; nil means ErrInjected alone
	Changes int           // the number of changes with events that a watch yields first
}

// Attempt describes a call to a [Plan].
type Attempt struct {
	Method string     // "get", "list", "commit" or "watch" (each loop over it)
	N      int        // the number of earlier calls of this method
	Key    string     // of a get; the prefix of a listing or watch
	Txn    *store.Txn // of a commit; read-only
}

// Plan returns the fault of a call. Many goroutines may call it at once.
type Plan func(Attempt) Fault

// Faulty is a store with injected faults. It offers neither compaction nor counting; use
// [Faulty.Unwrap] for them.
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

// Inject wraps s so that plan decides on the faults of its calls. A nil plan injects nothing. A
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

// Unwrap returns the wrapped store.
func (f *Faulty) Unwrap() store.Store { return f.inner }

// Limits implements [store.Limiter].
func (f *Faulty) Limits() store.Limits { return store.LimitsOf(f.inner) }

// Injected returns how often each kind took effect, so that a test can check that its faults
// occurred.
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

// next calls the plan and waits for the delay.
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
		case <-ctx.Done(): // the call reports that
		}
	}
	return fault
}

// answer returns the error of a fault and counts the fault.
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

// rewrite writes the current value again at a key of txn, so that its revision no longer matches.
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

// Watch implements [store.Store]. It calls the plan once for each loop.
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

// changes yields n changes with events, and the bookmarks before the last of them. It reports
// whether the loop continues.
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

// Rates holds the frequencies of the faults of a seeded plan. Each is a probability, from 0 to 1,
// for each call that the kind fits.
type Rates struct {
	Conflict float64 // of commits
	Lost     float64 // of commits
	Landed   float64 // of commits
	Fail     float64 // of all calls; a watch ends after at most Changes changes
	Gone     float64 // of watches, after at most Changes changes, and of listings at a position
	Delay    float64 // of all calls, with or without another fault

	MaxDelay time.Duration // the longest delay; zero means 1 ms
	Changes  int           // zero means that a watch ends before its first change
}

func (r Rates) check() error {
	for _, rate := range []struct {
		name string
		p    float64
	}{
		{"Conflict", r.Conflict}, {"Lost", r.Lost}, {"Landed", r.Landed}, {"Fail", r.Fail}, {"Gone", r.Gone}, {"Delay", r.Delay},
		{"Conflict + Lost + Landed + Fail", r.Conflict + r.Lost + r.Landed + r.Fail}, {"Fail + Gone", r.Fail + r.Gone},
	} {
		if !(rate.p >= 0 && rate.p <= 1) { // also rejects NaN
			return fmt.Errorf("%w: the rate %s is %v: it must be from 0 to 1", store.ErrInvalid, rate.name, rate.p)
		}
	}
	if r.MaxDelay < 0 || r.Changes < 0 {
		return fmt.Errorf("%w: MaxDelay is %v and Changes is %d: they must not be negative", store.ErrInvalid, r.MaxDelay, r.Changes)
	}
	return nil
}

// Seeded returns a plan with random faults. For the same seed and rates, the n-th call of a
// method has the same fault, regardless of calls of other methods. Rates out of range are
// [store.ErrInvalid].
func Seeded(seed uint64, rates Rates) (Plan, error) {
	if err := rates.check(); err != nil {
		return nil, err
	}
	if rates.MaxDelay == 0 {
		rates.MaxDelay = time.Millisecond
	}
	return func(a Attempt) Fault {
		method := fnv.New32a()
		_, _ = method.Write([]byte(a.Method)) // never fails
		return rates.draw(a.Method, rand.New(rand.NewPCG(seed, uint64(method.Sum32())<<32|uint64(uint32(a.N)))))
	}, nil
}

func (r Rates) draw(method string, random *rand.Rand) Fault {
	var fault Fault
	if random.Float64() < r.Delay {
		fault.Delay = time.Duration(random.Int64N(int64(r.MaxDelay))) + 1
	}
	fault.Changes = random.IntN(r.Changes + 1)
	p := random.Float64()
	for _, k := range r.kinds(method) {
		if p < k.rate {
			fault.Kind = k.kind
			break
		}
		p -= k.rate
	}
	return fault
}

type kindRate struct {
	kind Kind
	rate float64
}

// kinds returns the kinds that fit method.
func (r Rates) kinds(method string) []kindRate {
	switch method {
	case "commit":
		return []kindRate{{Fail, r.Fail}, {Conflict, r.Conflict}, {Lost, r.Lost}, {Landed, r.Landed}}
	case "list", "watch":
		return []kindRate{{Fail, r.Fail}, {Gone, r.Gone}}
	}
	return []kindRate{{Fail, r.Fail}}
}
