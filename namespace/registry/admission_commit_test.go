package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// counting keeps in the status of each counter of a namespace how many widgets there
// are, and refuses more than its spec allows. A new counter is counted by the first
// write that meets it.
var counting = plugin(func(ctx context.Context, w *registry.Write) error {
	if w.Itself != nil || len(w.Objects) == 0 {
		return nil
	}
	if first := w.Objects[0]; first.Type.Name() == counters && first.Verb == registry.Create {
		w.TouchGate()
		return nil
	}
	if w.Objects[0].Type.Name() != widgets {
		return nil
	}
	delta := 0
	for _, o := range w.Objects {
		switch {
		case o.Old == nil:
			delta++
		case o.New == nil:
			delta--
		}
	}
	if delta == 0 {
		return nil
	}
	if _, err := w.RequireGate(ctx); err != nil {
		return err
	}
	all, err := w.List(ctx, counters)
	if err != nil {
		return err
	}
	for _, counter := range all {
		if err := count(ctx, w, counter, delta); err != nil {
			return err
		}
	}
	return nil
})

var errFull = errors.New("full")

func count(ctx context.Context, w *registry.Write, counter registry.Object, delta int) error {
	used, known := countOf(counter)
	if !known {
		all, err := w.List(ctx, widgets)
		if err != nil {
			return err
		}
		used = len(all)
	}
	var most int
	if err := json.Unmarshal(counter.Fields["spec"], &most); err != nil {
		return err
	}
	if delta > 0 && used+delta > most {
		return errFull
	}
	updated := counter.DeepCopy()
	updated.Fields["status"] = json.RawMessage(fmt.Sprint(used + delta))
	return w.Replace(counter, updated)
}

// countOf returns the count of a counter, and whether it has one.
func countOf(counter registry.Object) (int, bool) {
	var used int
	err := json.Unmarshal(counter.Fields["status"], &used)
	return used, err == nil
}

func counter(name string, most int) registry.Object {
	return registry.Object{
		Meta:   namespace.Meta{Name: name},
		Fields: map[string]json.RawMessage{"spec": json.RawMessage(fmt.Sprint(most))},
	}
}

// requireCounted requires that each counter with a count matches the objects of its
// namespace, and returns the number of such counters.
func (e *env) requireCounted(ns string, most int) int {
	e.t.Helper()
	list, err := e.content(widgets).List(e.ctx, ns, registry.ListOptions{})
	require.NoError(e.t, err)
	all, err := e.content(counters).List(e.ctx, ns, registry.ListOptions{})
	require.NoError(e.t, err)
	counted := 0
	for _, c := range all.Items {
		if used, known := countOf(c); known {
			counted++
			require.Equal(e.t, len(list.Items), used, "counter %s of %s", c.Name, ns)
			require.LessOrEqual(e.t, used, most)
		}
	}
	return counted
}

// faults returns a plan under which of100 percent of commits and some reads fail.
func faults(seed uint64, of100 int) storetest.Plan {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 1))
	kinds := []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Conflict, storetest.Fail}
	return func(a storetest.Attempt) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch n := rnd.IntN(100); {
		case n >= of100:
			return storetest.Fault{}
		case a.Method == "commit":
			return storetest.Fault{Kind: kinds[rnd.IntN(len(kinds))]}
		case n < of100/4:
			return storetest.Fault{Kind: storetest.Fail}
		}
		return storetest.Fault{}
	}
}

