package registry_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// A store that cannot be reached, or is full, fails every call with a kind of its own.
func TestUnavailableStore(t *testing.T) {
	for _, cause := range []error{store.ErrUnavailable, store.ErrFull} {
		for _, op := range operations() {
			t.Run(op.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, plan, _ := faultyEnv(t)
					e.prepare()
					failing := func(reads bool) {
						p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
							if !reads && a.Method != "commit" {
								return storetest.Fault{}
							}
							return storetest.Fault{Kind: storetest.Fail, Err: cause}
						})
						plan.Store(&p)
					}
					unavailable := func(err error) {
						t.Helper()
						require.ErrorIs(t, err, namespace.ErrUnavailable)
						require.ErrorIs(t, err, cause)
						require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
					}
					failing(false)
					unavailable(op.do(e))
					failing(true)
					_, err := e.Get(e.ctx, "x")
					unavailable(err)
					_, err = e.List(e.ctx, registry.ListOptions{})
					unavailable(err)
					for _, err := range e.Watch(e.ctx, registry.WatchOptions{}) {
						unavailable(err)
					}
					plan.Store(nil)
					require.False(t, op.done(e))
				})
			})
		}
	}
}
