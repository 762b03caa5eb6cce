package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// A Restore and a Delete of the due namespace have both read it before they commit. The
// first commit wins, the other fails with a conflict, and the stored state is the winner's
// (R8, R11).
func TestR11_RestoreAgainstTheDueDeletion(t *testing.T) {
	const deleted, restored = "deleted", "restored"
	for _, winner := range []string{deleted, restored} {
		t.Run(winner, func(t *testing.T) {
			e, plan, _ := faultyEnv(t)
			e.graced("x", "1h")
			due := e.hold("x", -time.Second)
			var commits atomic.Int64
			var met sync.WaitGroup
			met.Add(2)
			won := make(chan struct{})
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				if a.Method != "commit" {
					return storetest.Fault{}
				}
				who := restored
				if slices.ContainsFunc(a.Txn.Do, func(op store.Operation) bool { return op.Key == "/registry/.gate/x" }) {
					who = deleted
				}
				if commits.Add(1) > 2 {
					t.Error("who comes late tries again")
					return storetest.Fault{}
				}
				met.Done()
				met.Wait()
				if who != winner {
					<-won
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			outcomes := map[string]error{}
			var mu sync.Mutex
			contend := func(who string, do func() error) func() {
				return func() {
					err := do()
					if who == winner {
						close(won)
					}
					mu.Lock()
					defer mu.Unlock()
					outcomes[who] = err
				}
			}
			var both sync.WaitGroup
			both.Go(contend(deleted, func() error {
				return second(e.Delete(e.ctx, "x", namespace.Preconditions{UID: due.UID, ResourceVersion: due.ResourceVersion}))
			}))
			both.Go(contend(restored, func() error {
				return second(e.Restore(e.ctx, "x", namespace.Preconditions{UID: due.UID}))
			}))
			both.Wait()
			plan.Store(nil)
			require.NoError(t, outcomes[winner])
			n := e.get("x")
			if winner == deleted {
				require.ErrorIs(t, outcomes[restored], namespace.ErrTerminating)
				require.Equal(t, phase.Terminating, n.Phase())
				require.Contains(t, n.Annotations, declare.HoldAnnotation)
			} else {
				require.ErrorIs(t, outcomes[deleted], namespace.ErrConflict)
				require.Equal(t, phase.Active, n.Phase())
				require.NotContains(t, n.Annotations, declare.HoldAnnotation)
			}
			require.Empty(t, e.indexed("x"))
		})
	}
}

// DELETE by many at once of a namespace with a grace begins one hold: all of them are
// answered the same one.
func TestDeletedByMany(t *testing.T) {
	e := newEnv(t)
	for i := range 50 {
		name := fmt.Sprint("n", i)
		e.graced(name, "1h")
		before := e.revision()
		answers := make([]namespace.Namespace, 8)
		var all sync.WaitGroup
		for k := range answers {
			all.Go(func() {
				var err error
				answers[k], err = e.Delete(e.ctx, name, anyVersion)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, before+1, e.revision())
		for _, n := range answers {
			require.Equal(t, e.get(name), n)
		}
	}
}

// Under random operations and faults the index matches the annotations after every commit
// (registrytest.Audit compares them), and a watcher of the index sees the same.
func TestHoldsUnderFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	met := map[string]int{}
	for round := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, round))
			e, plan, faulty := faultyEnv(t)
			e.create("first")
			start := now(t, faulty.Unwrap())
			quiet, err := registry.New(faulty.Unwrap(), nil)
			require.NoError(t, err)
			defer quiet.Close()
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			seen := map[string]namespace.Event{}
			go followHolds(ctx, quiet, seen)
			kinds := []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Conflict, storetest.Fail}
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				if n := rnd.IntN(16); n < len(kinds) {
					return storetest.Fault{Kind: kinds[n]}
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			for range 200 {
				met[randomHold(e, rnd)]++
				time.Sleep(time.Duration(rnd.IntN(120)) * time.Second)
			}
			plan.Store(nil)
			require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
			synctest.Wait()
			require.Equal(t, heldNow(t, e), untilOf(seen))
		})
	}
	t.Log(met)
	for _, what := range []string{"begun", "waited", "due", "restored", "moved", "annotated", "finalized", "refused"} {
		require.NotZero(t, met[what], what)
	}
}

// followHolds keeps the state that the events of the index describe.
func followHolds(ctx context.Context, r *registry.Registry, seen map[string]namespace.Event) {
	for event, err := range r.Holds(ctx, "") {
		switch {
		case err != nil:
			return
		case event.Type == namespace.EventPresent:
			seen[event.Name] = event
		case event.Type == namespace.EventAbsent:
			delete(seen, event.Name)
		}
	}
}

// heldNow returns the holds that the annotations declare.
func heldNow(t *testing.T, e *env) map[string]string {
	list, err := e.List(e.ctx, registry.ListOptions{})
	require.NoError(t, err)
	held := map[string]string{}
	for _, n := range list.Items {
		if h, is, err := declare.HoldOf(n.Meta); is && err == nil && n.Phase() == phase.Active {
			held[n.Name] = n.UID + " " + h.Until.Format(time.RFC3339Nano)
		}
	}
	return held
}

func untilOf(seen map[string]namespace.Event) map[string]string {
	held := map[string]string{}
	for name, event := range seen {
		held[name] = event.UID + " " + event.Until.Format(time.RFC3339Nano)
	}
	return held
}

