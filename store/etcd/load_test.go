package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// patience bounds a call of the load.
const patience = 3 * time.Second

// load runs during a fault: writers of new keys, watches of these keys, and clients whose answers
// are recorded.
type load struct {
	t       *testing.T
	stores  []*Store // of the writers and watches
	history *storetest.Recorder
	clients []*client

	stop         chan struct{}
	running      sync.WaitGroup
	acknowledged atomic.Int64
	acted        atomic.Int64

	mu      sync.Mutex
	written map[string]store.Revision // acknowledged
	unknown map[string]bool           // may have happened
	refused map[string]bool           // must not have
	errs    []error
}

const (
	writers = 3
	clients = 4
	// actions bounds the calls of a client: the check is exponential in the number of concurrent calls.
	actions = 45
)

// newLoad opens the stores of a load.
func newLoad(t *testing.T, urls []string) *load {
	l := &load{
		t: t, history: &storetest.Recorder{}, stop: make(chan struct{}),
		written: map[string]store.Revision{}, unknown: map[string]bool{}, refused: map[string]bool{},
	}
	prefix, small := newPrefix(), newPrefix()
	for range writers {
		l.stores = append(l.stores, openAt(t, prefix, quick(), urls...))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range clients {
		s := openAt(t, small, quick(), urls...)
		if i == 0 {
			page, err := s.List(t.Context(), store.Query{})
			require.NoError(t, err)
			l.history.Start = page
		}
		l.clients = append(l.clients, &client{
			store: l.history.Store(i, s), name: fmt.Sprint(i), seen: map[string]store.Revision{}, random: rand.New(rand.NewPCG(seed, uint64(i))),
		})
	}
	return l
}

// run runs the load until fault has returned and more commits have been acknowledged. Then it
// checks results and watches.
func (l *load) run(fault func()) {
	t := l.t
	begin := now(t, l.stores[0])
	watching, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	var watches sync.WaitGroup
	seen := make([][]store.Change, len(l.stores))
	for i, s := range l.stores {
		watches.Go(func() { seen[i] = l.watch(watching, s, begin) })
	}
	for i, s := range l.stores {
		l.running.Go(func() { l.write(s, i) })
	}
	for _, c := range l.clients {
		l.running.Go(func() { l.act(c) })
	}
	var stop sync.Once
	halt := func() {
		stop.Do(func() { close(l.stop) })
		l.running.Wait()
	}
	defer halt()
	l.await(50, 5)
	fault()
	l.await(100, 1)
	halt()

	l.note(lastKey, put(t, l.stores[0], lastKey, lastKey), nil)
	end, err := l.stores[0].List(t.Context(), store.Query{})
	require.NoError(t, err)
	watches.Wait()
	l.checkWritten(end)
	l.checkWatched(end, seen)
	t.Logf("%d acknowledged, %d unknown, %d refused; history of %d calls",
		len(l.written), len(l.unknown), len(l.refused), l.history.Len())
	require.NoError(t, l.history.Check(time.Minute))
}

// await waits until this number of further commits was acknowledged, and the clients have made
// acts calls each, or all their calls.
func (l *load) await(commits, acts int64) {
	commits += l.acknowledged.Load()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.acknowledged.Load() < commits || l.acted.Load() < acts*clients {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(l.t, "the cluster did not recover", "the last errors: %v", l.lastErrors())
		}
	}
}

func (l *load) lastErrors() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[max(0, len(l.errs)-3):]
}

// write puts new keys until the load stops.
func (l *load) write(s *Store, writer int) {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		key := fmt.Sprintf("log/%d/%05d", writer, i)
		ctx, cancel := context.WithTimeout(l.t.Context(), patience)
		r, err := s.Commit(ctx, store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, []byte(key))}})
		cancel()
		l.note(key, r, err)
	}
}

func (l *load) note(key string, r store.Revision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.written[key] = r
		l.acknowledged.Add(1)
	case errors.Is(err, store.ErrUnknownOutcome):
		l.unknown[key] = true
		l.errs = append(l.errs, err)
	default:
		l.refused[key] = true
		l.errs = append(l.errs, err)
	}
}

