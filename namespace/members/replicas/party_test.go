package replicas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var types = []registry.Type{
	{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
}

// callTime is the duration of each call to a source.
const callTime = 5 * time.Millisecond

// party contains several controllers of one party over one store, each with its own replica.
type party struct {
	store *memory.Store
	admin *registry.Registry
	tally
	peers []*peer
}

// peer is a controller with its replica and its connection.
type peer struct {
	*node
	stop func() // stops the controller, then the replica
}

// tally counts the passes and the calls to sources of all peers.
type tally struct {
	mu     sync.Mutex
	passes int
	calls  int
	now    map[string]int // running passes of each namespace
	each   map[string]int // passes of each namespace
	double map[string]int // passes that began while another of the same namespace ran
}

func newParty(t *testing.T) *party {
	t.Helper()
	p := &party{store: newStore(t), tally: tally{now: map[string]int{}, each: map[string]int{}, double: map[string]int{}}}
	p.admin = newRegistry(t, p.store)
	return p
}

func newRegistry(t *testing.T, s store.Store) *registry.Registry {
	t.Helper()
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// join adds a controller, with a replica if divided is set.
func (p *party) join(t *testing.T, divided bool) *peer {
	t.Helper()
	n := &node{line: newLine(p.store), log: new(events)}
	if divided {
		n = start(t, p.store, &replicas.Options{Label: fmt.Sprint("peer-", len(p.peers))})
	}
	r := newRegistry(t, n.line)
	d, err := r.Deleter(&registry.DeleterOptions{Sources: func(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
		for i := range sources {
			sources[i].Content = &counted{sources[i].Content, &p.tally}
		}
		return sources, nil
	}})
	require.NoError(t, err)
	opts := &controller.Options{Hooks: []controller.Hooks{p.hooks()}}
	if divided {
		opts.Division = n.Replica
	}
	c, err := controller.New(r, d, namespace.Party{Finalizer: finalizer.Kubernetes}, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	q := &peer{node: n}
	q.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		if divided {
			_ = n.stop()
		}
	})
	t.Cleanup(q.stop)
	p.peers = append(p.peers, q)
	return q
}

func (t *tally) hooks() controller.Hooks {
	return controller.Hooks{
		PassStarted: func(ctx context.Context, ref namespace.Ref) context.Context {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.passes++
			t.each[ref.Name]++
			if t.now[ref.Name]++; t.now[ref.Name] > 1 {
				t.double[ref.Name]++
			}
			return ctx
		},
		PassEnded: func(_ context.Context, ref namespace.Ref, _ pass.Result, _ error, _ time.Duration) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.now[ref.Name]--
		},
	}
}

// figures returns the numbers of passes, of passes beside another one for the same namespace,
// and of calls to sources so far.
func (t *tally) figures() (passes, double, calls int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.double {
		double += n
	}
	return t.passes, double, t.calls
}

// perName returns the passes of each namespace so far.
func (t *tally) perName() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.each)
}

// counted counts the calls of a content source, and delays each by callTime.
type counted struct {
	deleter.Content
	tally *tally
}

func (c *counted) call() {
	c.tally.mu.Lock()
	c.tally.calls++
	c.tally.mu.Unlock()
	time.Sleep(callTime)
}

func (c *counted) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	c.call()
	return c.Content.List(ctx, target, limit, next)
}

func (c *counted) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	c.call()
	return c.Content.Delete(ctx, target, name, uid)
}

func (c *counted) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	c.call()
	return c.Content.(deleter.CollectionDeleter).DeleteCollection(ctx, target)
}

func (c *counted) Wait(ctx context.Context, target deleter.Target, seen string) error {
	return c.Content.(deleter.Notifier).Wait(ctx, target, seen)
}

// held is a finalizer that keeps an object until release.
const held finalizer.Name = "example.com/held"

// create adds namespaces with an object of each type. A namespace selected by hold also gets
// an object with a finalizer.
func (p *party) create(t *testing.T, names []string, hold func(i int) bool) {
	t.Helper()
	for i, name := range names {
		_, err := p.admin.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}})
		require.NoError(t, err)
		for _, kind := range types {
			content, err := p.admin.Content(kind.Name())
			require.NoError(t, err)
			o := registry.Object{Meta: namespace.Meta{Name: "plain"}, Fields: map[string]json.RawMessage{"data": json.RawMessage(`{}`)}}
			_, err = content.Create(t.Context(), name, o)
			require.NoError(t, err)
			if hold != nil && hold(i) && kind.Group == "" {
				o.Name, o.Finalizers = "held", finalizer.NewSet(held)
				_, err = content.Create(t.Context(), name, o)
				require.NoError(t, err)
			}
		}
	}
}

func (p *party) delete(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := p.admin.Delete(t.Context(), name, namespace.Preconditions{})
		require.NoError(t, err)
	}
}

// release removes the finalizer of the held object in each namespace.
func (p *party) release(t *testing.T, names ...string) {
	t.Helper()
	content, err := p.admin.Content(types[0].Name())
	require.NoError(t, err)
	for _, name := range names {
		o, err := content.Get(t.Context(), name, "held")
		if errors.Is(err, namespace.ErrNotFound) {
			continue
		}
		require.NoError(t, err)
		o.Finalizers = finalizer.NewSet()
		o.ResourceVersion = ""
		_, err = content.Update(t.Context(), name, o)
		require.NoError(t, err)
	}
}

// left returns the number of remaining namespaces.
func (p *party) left(t *testing.T) int {
	t.Helper()
	list, err := p.admin.List(t.Context(), registry.ListOptions{})
	require.NoError(t, err)
	return len(list.Items)
}

// requireClean requires that the store contains only members, type records and the format
// record: content without its namespace would break rules R6 and R7.
func (p *party) requireClean(t *testing.T) {
	t.Helper()
	page, err := p.store.List(t.Context(), store.Query{})
	require.NoError(t, err)
	for _, e := range page.Entries {
		if e.Key != "/registry/.format" && !strings.HasPrefix(e.Key, "/registry/.types/") {
			require.Contains(t, e.Key, entries, "left behind")
		}
	}
}
