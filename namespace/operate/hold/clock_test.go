package hold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/follow"
)

// When the clock is set forward or the machine wakes up, no timer fires: the loop looks at
// the time of day once a minute, and finds the holds that have ended by then.
func TestClockIsReadPeriodically(t *testing.T) {
	l := newLoop(nil, Options{}.withDefaults())
	hold := func(name string, until time.Time) {
		l.update(follow.Update{Kind: follow.Change, Event: namespace.Event{Type: namespace.EventPresent, Name: name, UID: "uid", Until: until}})
	}
	now := time.Now()
	require.Equal(t, maxIdle, l.untilDue(now), "no hold")

	hold("a", now.Add(100*time.Hour))
	require.Equal(t, maxIdle, l.untilDue(now), "the hold ends later")
	require.Nil(t, l.next(now.Add(maxIdle)))

	jumped := now.Add(100 * time.Hour)
	require.Equal(t, "a", l.next(jumped).ref.Name)
	l.ends.Remove(l.entries["a"])

	hold("b", jumped.Add(time.Second))
	require.LessOrEqual(t, l.untilDue(jumped), time.Second, "the hold ends earlier")
}
