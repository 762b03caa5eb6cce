package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// However creates, deletions and retirements of one type interleave, and whenever their
// commits land, no object is ever stored without a type record, and no record goes without
// an audit record.
func TestR7_RetirementsAndCreates(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kinds := map[string]int{}
	for round := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			m, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			rnd := rand.New(rand.NewPCG(seed, round))
			other := newEnvOver(t, m)
			other.create("n0")
			other.create("n1")
			start := now(t, m)
			request := func(e *env) {
				ns, name := fmt.Sprint("n", rnd.IntN(2)), fmt.Sprint("o", rnd.IntN(2))
				w := e.content(widgets)
				switch rnd.IntN(5) {
				case 0:
					_, _ = w.Create(e.ctx, ns, object(name))
				case 1, 2:
					_, _ = w.Delete(e.ctx, ns, name, anyVersion)
				case 3:
					_, _ = w.DeleteCollection(e.ctx, ns, labels(t, ""), fields(t, ""))
				default:
					switch err := e.RetireType(e.ctx, widgets, "unused"); {
					case err == nil:
						kinds["retired"]++
					case errors.Is(err, namespace.ErrUnknownOutcome):
						kinds["unknown"]++
					case errors.Is(err, namespace.ErrConflict):
						kinds["in use"]++
					default:
						require.ErrorIs(t, err, namespace.ErrNotFound)
					}
				}
			}
			s := &adrift{Store: m, t: t, rnd: rnd, kinds: kinds}
			s.others = func() { request(other) }
			e := newEnvOver(t, s)
			for range 60 {
				request(e)
				s.meanwhile()
			}
			for len(s.afloat) > 0 {
				s.meanwhile()
			}
			ctx := context.WithoutCancel(t.Context())
			require.NoError(t, registrytest.Audit(ctx, m, "registry", start, now(t, m).Revision))
			require.NoError(t, registrytest.Check(ctx, m, "registry"))
		})
	}
	for _, kind := range []string{"late", "landed late", "retired", "unknown", "in use"} {
		require.NotZero(t, kinds[kind], kind)
	}
}