// A plugin's count is exact under concurrent writes, deletions and collections, with and
// without faults of the store.
func TestAdmissionCountsExactly(t *testing.T) {
	for _, of100 := range []int{0, 15} {
		t.Run(fmt.Sprint("faults=", of100), func(t *testing.T) {
			const writers, rounds, most = 16, 60, 25
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			s, err := memory.New(nil)
			require.NoError(t, err)
			plan := faults(seed, of100)
			var over atomic.Bool // the final checks meet no faults
			faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
				if over.Load() {
					return storetest.Fault{}
				}
				return plan(a)
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, faulty.Close()) })
			calm, e := admittedEnv(t, s, counting), admittedEnv(t, faulty, counting)
			calm.create("x")
			start := now(t, s)
			calm.put(counters, "x", counter("used", most))
			var made, refused atomic.Int64
			var running sync.WaitGroup
			for writer := range writers {
				rnd := rand.New(rand.NewPCG(seed, uint64(writer)+2))
				running.Go(func() {
					for range rounds {
						switch err := countedOperation(e, rnd); {
						case err == nil:
							made.Add(1)
						case errors.Is(err, errFull):
							refused.Add(1)
						}
					}
				})
			}
			running.Wait()
			over.Store(true)
			require.Equal(t, 1, calm.requireCounted("x", most))
			require.NotZero(t, made.Load())
			require.NotZero(t, refused.Load())
			require.NoError(t, registrytest.Audit(e.ctx, s, "registry", start, e.revision()))
			require.NoError(t, countedAtEveryRevision(t, s, start, calm.revision()))
			if of100 > 0 {
				require.Len(t, faulty.Injected(), 4, "every kind of fault must have struck")
			}
		})
	}
}

// countedOperation is one write of a client to the namespace x.
func countedOperation(e *env, rnd *rand.Rand) error {
	w := e.content(widgets)
	o := object(fmt.Sprint("o", rnd.IntN(40)))
	if rnd.IntN(3) == 0 {
		o.Finalizers = finalizer.NewSet("example.com/f")
	}
	var err error
	switch n := rnd.IntN(100); {
	case n < 60:
		_, err = w.Create(e.ctx, "x", o)
	case n < 63:
		_, err = w.Create(e.ctx, "x", registry.Object{Meta: namespace.Meta{GenerateName: "g-"}})
	case n < 80:
		o.Labels = map[string]string{"n": fmt.Sprint(n)}
		_, err = w.Update(e.ctx, "x", o) // it may remove a marked one
	case n < 97:
		_, err = w.Delete(e.ctx, "x", o.Name, anyVersion)
	default:
		_, err = w.DeleteCollection(e.ctx, "x", labels(e.t, ""), fields(e.t, ""))
	}
	return err
}

// countedAtEveryRevision replays the history and compares each counter with the widgets
// after each commit.
func countedAtEveryRevision(t *testing.T, s store.Store, after store.Position, until store.Revision) error {
	there := map[string]bool{}
	used := map[string]int{}
	for change, err := range s.Watch(t.Context(), "/registry/", after) {
		require.NoError(t, err)
		for _, event := range change.Events {
			if name, ok := strings.CutPrefix(event.Key, "/registry/widgets.example.com/x/"); ok {
				there[name] = true
				if event.Deleted {
					delete(there, name)
				}
			}
			if name, ok := strings.CutPrefix(event.Key, "/registry/counters.example.com/x/"); ok {
				delete(used, name)
				var c registry.Object
				if !event.Deleted {
					require.NoError(t, json.Unmarshal(event.Value, &c))
				}
				if n, known := countOf(c); known {
					used[name] = n
				}
			}
		}
		for name, n := range used {
			if n != len(there) {
				return fmt.Errorf("revision %d: counter %s says %d, there are %d", change.Position.Revision, name, n, len(there))
			}
		}
		if change.Position.Revision >= until {
			return nil
		}
	}
	return errors.New("the watch ended")
}

// A counter that is created during other creates is exact from its first count: its
// creation touches the gate, so creates that did not see it are tried again.
func TestAdmissionHasNoPhantoms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 30 {
		e := admittedEnv(t, nil, counting)
		e.create("x")
		start := now(t, e.store)
		var running sync.WaitGroup
		for writer := range 8 {
			rnd := rand.New(rand.NewPCG(seed, uint64(100*round+writer)))
			running.Go(func() {
				for i := range 12 {
					name := fmt.Sprintf("o-%d-%d", writer, i)
					if _, err := e.content(widgets).Create(e.ctx, "x", object(name)); err != nil {
						t.Errorf("create: %v", err)
					}
					if rnd.IntN(3) == 0 {
						if _, err := e.content(widgets).Delete(e.ctx, "x", name, anyVersion); err != nil {
							t.Errorf("delete: %v", err)
						}
					}
				}
			})
		}
		for i := range 2 {
			running.Go(func() {
				if _, err := e.content(counters).Create(e.ctx, "x", counter(fmt.Sprint("c", i), 1000)); err != nil {
					t.Errorf("counter: %v", err)
				}
			})
		}
		running.Wait()
		e.put(widgets, "x", object("last"))
		require.Equal(t, 2, e.requireCounted("x", 1000))
		require.NoError(t, countedAtEveryRevision(t, e.store, start, e.revision()))
	}
}

