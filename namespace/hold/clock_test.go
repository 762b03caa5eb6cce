package hold

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// place has one namespace on hold.
type place struct {
	until time.Time
	reads []time.Time
}

func (p *place) Get(_ context.Context, name string) (namespace.Namespace, error) {
	p.reads = append(p.reads, time.Now())
	return namespace.Namespace{}, &namespace.Error{Kind: namespace.ErrNotFound, Name: name}
}

func (p *place) Delete(context.Context, string, namespace.Preconditions) (namespace.Namespace, error) {
	return namespace.Namespace{}, nil
}

func (p *place) Holds(ctx context.Context, _ string) iter.Seq2[namespace.HoldEvent, error] {
	return func(yield func(namespace.HoldEvent, error) bool) {
		_ = yield(namespace.HoldEvent{Type: namespace.HoldSet, Name: "a", UID: "uid", Until: p.until}, nil) &&
			yield(namespace.HoldEvent{Type: namespace.HoldsSynced, Token: "1"}, nil)
		<-ctx.Done()
		yield(namespace.HoldEvent{}, context.Cause(ctx))
	}
}

// When the machine's clock is set forward, or the machine has slept, timers do not hear of it: the
// loop looks at the time of day once a minute. Virtual time cannot jump, so the end of
// the hold does.
func TestClockIsLookedAtPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &place{until: time.Now().Add(100 * time.Hour)}
		options, err := (*Options)(nil).withDefaults()
		require.NoError(t, err)
		l := newLoop(ctx, p, options)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.run()
		}()
		time.Sleep(10*time.Hour + time.Second)
		synctest.Wait()
		require.Empty(t, p.reads)
		l.entries["a"].at = time.Now()
		jumped := time.Now()
		time.Sleep(most)
		synctest.Wait()
		require.NotEmpty(t, p.reads)
		require.LessOrEqual(t, p.reads[0].Sub(jumped), most)
		cancel()
		<-ended
	})
}
