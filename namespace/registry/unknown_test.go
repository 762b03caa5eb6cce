package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// operation is one write, and how to see that it was made. Before it there are
// the Active namespaces x (with widgets a, b and held) and bare (held by
// nothing), and the terminating dying (held by the default finalizer) with the
// widgets a and marked (being deleted, held).
type operation struct {
	name string
	do   func(e *env) error
	done func(e *env) bool
}

// under carries out the operation while a kind of fault strikes the first n commits, and
// reports whether it was made: always, but for a create whose commit was lost.
func (op operation) under(e *env, plan *atomic.Pointer[storetest.Plan], kind storetest.Kind, n int64) bool {
	require.False(e.t, op.done(e))
	plan.Store(commits(kind, n))
	err := op.do(e)
	plan.Store(nil)
	made := kind != storetest.Lost || !strings.HasPrefix(op.name, "create")
	if made {
		require.NoError(e.t, err)
	} else {
		require.ErrorIs(e.t, err, namespace.ErrUnknownOutcome)
	}
	require.Equal(e.t, made, op.done(e))
	return made
}

func (e *env) prepare() namespace.Namespace {
	e.create("x")
	e.create("bare")
	e.release("bare")
	e.create("dying", "example.com/agent")
	for _, o := range []registry.Object{object("a"), object("b"), object("held", "example.com/f")} {
		e.put(widgets, "x", o)
	}
	e.put(widgets, "dying", object("a"))
	e.put(widgets, "dying", object("marked", "example.com/f"))
	_, err := e.content(widgets).Delete(e.ctx, "dying", "marked", anyVersion)
	require.NoError(e.t, err)
	return e.terminate("dying")
}

func (e *env) has(name string) bool {
	_, err := e.Get(e.ctx, name)
	return err == nil
}

func (e *env) hasWidget(ns, name string) bool {
	_, err := e.content(widgets).Get(e.ctx, ns, name)
	return err == nil
}

func (e *env) get(name string) namespace.Namespace {
	n, err := e.Get(e.ctx, name)
	require.NoError(e.t, err)
	return n
}

func (e *env) source() interface {
	deleter.Content
	deleter.CollectionDeleter
} {
	sources, err := e.Sources(widgets)
	require.NoError(e.t, err)
	return sources[0].Content.(interface {
		deleter.Content
		deleter.CollectionDeleter
	})
}

func operations() []operation {
	return append(namespaceOperations(), contentOperations()...)
}

func namespaceOperations() []operation {
	status := named("dying")
	status.Status.Conditions = []phase.Condition{{Type: phase.ContentRemaining, Status: phase.True}}
	annotated := named("x")
	annotated.Annotations = map[string]string{"a": "b"}
	return []operation{
		{"create", func(e *env) error {
			n, err := e.Create(e.ctx, named("new"))
			if err == nil && n.UID != e.get("new").UID {
				err = errors.New("it answered another uid than is stored")
			}
			return err
		}, func(e *env) bool { return e.has("new") }},
		{"create generated", func(e *env) error {
			_, err := e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{GenerateName: "new-"}})
			return err
		}, func(e *env) bool {
			list, err := e.List(e.ctx, registry.ListOptions{})
			return err == nil && len(list.Items) == 4
		}},
		{"update", func(e *env) error {
			n, err := e.Update(e.ctx, annotated)
			if err == nil && n.ResourceVersion != e.get("x").ResourceVersion {
				err = errors.New("it answered another version than is stored")
			}
			return err
		}, func(e *env) bool { return e.get("x").Annotations["a"] == "b" }},
		{"update status", func(e *env) error {
			_, err := e.UpdateStatus(e.ctx, status)
			return err
		}, func(e *env) bool { return len(e.get("dying").Status.Conditions) == 1 }},
		{"finalize", func(e *env) error {
			_, err := e.Finalize(e.ctx, named("dying", "example.com/agent"))
			return err
		}, func(e *env) bool { return e.get("dying").Spec.Finalizers.Len() == 1 }},
		{"delete", func(e *env) error {
			n, err := e.Delete(e.ctx, "x", anyVersion)
			if err == nil && n.Phase() != phase.Terminating {
				err = errors.New("it answered an active namespace")
			}
			return err
		}, func(e *env) bool { return e.get("x").Phase() == phase.Terminating }},
		{"delete and remove", func(e *env) error {
			_, err := e.Delete(e.ctx, "bare", anyVersion)
			return err
		}, func(e *env) bool { return !e.has("bare") }},
	}
}

func contentOperations() []operation {
	changed := object("a")
	changed.Labels = map[string]string{"a": "b"}
	return []operation{
		{"create content", func(e *env) error {
			_, err := e.content(widgets).Create(e.ctx, "x", object("new"))
			return err
		}, func(e *env) bool { return e.hasWidget("x", "new") }},
		{"update content", func(e *env) error {
			_, err := e.content(widgets).Update(e.ctx, "x", changed)
			return err
		}, func(e *env) bool {
			o, err := e.content(widgets).Get(e.ctx, "x", "a")
			return err == nil && o.Labels["a"] == "b"
		}},
		{"delete content", func(e *env) error {
			_, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
			return err
		}, func(e *env) bool { return !e.hasWidget("x", "a") }},
		{"mark content", func(e *env) error {
			_, err := e.content(widgets).Delete(e.ctx, "x", "held", anyVersion)
			return err
		}, func(e *env) bool {
			o, err := e.content(widgets).Get(e.ctx, "x", "held")
			return err == nil && !o.DeletionTimestamp.IsZero()
		}},
		{"release content", func(e *env) error {
			_, err := e.content(widgets).Update(e.ctx, "dying", object("marked"))
			return err
		}, func(e *env) bool { return !e.hasWidget("dying", "marked") }},
		{"delete collection", func(e *env) error {
			done, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(e.t, ""), fields(e.t, ""))
			if err == nil && done != (registry.Deletion{Deleted: 2, Marked: 1}) {
				err = fmt.Errorf("it counted %+v", done)
			}
			return err
		}, func(e *env) bool { return !e.hasWidget("x", "a") && !e.hasWidget("x", "b") }},
		{"pass deletes", func(e *env) error {
			return e.source().Delete(e.ctx, targetOf(e.get("dying")), "a", "")
		}, func(e *env) bool { return !e.hasWidget("dying", "a") }},
		{"pass deletes collection", func(e *env) error {
			n, _, err := e.source().DeleteCollection(e.ctx, targetOf(e.get("dying")))
			if err == nil && n != 1 {
				err = fmt.Errorf("it counted %d", n)
			}
			return err
		}, func(e *env) bool { return !e.hasWidget("dying", "a") }},
	}
}

