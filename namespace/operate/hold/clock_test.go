package hold

import (
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/stretchr/testify/require"
)

// When the machine's clock is set forward, or the machine has slept, no timer fires: the
// loop looks at the time of day once a minute, and finds what is due by then.
func TestClockIsLookedAtPeriodically(t *testing.T) {
	options, err := (*Options)(nil).withDefaults()
	require.NoError(t, err)
	l := newLoop(t.Context(), nil, options)
	now := time.Now()
	require.Equal(t, most, l.idle(now), "without a hold")

	l.heard(news{event: declare.HoldEvent{Type: declare.HoldSet, Name: "a", UID: "uid", Until: now.Add(100 * time.Hour)}})
	require.Equal(t, most, l.idle(now), "with a hold that ends later")
	l.fire(now.Add(most))
	require.Empty(t, l.fresh.waiting)

	jumped := now.Add(100 * time.Hour)
	l.fire(jumped)
	require.Len(t, l.fresh.waiting, 1)

	l.heard(news{event: declare.HoldEvent{Type: declare.HoldSet, Name: "b", UID: "uid", Until: jumped.Add(time.Second)}})
	require.LessOrEqual(t, l.idle(jumped), time.Second, "with a hold that ends before")
}
