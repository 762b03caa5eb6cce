// Package storetest is the contract of [store.Store] as runnable cases. A custom
// backend is right when they pass:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) storetest.Backend {
//			return storetest.Backend{Store: open(t), Compacts: true}
//		})
//	}
//
// Every failure says what was expected and why callers depend on it. The package
// also offers benchmarks that every driver shares ([Bench]), a wrapper that injects
// faults into any store ([Inject]), and a linearizability check for recorded
// histories ([Recorder]).
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Backend is a store under test and what its harness can do with it. A capability
// is declared here, never guessed; a case that needs one which is not declared is
// skipped by name.
//
// The functions are called from one goroutine at a time. [Run] closes every store
// it was given, so a harness need not, and may close it again.
type Backend struct {
	// Store is empty and used by nobody else.
	Store store.Store

	// Limits is what the store declares with [store.Limiter]. Zero: it declares no
	// limits.
	Limits store.Limits

	// Compacts says that every store of this backend is a [store.Compactor].
	Compacts bool

	// Counts says that every store of this backend is a [store.Counter].
	Counts bool

	// History bounds the history that the store keeps by itself: a position that
	// lies more than History commits of one small entry back is gone, one that lies
	// less than a quarter of it back is still there. At least 256. Zero: not
	// declared.
	History int

	// Second opens another handle on the same data, as another process would.
	Second func(context.Context) (store.Store, error)

	// Reopen ends the latest store as a crash would, or as close to one as the
	// harness can get, and opens the same data again.
	Reopen func(context.Context) (store.Store, error)

	// NewEpoch opens the data as after a restore from a backup: as it is now, but as
	// another history.
	NewEpoch func(context.Context) (store.Store, error)

	// Deep opens another empty store, which keeps a history of at least 25,000 commits of
	// one small entry.
	Deep func(context.Context) (store.Store, error)

	// Slow says that a commit takes milliseconds (a disk, a network): the cases are
	// made smaller and get longer deadlines.
	Slow bool
}

// Open makes one [Backend] for one case or benchmark. What it registers with
// t.Cleanup runs after the case.
type Open func(t testing.TB) Backend

// capability names a field of Backend that a case needs.
type capability string

const (
	needLimits   capability = "Limits"
	needCompacts capability = "Compacts"
	needCounts   capability = "Counts"
	needHistory  capability = "History"
	needSecond   capability = "Second"
	needReopen   capability = "Reopen"
	needNewEpoch capability = "NewEpoch"
	needDeep     capability = "Deep"
)

func (b Backend) has(c capability) bool {
	switch c {
	case needLimits:
		return b.Limits != store.Limits{}
	case needCompacts:
		return b.Compacts
	case needCounts:
		return b.Counts
	case needHistory:
		return b.History > 0
	case needSecond:
		return b.Second != nil
	case needReopen:
		return b.Reopen != nil
	case needNewEpoch:
		return b.NewEpoch != nil
	case needDeep:
		return b.Deep != nil
	}
	return false
}

// missing returns the first capability of needs that b does not have, or "".
func (b Backend) missing(needs []capability) capability {
	for _, need := range needs {
		if !b.has(need) {
			return need
		}
	}
	return ""
}

// leastHistory is the least Backend.History: the cases rely on a quarter of it.
const leastHistory = 256

// check refuses a declaration that the store contradicts.
func (b Backend) check() error {
	switch {
	case b.Store == nil:
		return errors.New("Backend.Store is nil")
	case b.History != 0 && b.History < leastHistory:
		return errors.New("Backend.History is less than 256: the cases need a quarter of it to be kept")
	case store.LimitsOf(b.Store) != b.Limits:
		return errors.New("Backend.Limits differs from what the store declares as a store.Limiter")
	}
	if _, ok := b.Store.(store.Compactor); b.Compacts && !ok {
		return errors.New("Backend.Compacts is declared, but the store is no store.Compactor")
	}
	if _, ok := b.Store.(store.Counter); b.Counts && !ok {
		return errors.New("Backend.Counts is declared, but the store is no store.Counter")
	}
	return nil
}

// deadline bounds one case: a broken driver tends to hang.
func (b Backend) deadline() time.Duration {
	if b.Slow {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// patience is how long a case waits for one change of a watch, so that a driver which never
// delivers it fails the case long before the deadline.
func (b Backend) patience() time.Duration {
	if b.Slow {
		return 15 * time.Second
	}
	return 5 * time.Second
}

// Run checks the contract of [store.Store], one subtest per case. Every case has a
// store of its own from open, and a deadline.
func Run(t *testing.T, open Open) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			if err := b.check(); err != nil {
				t.Fatal("storetest: ", err)
			}
			if need := b.missing(c.needs); need != "" {
				_ = b.Store.Close() // the skip is the news here
				t.Skipf("the backend does not declare the capability %s", need)
			}
			if failures := c.try(b, b.deadline()); len(failures) > 0 {
				t.Error(c.report(failures))
			}
		})
	}
}
