package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const (
	group    = "example.com/tenants"
	entries  = "/registry/.replicas/" + group + "/"
	beat     = 2 * time.Second // the defaults
	patience = 6 * time.Second
	bound    = patience + beat
)

// state is the state of a line.
type state int

const (
	up   state = iota
	down       // every call fails at once
	hung       // no call returns, and no watch yields, until the line is up or the caller gives up
	deaf       // commits succeed, but no watch yields
	mute       // watches yield and commits succeed, but the results of commits are lost
)

var errDown = errors.New("the line is down")

// line is one replica's connection to a store.
type line struct {
	store.Store
	mu      sync.Mutex
	state   state
	changed chan struct{}
	commits int
}

func newLine(s store.Store) *line { return &line{Store: s, changed: make(chan struct{})} }

func (l *line) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *line) get() (state, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

// pass waits until the line is up, mute or in one of the also states. If the line is down,
// it returns errDown.
func (l *line) pass(ctx context.Context, also ...state) (state, error) {
	for {
		s, changed := l.get()
		if s == up || s == mute {
			return s, nil
		}
		for _, a := range also {
			if s == a {
				return s, nil
			}
		}
		if s == down {
			return s, errDown
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

func (l *line) List(ctx context.Context, q store.Query) (store.Page, error) {
	if _, err := l.pass(ctx, deaf); err != nil {
		return store.Page{}, err
	}
	return l.Store.List(ctx, q)
}

func (l *line) Get(ctx context.Context, key string) (store.Entry, error) {
	if _, err := l.pass(ctx, deaf); err != nil {
		return store.Entry{}, err
	}
	return l.Store.Get(ctx, key)
}

func (l *line) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	s, err := l.pass(ctx, deaf)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.commits++
	l.mu.Unlock()
	revision, err := l.Store.Commit(ctx, txn)
	if err == nil && s == mute {
		return 0, store.ErrUnknownOutcome
	}
	return revision, err
}

func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commits
}

func (l *line) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		for change, err := range l.Store.Watch(ctx, prefix, after) {
			if err == nil {
				_, err = l.pass(ctx)
			}
			if !yield(change, err) || err != nil {
				return
			}
		}
	}
}

// node is a running replica.
type node struct {
	*replicas.Replica
	line *line
	stop func() error // ends Run and returns its error
	log  *events
}

// start runs a replica over s until the test's end.
func start(t testing.TB, s store.Store, opts *replicas.Options) *node {
	t.Helper()
	n := &node{line: newLine(s), log: new(events)}
	var o replicas.Options
	if opts != nil {
		o = *opts
	}
	n.log.hook(&o.Hooks)
	r, err := replicas.New(n.line, group, &o)
	require.NoError(t, err)
	n.Replica = r
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	n.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = n.stop() })
	return n
}

// starts runs count replicas.
func starts(t testing.TB, s store.Store, count int) []*node {
	t.Helper()
	nodes := make([]*node, count)
	for i := range nodes {
		nodes[i] = start(t, s, &replicas.Options{Label: fmt.Sprint("node-", i)})
	}
	return nodes
}

// events records calls of hooks.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf(format, args...))
}

// all returns the recorded events that begin with one of kinds, in order.
func (e *events) all(kinds ...string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []string
	for _, one := range e.list {
		for _, kind := range kinds {
			if strings.HasPrefix(one, kind) {
				list = append(list, one)
			}
		}
	}
	return list
}

// hook sets the hooks to record events. It keeps the Members hook of h.
func (e *events) hook(h *replicas.Hooks) {
	members := h.Members
	h.Joined = func(self replicas.Member) { e.add("joined as %s", self.Label) }
	h.Lapsed = func(why error) { e.add("lapsed: %v", why) }
	h.Expelled = func(m replicas.Member) { e.add("expelled %s", m.Label) }
	h.Failed = func(err error) { e.add("failed: %v", err) }
	h.Members = func(list []replicas.Member) {
		e.add("members %d", len(list))
		if members != nil {
			members(list)
		}
	}
}

func newStore(t testing.TB) *memory.Store {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// names returns n distinct names.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("tenant-", i)
	}
	return list
}

// owned counts the names of each node, the names without an owner, and the names with
// several owners.
func owned(nodes []*node, names []string) (each []int, none, several int) {
	each = make([]int, len(nodes))
	for _, name := range names {
		owners := 0
		for i, n := range nodes {
			if n.Owns(name) {
				owners++
				each[i]++
			}
		}
		switch {
		case owners == 0:
			none++
		case owners > 1:
			several++
		}
	}
	return each, none, several
}

// requireDivided requires that each name has one owner, and that the live nodes own about the
// same number of names.
func requireDivided(t testing.TB, nodes []*node, live int) {
	t.Helper()
	const many = 1000
	each, none, several := owned(nodes, names(many))
	require.Zero(t, none, "names without an owner; shares %v", each)
	require.Zero(t, several, "names with several owners; shares %v", each)
	sharing := 0
	for _, n := range each {
		if n > 0 {
			sharing++
			require.Greater(t, n, many/live/2, "shares %v", each)
			require.Less(t, n, many/live*2, "shares %v", each)
		}
	}
	require.Equal(t, live, sharing, "shares %v", each)
}