// faultyEnv is an env whose store goes wrong by a plan that can be set.
func faultyEnv(t *testing.T) (*env, *atomic.Pointer[storetest.Plan], *storetest.Faulty) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var plan atomic.Pointer[storetest.Plan]
	faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
		if p := plan.Load(); p != nil {
			return (*p)(a)
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	e := newEnvOver(t, faulty)
	t.Cleanup(func() { plan.Store(nil) })
	return e, &plan, faulty
}

// commits is a plan that lets something happen to the first n commits; zero: to all.
func commits(kind storetest.Kind, n int64) *storetest.Plan {
	var seen atomic.Int64
	p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
		if a.Method != "commit" || n > 0 && seen.Add(1) > n {
			return storetest.Fault{}
		}
		return storetest.Fault{Kind: kind}
	})
	return &p
}

// Every write under every fault of the first commits: it is made exactly once, and
// says so; a create of unknown outcome is not repeated.
func TestWritesUnderFaults(t *testing.T) {
	for _, op := range operations() {
		for _, kind := range []storetest.Kind{storetest.None, storetest.Lost, storetest.Landed, storetest.Conflict} {
			for _, n := range []int64{1, 3} {
				t.Run(fmt.Sprintf("%s/%s %d", op.name, kind, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e, plan, faulty := faultyEnv(t)
						e.prepare()
						start := now(t, faulty.Unwrap())
						op.under(e, plan, kind, n)
						require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
					})
				})
			}
		}
	}
}

// A write whose outcome cannot be learnt says so after a bounded number of
// attempts; one that fails plainly changes nothing.
func TestWritesThatCannotBeMade(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				e.prepare()
				before := e.revision()
				plan.Store(commits(storetest.Lost, 0))
				err := op.do(e)
				require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
				require.ErrorIs(t, err, store.ErrUnknownOutcome, "the cause is in the chain")
				plan.Store(commits(storetest.Fail, 0))
				err = op.do(e)
				require.ErrorIs(t, err, storetest.ErrInjected)
				require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
				plan.Store(nil)
				require.False(t, op.done(e))
				require.Equal(t, before, e.revision())
			})
		})
	}
}

// When reading back fails too, the outcome stays unknown.
func TestReadBackFails(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				e.prepare()
				var committed atomic.Bool
				p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
					switch {
					case a.Method == "commit":
						committed.Store(true)
						return storetest.Fault{Kind: storetest.Landed}
					case committed.Load():
						return storetest.Fault{Kind: storetest.Fail}
					}
					return storetest.Fault{}
				})
				plan.Store(&p)
				err := op.do(e)
				plan.Store(nil)
				require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
				require.True(t, op.done(e))
			})
		})
	}
}

// overwriting lands a commit, lets somebody else write the same key, and says that
// the outcome is unknown.
type overwriting struct {
	store.Store
	key  string
	done bool
}

func (o *overwriting) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	revision, err := o.Store.Commit(ctx, txn)
	if err != nil || o.done || o.key == "" {
		return revision, err
	}
	o.done = true
	entry, err := o.Get(ctx, o.key)
	if err == nil {
		value := append([]byte(nil), entry.Value...)
		_, err = o.Store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(o.key, append(value, ' '))}})
	}
	return 0, &store.Error{Op: "commit", Err: errors.Join(store.ErrUnknownOutcome, err)}
}

// A write that was made and overwritten cannot be told from one that was not made.
func TestOverwrittenMeanwhile(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	o := &overwriting{Store: s}
	e := newEnvOver(t, o)
	e.prepare()
	annotated := named("x")
	annotated.Annotations = map[string]string{"a": "b"}
	o.key = "/registry/namespaces/x"
	_, err = e.Update(e.ctx, annotated)
	require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
	o.key, o.done = "/registry/widgets.example.com/x/new", false
	made, err := e.content(widgets).Create(e.ctx, "x", object("new"))
	require.NoError(t, err, "a creation is known by its uid")
	require.Equal(t, fmt.Sprint(e.revision()), made.ResourceVersion)
}

// A context that ends while the outcome is unknown ends the attempts.
func TestContextEndsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plan, _ := faultyEnv(t)
		e.prepare()
		for _, op := range operations() {
			plan.Store(nil)
			if op.done(e) {
				continue
			}
			ctx, cancel := context.WithCancel(e.ctx)
			committed := false
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				switch {
				case a.Method == "commit":
					committed = true
					return storetest.Fault{Kind: storetest.Lost}
				case committed:
					cancel() // before it is read back
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			limited := *e
			limited.ctx = ctx
			require.ErrorIs(t, op.do(&limited), namespace.ErrUnknownOutcome, op.name)
			cancel()
		}
		plan.Store(nil)
	})
}