// tallying adds one to the counter "tally" of a namespace with every write to it, and
// touches its gate.
var tallying = plugin(func(ctx context.Context, w *registry.Write) error {
	if len(w.Objects) > 0 && (w.Objects[0].Type.Name() == counters || w.Namespace == "") {
		return nil
	}
	tally, err := w.Get(ctx, counters, "tally")
	if errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w.TouchGate()
	n, _ := countOf(tally)
	updated := tally.DeepCopy()
	updated.Fields["status"] = json.RawMessage(fmt.Sprint(n + 1))
	return w.Replace(tally, updated)
})

// Every write that passes a chain lands exactly once under every fault of the first commits,
// with all writes that join it.
func TestAdmittedWritesUnderFaults(t *testing.T) {
	unadmitted := map[string]bool{ // no client requests them, or they change no tally
		"pass deletes": true, "pass deletes collection": true, "create": true, "create generated": true, "delete and remove": true,
	}
	for _, op := range operations() {
		for _, kind := range []storetest.Kind{storetest.None, storetest.Lost, storetest.Landed, storetest.Conflict} {
			for _, n := range []int64{1, 3} {
				t.Run(fmt.Sprintf("%s/%s %d", op.name, kind, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						plain, plan, faulty := faultyEnv(t)
						e := admittedEnv(t, faulty, tallying)
						plain.prepare()
						for _, ns := range []string{"x", "dying"} {
							tallied(t, e, ns)
						}
						start := now(t, faulty.Unwrap())
						made := op.under(e, plan, kind, n)
						total := 0
						for _, ns := range []string{"x", "dying"} {
							tally, err := e.content(counters).Get(e.ctx, ns, "tally")
							require.NoError(t, err)
							n, _ := countOf(tally)
							total += n
						}
						want := 1
						switch {
						case unadmitted[op.name] || !made:
							want = 0
						case op.name == "delete collection" && kind == storetest.Conflict && n == 3:
							want = 2 // the batch was cut in half
						}
						require.Equal(t, want, total)
						require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
					})
				})
			}
		}
	}
}

// tallied puts a tally into a namespace, even into a terminating one.
func tallied(t *testing.T, e *env, ns string) {
	if e.get(ns).DeletionTimestamp.IsZero() {
		e.put(counters, ns, object("tally"))
		return
	}
	document := fmt.Sprintf(`{"kind":"Counter","apiVersion":"example.com/v1","metadata":{"name":"tally","namespace":%q,"uid":"u-%s"},"spec":0}`, ns, ns)
	_, err := e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{
		store.Put("/registry/counters.example.com/"+ns+"/tally", storedValue(t, document)),
	}})
	require.NoError(t, err)
}

// rewriting writes the value at key again before each commit that requires its revision, up
// to most times.
type rewriting struct {
	store.Store
	key  string
	n    int
	most int // zero: always
}

func (s *rewriting) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	for _, c := range txn.If {
		if c.Key != s.key || s.most > 0 && s.n >= s.most {
			continue
		}
		s.n++
		entry, err := s.Get(ctx, s.key)
		if err != nil {
			return 0, err
		}
		if _, err := s.Store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(s.key, entry.Value)}}); err != nil {
			return 0, err
		}
	}
	return s.Store.Commit(ctx, txn)
}

