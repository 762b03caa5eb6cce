package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// tallying adds one to the counter "tally" of a namespace with every write to it, and
// touches its gate.
var tallying = link(func(ctx context.Context, w *registry.Write) error {
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

// Every write with a chain, under every fault of the first commits: it is made
// exactly once, with all that joins it.
func TestAdmittedWritesUnderFaults(t *testing.T) {
	unasked := map[string]bool{ // no client asked for them, or there is nothing to tally
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
						case unasked[op.name] || !made:
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

// tallied puts a tally into a namespace, also into one that is terminating, where no
// client could.
func tallied(t *testing.T, e *env, ns string) {
	if e.get(ns).DeletionTimestamp.IsZero() {
		e.put(counters, ns, object("tally"))
		return
	}
	document := fmt.Sprintf(`{"kind":"Counter","apiVersion":"example.com/v1","metadata":{"name":"tally","namespace":%q,"uid":"u-%s"},"spec":0}`, ns, ns)
	_, err := e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{
		store.Put("/registry/counters.example.com/"+ns+"/tally", []byte(document)),
	}})
	require.NoError(t, err)
}

// rewriting writes the same value again at a key before every commit that wants it to
// be of a revision; so often.
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

// What admission has join a commit is not tried for ever when others always are
// faster: it is a conflict, and nothing is made.
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
				cancel(cause) // while it pauses
			}()
			_, err = w.Create(ctx, "x", object("new"))
			require.ErrorIs(t, err, cause)
			require.Less(t, s.n, 32)
		})
	}
}

// A batch is cut for what is fought over in it, not for what others write to that
// admission has join it.
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

// A batch that is cut while it has the turn does not wait for itself.
func TestAdmittedBatchIsCutInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &rewriting{Store: m, most: 1}
		attempt := 0
		e := admittedEnv(t, limited{s, store.Limits{Operations: 20}}, onWidgets(func(ctx context.Context, w *registry.Write) error {
			if w.Objects[0].Operation != registry.Delete {
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

// Who gives up while a link works is not told that it was refused.
func TestAdmissionWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("gave up")
	ending := false
	e := admittedEnv(t, nil, link(func(ctx context.Context, _ *registry.Write) error {
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