// lastKey is written after the load has stopped.
const lastKey = "log/last"

// watch collects changes up to the change of lastKey.
func (l *load) watch(ctx context.Context, s *Store, after store.Position) (all []store.Change) {
	for c, err := range s.Watch(ctx, "log/", after) {
		if err != nil {
			l.t.Errorf("a watch ended: %v", err)
			return all
		}
		if c.Bookmark() {
			continue
		}
		all = append(all, c)
		if c.Events[0].Key == lastKey {
			return all
		}
	}
	return all
}

// checkWritten requires that all acknowledged writes are there, and no refused ones.
func (l *load) checkWritten(end store.Page) {
	there := map[string]store.Revision{}
	for _, e := range end.Entries {
		there[e.Key] = e.Revision
		require.Equal(l.t, e.Key, string(e.Value))
		if _, ok := l.written[e.Key]; !ok {
			require.True(l.t, l.unknown[e.Key], "%s exists, but was refused", e.Key)
		}
	}
	for key, r := range l.written {
		require.Equal(l.t, r, there[key], "%s was acknowledged", key)
	}
}

// checkWatched requires that every watch has yielded every commit once, in order.
func (l *load) checkWatched(end store.Page, seen [][]store.Change) {
	sorted := slices.Clone(end.Entries)
	slices.SortFunc(sorted, func(a, b store.Entry) int { return int(a.Revision - b.Revision) })
	for i, changes := range seen {
		got := make([]store.Entry, 0, len(changes))
		for _, c := range changes {
			require.Len(l.t, c.Events, 1)
			e := c.Events[0]
			require.Nil(l.t, e.Prev)
			got = append(got, store.Entry{Key: e.Key, Value: e.Value, Revision: c.Position.Revision})
		}
		require.Empty(l.t, cmp.Diff(sorted, got), "watch %d", i)
	}
}

// client acts at random on a few keys.
type client struct {
	store  store.Store
	name   string
	writes int
	seen   map[string]store.Revision
	random *rand.Rand
}

// act makes the calls of a client, at intervals.
func (l *load) act(c *client) {
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for range actions {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(l.t.Context(), patience)
		c.act(ctx)
		cancel()
		l.acted.Add(1)
	}
}

func (c *client) act(ctx context.Context) {
	key := string(rune('a' + c.random.IntN(3)))
	switch c.random.IntN(6) {
	case 0, 1:
		if e, err := c.store.Get(ctx, key); err == nil {
			c.seen[key] = e.Revision
		} else if errors.Is(err, store.ErrNotFound) {
			delete(c.seen, key)
		}
	case 2:
		if page, err := c.store.List(ctx, store.Query{}); err == nil {
			for _, e := range page.Entries {
				c.seen[e.Key] = e.Revision
			}
		}
	default:
		c.commit(ctx, key)
	}
}

// commit writes on condition that the last read of the client still holds. Sometimes it writes two
// keys, sometimes it deletes one.
func (c *client) commit(ctx context.Context, key string) {
	c.writes++
	txn := store.Txn{If: []store.Condition{store.Absent(key)}}
	if r, ok := c.seen[key]; ok {
		txn.If[0] = store.At(key, r)
	}
	value := []byte(c.name + "/" + fmt.Sprint(c.writes))
	txn.Do = []store.Operation{store.Put(key, value)}
	switch c.random.IntN(5) {
	case 0:
		txn.Do = []store.Operation{store.Put("d", value), store.Delete(key)}
	case 1:
		txn.Do = append(txn.Do, store.Put("d", value))
	}
	r, err := c.store.Commit(ctx, txn)
	var conflict *store.ConflictError
	switch {
	case err == nil:
		c.seen[key] = r
	case errors.As(err, &conflict) && conflict.Current != nil:
		c.seen[key] = conflict.Current.Revision
	default:
		delete(c.seen, key)
	}
}
