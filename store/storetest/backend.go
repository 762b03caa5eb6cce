// Package storetest checks the contract of [store.Store] as runnable cases. A custom backend is
// correct if they pass:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) storetest.Backend {
//			return storetest.Backend{Store: open(t), Compacts: true}
//		})
//	}
//
// Every failure names the promise and the reason why callers depend on it. The package also
// offers benchmarks that every driver shares ([Bench]), a wrapper that injects faults into any
// store ([Inject]), and a linearizability check for recorded histories ([Recorder]).
package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Backend is a store under test with the capabilities of its harness. Capabilities are declared,
// never guessed. A case that needs an undeclared one is skipped by name.
//
// The suite calls the functions from one goroutine at a time. [Run] closes every store it
// received. The harness may close it again.
type Backend struct {
	// Store is empty and has no other user.
	Store store.Store

	// Limits are the limits that the store declares with [store.Limiter], if any.
	Limits store.Limits

	// Compacts declares that every store of this backend is a [store.Compactor].
	Compacts bool

	// Counts declares that every store of this backend is a [store.Counter].
	Counts bool

	// History bounds the history that the store keeps by itself. A position more than History
	// commits of one small entry back is gone; a position less than a quarter of that back is
	// available. At least 256. Zero: not declared.
	History int

	// Second opens another handle on the same data, like another process.
	Second func(context.Context) (store.Store, error)

	// Reopen ends the latest store like a crash, or as close to one as the harness can get, and
	// opens the same data again.
	Reopen func(context.Context) (store.Store, error)

	// NewEpoch opens the current data like after a restore from a backup, as another history.
	NewEpoch func(context.Context) (store.Store, error)

	// Deep opens another empty store with a history of at least 25,000 commits of one small
	// entry.
	Deep func(context.Context) (store.Store, error)

	// Slow declares that a commit takes milliseconds (a disk, a network). The cases are then
	// smaller and have longer deadlines.
	Slow bool
}

// Open makes one [Backend] for one case or benchmark. Its t.Cleanup functions run after the case.
type Open func(t testing.TB) Backend

// capability is a field of Backend that a case needs.
type capability struct {
	name string
	has  func(Backend) bool
}

var (
	needLimits   = capability{"Limits", func(b Backend) bool { return b.Limits != store.Limits{} }}
	needCompacts = capability{"Compacts", func(b Backend) bool { return b.Compacts }}
	needCounts   = capability{"Counts", func(b Backend) bool { return b.Counts }}
	needHistory  = capability{"History", func(b Backend) bool { return b.History > 0 }}
	needSecond   = capability{"Second", func(b Backend) bool { return b.Second != nil }}
	needReopen   = capability{"Reopen", func(b Backend) bool { return b.Reopen != nil }}
	needNewEpoch = capability{"NewEpoch", func(b Backend) bool { return b.NewEpoch != nil }}
	needDeep     = capability{"Deep", func(b Backend) bool { return b.Deep != nil }}
)

// missing returns the name of the first capability of needs that b does not have, or "".
func (b Backend) missing(needs []capability) string {
	for _, need := range needs {
		if !need.has(b) {
			return need.name
		}
	}
	return ""
}

// leastHistory is the smallest Backend.History, of which cases use a quarter.
const leastHistory = 256

// check returns an error if a declaration contradicts the store.
func (b Backend) check() error {
	switch {
	case b.Store == nil:
		return errors.New("Backend.Store is nil")
	case b.History != 0 && b.History < leastHistory:
		return errors.New("Backend.History is less than 256: the cases need a quarter of it to be kept")
	case store.LimitsOf(b.Store) != b.Limits:
		return errors.New("Backend.Limits differs from the limits that the store declares as a store.Limiter")
	}
	if _, ok := b.Store.(store.Compactor); b.Compacts && !ok {
		return errors.New("Backend.Compacts is declared, but the store is no store.Compactor")
	}
	if _, ok := b.Store.(store.Counter); b.Counts && !ok {
		return errors.New("Backend.Counts is declared, but the store is no store.Counter")
	}
	return nil
}

// deadline bounds one case, because a broken driver tends to hang.
func (b Backend) deadline() time.Duration {
	if b.Slow {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// patience bounds the wait for one change of a watch, so that a driver that never delivers it
// fails the case long before the deadline.
func (b Backend) patience() time.Duration {
	if b.Slow {
		return 15 * time.Second
	}
	return 5 * time.Second
}

// Run checks the contract of [store.Store] with one subtest per case. Every case has its own
// store from open, and a deadline.
func Run(t *testing.T, open Open) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			if err := b.check(); err != nil {
				t.Fatal("storetest: ", err)
			}
			if need := b.missing(c.needs); need != "" {
				_ = b.Store.Close() // the test is skipped in any case
				t.Skipf("the backend does not declare the capability %s", need)
			}
			if failures := c.try(b, b.deadline()); len(failures) > 0 {
				t.Error(c.report(failures))
			}
		})
	}
}

// cases returns the contract, by theme.
func cases() []testcase {
	return slices.Concat(
		commitCases(),
		inputCases(),
		limitCases(),
		readCases(),
		pageCases(),
		countCases(),
		watchCases(),
		flowCases(),
		backlogCases(),
		endCases(),
		ruleCases(),
		durableCases(),
		linearCases(),
	)
}
