package parties_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const (
	agent    finalizer.Name = "example.com/agent"
	beat                    = 10 * time.Second // the defaults
	patience                = 30 * time.Second
	entries                 = "/registry/.parties/"
)

// state is the state of a line.
type state int

const (
	up   state = iota
	down       // every call fails at once
	hung       // no call returns until the caller gives up
	mute       // commits succeed, but their results are lost
)

var errDown = errors.New("the line is down")

// line is one instance's connection to a store.
type line struct {
	store.Store
	mu      sync.Mutex
	state   state
	before  func(store.Txn) // each commit
	commits []time.Time
}

func (l *line) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
}

func (l *line) pass(ctx context.Context) (state, error) {
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	switch s {
	case down:
		return s, errDown
	case hung:
		<-ctx.Done()
		return s, context.Cause(ctx)
	}
	return s, nil
}

func (l *line) List(ctx context.Context, q store.Query) (store.Page, error) {
	if _, err := l.pass(ctx); err != nil {
		return store.Page{}, err
	}
	return l.Store.List(ctx, q)
}

func (l *line) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	l.mu.Lock()
	l.commits = append(l.commits, time.Now())
	before := l.before
	l.mu.Unlock()
	if before != nil {
		before(txn)
	}
	s, err := l.pass(ctx)
	if err != nil {
		return 0, err
	}
	revision, err := l.Store.Commit(ctx, txn)
	if err == nil && s == mute {
		return 0, store.ErrUnknownOutcome
	}
	return revision, err
}

func (l *line) intercept(before func(store.Txn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = before
}

// tries returns the times of the commits that were tried since the last call.
func (l *line) tries() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	tries := l.commits
	l.commits = nil
	return tries
}

// instance is a running Announce.
type instance struct {
	line *line
	stop func() error // ends Announce and returns its error

	mu    sync.Mutex
	calls []string // of the hooks
}

// announce runs an instance over s until the test's end.
func announce(t testing.TB, s store.Store, f finalizer.Name, opts *parties.Options) *instance {
	t.Helper()
	i := &instance{line: &line{Store: s}}
	var o parties.Options
	if opts != nil {
		o = *opts
	}
	o.Hooks = parties.Hooks{
		Announced: func() { i.record("announced") },
		Failed:    func(err error) { i.record(fmt.Sprint("failed: ", err)) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- parties.Announce(ctx, i.line, f, &o) }()
	i.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = i.stop() })
	return i
}

func (i *instance) record(text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls = append(i.calls, text)
}

// hooks returns the calls of the hooks since the last call.
func (i *instance) hooks() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	calls := i.calls
	i.calls = nil
	return calls
}

func newStore(t testing.TB) *memory.Store {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func listed(t testing.TB, s store.Store) []parties.Party {
	t.Helper()
	list, err := parties.List(context.Background(), s, "")
	require.NoError(t, err)
	return list
}

// count returns the number of entries.
func count(t testing.TB, s store.Store) int {
	t.Helper()
	page, err := s.List(context.Background(), store.Query{Prefix: entries})
	require.NoError(t, err)
	return len(page.Entries)
}

func put(t testing.TB, s store.Store, key, value string) {
	t.Helper()
	_, err := s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put(key, []byte(value))}})
	require.NoError(t, err)
}