// A write whose joined conditions keep failing ends with a conflict after a bounded number
// of attempts, and changes nothing.
func TestR10_AdmissionIsTriedSoOften(t *testing.T) {
	for _, key := range []string{"/registry/counters.example.com/x/tally", "/registry/.gate/x"} {
		synctest.Test(t, func(t *testing.T) {
			m, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			s := &rewriting{Store: m}
			e := admittedEnv(t, s, tallying)
			e.create("x")
			e.put(counters, "x", object("tally"))
			e.put(widgets, "x", object("a"))
			s.key = key
			w := e.content(widgets)
			for what, do := range map[string]func() error{
				"create": func() error { _, err := w.Create(e.ctx, "x", object("new")); return err },
				"update": func() error { _, err := w.Update(e.ctx, "x", object("a", "example.com/f")); return err },
				"delete": func() error { _, err := w.Delete(e.ctx, "x", "a", anyVersion); return err },
				"collection": func() error {
					_, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
					return err
				},
			} {
				s.n = 0
				err := do()
				require.ErrorIs(t, err, namespace.ErrConflict, what)
				require.NotErrorIs(t, err, namespace.ErrUnknownOutcome, what)
				require.Equal(t, 32, s.n, "%s: attempts", what)
			}
			require.True(t, e.hasWidget("x", "a"))
			require.False(t, e.hasWidget("x", "new"))
			ctx, cancel := context.WithCancelCause(e.ctx)
			cause := errors.New("no longer")
			s.n = 0
			go func() {
				synctest.Wait()
				cancel(cause) // during the backoff
			}()
			_, err = w.Create(ctx, "x", object("new"))
			require.ErrorIs(t, err, cause)
			require.Less(t, s.n, 32)
		})
	}
}

// Conflicts about the objects of a batch halve it; conflicts about objects that plugins
// replace do not.
func TestAdmittedBatchStaysWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &rewriting{Store: m, most: 6}
		e := admittedEnv(t, s, tallying)
		e.create("x")
		for _, name := range []string{"a", "b", "c"} {
			e.put(widgets, "x", object(name))
		}
		e.put(counters, "x", object("tally"))
		s.key = "/registry/counters.example.com/x/tally"
		done, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		require.Equal(t, registry.Deletion{Deleted: 3}, done)
		require.Equal(t, 6, s.n)
		tally, err := e.content(counters).Get(e.ctx, "x", "tally")
		require.NoError(t, err)
		require.Equal(t, `1`, string(tally.Fields["status"]), "one commit")
	})
}

// A batch that is halved while it holds a lock does not wait for itself.
func TestAdmittedBatchIsHalvedWhileLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &rewriting{Store: m, most: 1}
		attempt := 0
		e := admittedEnv(t, limited{s, store.Limits{Operations: 20}}, onWidgets(func(ctx context.Context, w *registry.Write) error {
			if w.Objects[0].Verb != registry.Delete {
				return nil
			}
			all, err := w.List(ctx, counters)
			if err != nil {
				return err
			}
			if attempt++; attempt == 1 {
				all = all[:1]
			}
			for _, o := range all {
				if err := w.Replace(o, o); err != nil {
					return err
				}
			}
			return nil
		}))
		e.create("x")
		for i := range 17 {
			e.put(counters, "x", object(fmt.Sprintf("c%02d", i)))
		}
		for i := range 4 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		s.key = "/registry/counters.example.com/x/c00"
		done, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		require.Equal(t, registry.Deletion{Deleted: 4}, done)
		require.Equal(t, 1, s.n, "it was overtaken once")
		require.Equal(t, 4, attempt, "overtaken, too large, and its halves")
	})
}

// limited is a store with limits.
type limited struct {
	store.Store
	limits store.Limits
}

func (s limited) Limits() store.Limits { return s.limits }

// A canceled request ends with the cause of its context, not with a refusal of the plugin.
func TestAdmissionWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("gave up")
	ending := false
	e := admittedEnv(t, nil, plugin(func(ctx context.Context, _ *registry.Write) error {
		if !ending {
			return nil
		}
		cancel(gaveUp)
		return fmt.Errorf("asking another server: %w", context.Cause(ctx))
	}))
	e.create("x")
	e.put(widgets, "x", object("a"))
	ending = true
	_, err := e.content(widgets).Update(ctx, "x", object("a", "example.com/f"))
	require.ErrorIs(t, err, gaveUp)
	require.NotErrorIs(t, err, namespace.ErrForbidden)
}

