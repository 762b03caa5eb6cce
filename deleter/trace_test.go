package deleter_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
)

type spanKey struct{}

// spans records calls as text. Each call sees the number of spans around it.
type spans struct {
	mu   sync.Mutex
	list []string
}

func (s *spans) trace() *deleter.Trace {
	return &deleter.Trace{
		Start: func(ctx context.Context, _ deleter.Call) context.Context {
			depth, _ := ctx.Value(spanKey{}).(int)
			return context.WithValue(ctx, spanKey{}, depth+1)
		},
		End: func(ctx context.Context, c deleter.Call, r deleter.CallResult) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.list = append(s.list, fmt.Sprintf("%d %s %s %d %v", ctx.Value(spanKey{}), c.Resource, c.Op, r.Objects, r.Err))
		},
	}
}

// A trace sees each call with its resource type, operation, result and context.
func TestTrace(t *testing.T) {
	f := contenttest.NewFake(nil)
	f.Put(target(), contenttest.Object{Name: "a"}, contenttest.Object{Name: "b"})
	var depth any
	d, err := deleter.Discovering(func(ctx context.Context) ([]deleter.Source, error) {
		return []deleter.Source{
			source("pods", f),
			source("jobs", deleter.Funcs{Delete: func(ctx context.Context, _ deleter.Target) (int, error) {
				depth = ctx.Value(spanKey{})
				return 3, errBoom
			}}.Content()),
		}, nil
	}, nil)
	require.NoError(t, err)
	var s spans
	_, err = d.Delete(deleter.WithTrace(t.Context(), s.trace()), target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	slices.Sort(s.list)
	require.Equal(t, []string{"1  discover 2 <nil>", "1 jobs empty 3 boom", "1 pods delete collection 2 <nil>", "1 pods list 0 <nil>"}, s.list)
	require.Equal(t, 1, depth)

	s.list = nil
	both := deleter.WithTrace(deleter.WithTrace(t.Context(), s.trace()), s.trace())
	_, err = d.Inspect(both, target())
	require.ErrorIs(t, err, deleter.ErrNotSupported)
	require.Contains(t, s.list, "2  discover 2 <nil>")
	require.Len(t, s.list, 4, "an inner trace does not replace the outer one")
}

// A failed deletion of an object does not count it. A nil trace changes nothing.
func TestTraceOfFailedDelete(t *testing.T) {
	f := fake(&contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error {
		if c.Op == deleter.OpDelete {
			return errBoom
		}
		return nil
	}}, contenttest.Object{Name: "a"})
	var s spans
	ctx := deleter.WithTrace(deleter.WithTrace(t.Context(), s.trace()), nil)
	_, err := compose(t, nil, source("pods", plain{f})).Delete(ctx, target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	require.Contains(t, s.list, "1 pods delete 0 boom")
}

// Without a trace, TraceCall allocates nothing.
func TestTraceCallAllocatesNothing(t *testing.T) {
	ctx, n := t.Context(), 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = deleter.TraceCall(ctx, deleter.Call{Op: deleter.OpList}, func(context.Context) (int, error) { n++; return n, nil })
	}))
}