// randomHold makes a random request and compares the result with PrepareDelete and the
// rules. It returns a description of the outcome.
func randomHold(e *env, rnd *rand.Rand) string {
	name := fmt.Sprint("n", rnd.IntN(3))
	before, err := e.Get(e.ctx, name)
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		n := named(name)
		switch rnd.IntN(3) {
		case 0:
			n = annotated(n, declare.GraceAnnotation, "5m")
		case 1:
			n = annotated(n, declare.HoldAnnotation, holdUntil(e.t, time.Now().Add(time.Minute)))
		}
		return worked(second(e.Create(e.ctx, n)), "created")
	case err != nil:
		return "failed"
	}
	until := time.Now().Add(time.Duration(rnd.IntN(600)-60) * time.Second)
	switch rnd.IntN(9) {
	case 0, 1, 2:
		return randomDelete(e, before)
	case 3:
		return worked(second(e.Restore(e.ctx, name, namespace.Preconditions{UID: before.UID})), "restored")
	case 4:
		return worked(second(e.DeleteAfter(e.ctx, name, declare.Hold{Until: until}, anyVersion)), "moved")
	case 5:
		value := ""
		if rnd.IntN(2) == 0 {
			value = holdUntil(e.t, until)
		}
		return worked(second(e.Update(e.ctx, annotated(before, declare.HoldAnnotation, value))), "annotated")
	case 6:
		value := []string{"", "1m", "5m"}[rnd.IntN(3)]
		return worked(second(e.Update(e.ctx, annotated(before, declare.GraceAnnotation, value))), "graced")
	default:
		if before.Phase() == phase.Active && rnd.IntN(4) > 0 {
			return "left"
		}
		before.Spec.Finalizers = finalizer.Set{}
		return worked(second(e.Finalize(e.ctx, before)), "finalized")
	}
}

// randomDelete deletes exactly the namespace that was read, and checks the result.
func randomDelete(e *env, before namespace.Namespace) string {
	want, err := declare.PrepareDelete(before, "", time.Now())
	require.NoError(e.t, err)
	after, err := e.Delete(e.ctx, before.Name, namespace.Preconditions{UID: before.UID, ResourceVersion: before.ResourceVersion})
	if err != nil {
		return worked(err, "")
	}
	require.Equal(e.t, want.Phase(), after.Phase())
	require.Equal(e.t, want.Annotations, after.Annotations)
	_, was, _ := declare.HoldOf(before.Meta)
	switch {
	case before.Phase() == phase.Terminating:
		return "again"
	case after.Phase() == phase.Active && was:
		return "waited"
	case after.Phase() == phase.Active:
		return "begun"
	case was:
		return "due"
	}
	return "at once"
}

func second[T any](_ T, err error) error { return err }

func worked(err error, what string) string {
	var refusal *namespace.Error
	switch {
	case err == nil:
		return what
	case errors.As(err, &refusal) && !errors.Is(err, namespace.ErrUnknownOutcome):
		return "refused"
	}
	return "failed"
}

// Every write of a hold under every fault of the first commits: it is made exactly once,
// with its entry, and says so.
func TestHoldWritesUnderFaults(t *testing.T) {
	for _, op := range holdOperations() {
		for _, kind := range []storetest.Kind{storetest.None, storetest.Lost, storetest.Landed, storetest.Conflict} {
			for _, n := range []int64{1, 3} {
				t.Run(fmt.Sprintf("%s/%s %d", op.name, kind, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e, plan, faulty := faultyEnv(t)
						e.prepareHolds()
						start := now(t, faulty.Unwrap())
						op.under(e, plan, kind, n)
						require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
					})
				})
			}
		}
		t.Run(op.name+"/never", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				e.prepareHolds()
				before := e.revision()
				plan.Store(commits(storetest.Lost, 0))
				err := op.do(e)
				require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
				require.ErrorIs(t, err, store.ErrUnknownOutcome, "the cause is in the chain")
				plan.Store(nil)
				require.Equal(t, before, e.revision())
				require.False(t, op.done(e))
			})
		})
	}
}

func (e *env) prepareHolds() {
	e.graced("graced", "1h")
	e.create("x")
	e.create("held")
	e.hold("held", time.Hour)
	e.graced("due", "1h")
	e.hold("due", 0)
}

func holdOperations() []operation {
	return []operation{
		{"delete with grace", func(e *env) error { return second(e.Delete(e.ctx, "graced", anyVersion)) },
			func(e *env) bool { return e.indexed("graced") != "" }},
		{"delete after", func(e *env) error {
			return second(e.DeleteAfter(e.ctx, "x", declare.Hold{Until: time.Unix(1<<32, 0)}, anyVersion))
		}, func(e *env) bool { return e.indexed("x") != "" }},
		{"restore", func(e *env) error { return second(e.Restore(e.ctx, "held", anyVersion)) },
			func(e *env) bool { return e.indexed("held") == "" }},
		{"delete the due namespace", func(e *env) error { return second(e.Delete(e.ctx, "due", anyVersion)) },
			func(e *env) bool { return e.get("due").Phase() == phase.Terminating && e.indexed("due") == "" }},
		{"create on hold", func(e *env) error {
			return second(e.Create(e.ctx, annotated(named("new"), declare.HoldAnnotation, holdUntil(e.t, time.Unix(1<<32, 0)))))
		}, func(e *env) bool { return e.indexed("new") != "" }},
		{"take the annotation off", func(e *env) error {
			return second(e.Update(e.ctx, named("held")))
		}, func(e *env) bool { return e.indexed("held") == "" }},
	}
}