// A plugin that held a missing gate is called again if the namespace is recreated before
// the commit.
func TestHoldingAMissingGate(t *testing.T) {
	plain := admittedEnv(t, nil)
	var limits []int
	e := admittedEnv(t, plain.store, onWidgets(func(ctx context.Context, w *registry.Write) error {
		if _, err := w.RequireGate(ctx); err != nil {
			return err
		}
		all, err := w.List(ctx, counters)
		if limits = append(limits, len(all)); len(all) > 0 {
			return errFull
		}
		if w.Namespace == "x" {
			plain.create("x")
			plain.put(counters, "x", counter("none", 0))
		}
		return err
	}))
	w := e.content(widgets)
	_, err := w.Create(e.ctx, "x", object("a"))
	require.ErrorIs(t, err, errFull)
	require.Equal(t, []int{0, 1}, limits)
	require.False(t, e.hasWidget("x", "a"))
	_, err = w.Create(e.ctx, "y", object("a"))
	require.ErrorIs(t, err, namespace.ErrNotFound)
}

// reopening puts key instead of the first commit that requires its absence, and returns that
// the outcome of that commit is unknown.
type reopening struct {
	store.Store
	key     string
	commits int
}

func (s *reopening) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if !slices.Contains(txn.If, store.Absent(s.key)) {
		return s.Store.Commit(ctx, txn)
	}
	if s.commits++; s.commits > 1 {
		return s.Store.Commit(ctx, txn)
	}
	_, err := s.Store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(s.key, []byte("u"))}})
	return 0, errors.Join(store.ErrUnknownOutcome, err)
}

// A commit of unknown outcome that requires an absent gate may still land after the gate is
// deleted again. A conflict about the gate therefore does not refute it, and the write is not
// planned again.
func TestUnknownOutcomeWithAbsentGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &reopening{Store: m, key: "/registry/.gate/x"}
		admitted := 0
		e := admittedEnv(t, s, onWidgets(func(ctx context.Context, w *registry.Write) error {
			admitted++
			_, err := w.RequireGate(ctx)
			return err
		}))
		e.create("x")
		e.put(widgets, "x", object("a"))
		e.terminate("x")
		admitted = 0
		_, err = e.content(widgets).Update(e.ctx, "x", object("a", "example.com/f"))
		require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
		require.Equal(t, 1, admitted)
		_, err = m.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Delete(s.key)}}) // the gate that reopening wrote
		require.NoError(t, err)
	})
}

// overtaken returns a plugin that replaces the counter "used" with every widget. Another
// writer changes the counter during the first attempt; the second attempt calls then.
func overtaken(t *testing.T, plain *env, then func(ctx context.Context) error) plugin {
	attempt := 0
	return onWidgets(func(ctx context.Context, w *registry.Write) error {
		used, err := w.Get(ctx, counters, "used")
		if err != nil {
			return err
		}
		updated := used.DeepCopy()
		updated.Labels = map[string]string{"by": "link"}
		if err := w.Replace(used, updated); err != nil {
			return err
		}
		switch attempt++; attempt {
		case 1:
			updated.Labels["by"] = "another"
			_, err = plain.content(counters).Update(ctx, "x", updated)
			require.NoError(t, err)
			return nil
		case 2:
			return then(ctx)
		}
		return nil
	})
}

// Writers of other types do not wait for writers that contend for a key, nor for a slow
// plugin.
func TestR10_OtherKeysAreNotLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		slow, release := make(chan struct{}), make(chan struct{})
		plain := admittedEnv(t, s)
		e := admittedEnv(t, s, overtaken(t, plain, func(context.Context) error {
			close(slow)
			<-release
			return nil
		}))
		e.create("x")
		e.put(counters, "x", object("used"))
		created := make(chan error)
		go func() {
			_, err := e.content(widgets).Create(e.ctx, "x", object("a"))
			created <- err
		}()
		<-slow // it holds the lock
		for i := range 3 {
			e.put(configmaps, "x", object(fmt.Sprint("c", i))) // a deadlock of the bubble if it waits
		}
		_, err = e.content(configmaps).Update(e.ctx, "x", object("c0", "example.com/f"))
		require.NoError(t, err)
		_, err = e.content(configmaps).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		_, err = e.content(counters).Update(e.ctx, "x", object("used", "example.com/f"))
		require.NoError(t, err, "not even who writes the very object that is fought over")
		close(release)
		require.NoError(t, <-created)
	})
}
