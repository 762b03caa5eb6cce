package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

// testcase is one promise of the contract.
type testcase struct {
	name  string
	want  string // the promise of the contract
	why   string // the consequence for callers if it is broken
	needs []capability
	run   func(*trial)
}

// report renders the failures of one case.
func (c testcase) report(failures []string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "\nexpected: %s\nbecause:  %s\n", c.want, c.why)
	for _, f := range failures {
		fmt.Fprintf(&s, "\n%s\n", strings.TrimSpace(f))
	}
	return s.String()
}

// trial is one run of one case. It collects failures instead of failing a test, so that the suite
// can run against stores that must fail.
type trial struct {
	ctx   context.Context // ends at the deadline
	store store.Store
	b     Backend

	mu       sync.Mutex
	failures []string
	step     string // the current step, reported if the case hangs
	stuck    string // the step at the deadline, or empty
	cleanups []func()
}

// grace is how long a case may take to end after its context has ended.
const grace = 5 * time.Second

// errDeadline is the cause when the context of a trial ends.
var errDeadline = errors.New("the deadline of the case has passed")

// try runs the case against b, closes its store, and returns the failures.
func (c testcase) try(b Backend, deadline time.Duration) []string {
	ctx, cancel := context.WithTimeoutCause(context.Background(), deadline, errDeadline)
	defer cancel()
	t := &trial{ctx: ctx, store: b.Store, b: b, step: "starting"}
	t.cleanup(func() {
		t.doing("closing the store")
		if err := b.Store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			t.late()
			t.clean()
		}()
		c.run(t)
	}()
	select {
	case <-done:
		return t.result()
	case <-ctx.Done():
		t.late()
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		t.Errorf("the store still hangs %v after the context ended: it ignores the context", grace)
	}
	if len(t.result()) == 0 {
		t.Errorf("the case did not end before its deadline")
	}
	return t.result()
}

func (t *trial) result() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.failures...)
}

// Errorf records a failure. With FailNow it implements require.TestingT.
func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	message := fmt.Sprintf(format, args...)
	if t.ctx.Err() != nil {
		step := t.step
		if t.stuck != "" {
			step = t.stuck
		}
		message = fmt.Sprintf("%v while %s\n%s", errDeadline, step, strings.TrimSpace(message))
	}
	t.failures = append(t.failures, message)
}

// FailNow ends the goroutine of the case; its cleanups run.
func (t *trial) FailNow() { runtime.Goexit() }

// fatalf records a failure and ends the case.
func (t *trial) fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

// doing records the next step of the case.
func (t *trial) doing(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = fmt.Sprintf(format, args...)
}

// late records the step at which the deadline found the case, before the cleanup changes it.
func (t *trial) late() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil && t.stuck == "" {
		t.stuck = t.step
	}
}

// cleanup registers f to run at the end of the case, in reverse order.
func (t *trial) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *trial) clean() {
	for {
		t.mu.Lock()
		if len(t.cleanups) == 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		t.mu.Unlock()
		f()
	}
}

// n scales the size of a case: full on a fast store, an eighth on a slow one, but at least 4.
func (t *trial) n(full int) int {
	if t.b.Slow {
		return max(full/8, 4)
	}
	return full
}

// kept is n, but at most the number of commits that certainly stay in the history.
func (t *trial) kept(full int) int {
	if n := t.n(full); t.b.History == 0 || n < t.b.History/4 {
		return n
	}
	return t.b.History/4 - 1
}

// other opens another store with a function of the backend, and closes it at the end of the case.
func (t *trial) other(what capability, open func(context.Context) (store.Store, error)) store.Store {
	t.doing("opening a store with Backend.%s", what.name)
	s, err := open(t.ctx)
	require.NoError(t, err, "Backend.%s", what.name)
	t.cleanup(func() {
		t.doing("closing the store that Backend.%s opened", what.name)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// all runs n functions concurrently and waits for them. The first error fails the case.
func (t *trial) all(n int, f func(i int) error) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
