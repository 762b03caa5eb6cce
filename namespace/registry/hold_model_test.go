package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// Under random operations and random faults the index is what the annotations say, after
// every single commit (registrytest.Audit looks at both), and who follows the index is
// told just that.
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
			told := map[string]namespace.HoldEvent{}
			go followHolds(ctx, quiet, told)
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
			require.Equal(t, heldNow(t, e), untilOf(told))
		})
	}
	t.Log(met)
	for _, what := range []string{"begun", "waited", "due", "restored", "moved", "annotated", "finalized", "refused"} {
		require.NotZero(t, met[what], what)
	}
}

// followHolds keeps what the index tells.
func followHolds(ctx context.Context, r *registry.Registry, told map[string]namespace.HoldEvent) {
	for event, err := range r.Holds(ctx, "") {
		switch {
		case err != nil:
			return
		case event.Type == namespace.HoldSet:
			told[event.Name] = event
		case event.Type == namespace.HoldOver:
			delete(told, event.Name)
		}
	}
}

// heldNow returns the holds that the annotations declare.
func heldNow(t *testing.T, e *env) map[string]string {
	list, err := e.List(e.ctx, registry.ListOptions{})
	require.NoError(t, err)
	held := map[string]string{}
	for _, n := range list.Items {
		if h, is, err := namespace.HoldOf(n.Meta); is && err == nil && n.Phase() == phase.Active {
			held[n.Name] = n.UID + " " + h.Until.Format(time.RFC3339Nano)
		}
	}
	return held
}

func untilOf(told map[string]namespace.HoldEvent) map[string]string {
	held := map[string]string{}
	for name, event := range told {
		held[name] = event.UID + " " + event.Until.Format(time.RFC3339Nano)
	}
	return held
}

// randomHold does something with a namespace, holds it against what PrepareDelete and the
// rules say of what was there before, and says what it came to.
func randomHold(e *env, rnd *rand.Rand) string {
	name := fmt.Sprint("n", rnd.IntN(3))
	before, err := e.Get(e.ctx, name)
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		n := named(name)
		switch rnd.IntN(3) {
		case 0:
			n = annotated(n, namespace.GraceAnnotation, "5m")
		case 1:
			n = annotated(n, namespace.HoldAnnotation, holdUntil(e.t, time.Now().Add(time.Minute)))
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
		return worked(second(e.DeleteAfter(e.ctx, name, namespace.Hold{Until: until}, anyVersion)), "moved")
	case 5:
		value := ""
		if rnd.IntN(2) == 0 {
			value = holdUntil(e.t, until)
		}
		return worked(second(e.Update(e.ctx, annotated(before, namespace.HoldAnnotation, value))), "annotated")
	case 6:
		value := []string{"", "1m", "5m"}[rnd.IntN(3)]
		return worked(second(e.Update(e.ctx, annotated(before, namespace.GraceAnnotation, value))), "graced")
	default:
		if before.Phase() == phase.Active && rnd.IntN(4) > 0 {
			return "left"
		}
		before.Spec.Finalizers = finalizer.Set{}
		return worked(second(e.Finalize(e.ctx, before)), "finalized")
	}
}

// randomDelete deletes exactly what was read, and holds the answer against what should
// become of that.
func randomDelete(e *env, before namespace.Namespace) string {
	want, err := namespace.PrepareDelete(before, "", time.Now())
	require.NoError(e.t, err)
	after, err := e.Delete(e.ctx, before.Name, namespace.Preconditions{UID: before.UID, ResourceVersion: before.ResourceVersion})
	if err != nil {
		return worked(err, "")
	}
	require.Equal(e.t, want.Phase(), after.Phase())
	require.Equal(e.t, want.Annotations, after.Annotations)
	_, was, _ := namespace.HoldOf(before.Meta)
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
			return second(e.DeleteAfter(e.ctx, "x", namespace.Hold{Until: time.Unix(1<<32, 0)}, anyVersion))
		}, func(e *env) bool { return e.indexed("x") != "" }},
		{"restore", func(e *env) error { return second(e.Restore(e.ctx, "held", anyVersion)) },
			func(e *env) bool { return e.indexed("held") == "" }},
		{"delete what is due", func(e *env) error { return second(e.Delete(e.ctx, "due", anyVersion)) },
			func(e *env) bool { return e.get("due").Phase() == phase.Terminating && e.indexed("due") == "" }},
		{"create on hold", func(e *env) error {
			return second(e.Create(e.ctx, annotated(named("new"), namespace.HoldAnnotation, holdUntil(e.t, time.Unix(1<<32, 0)))))
		}, func(e *env) bool { return e.indexed("new") != "" }},
		{"take the annotation off", func(e *env) error {
			return second(e.Update(e.ctx, named("held")))
		}, func(e *env) bool { return e.indexed("held") == "" }},
	}
}
