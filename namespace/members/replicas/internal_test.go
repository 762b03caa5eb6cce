package replicas

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The timely renewal of a lease needs no signal. The renewal of an ended lease does, because
// callers may have seen that Owns returned false.
func TestExtendSignalsAnEndedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		r, err := New(s, "a", nil)
		require.NoError(t, err)
		l := newLoop(t.Context(), r)
		lease := func(d time.Duration) *view {
			v := newView(Member{ID: "x", Self: true})
			v.until = time.Now().Add(d)
			return v
		}
		l.publish(lease(time.Second), nil)
		changed := r.Changed()

		time.Sleep(time.Second / 2)
		l.extend(r.view.Load(), lease(time.Second))
		require.True(t, r.Owns("a"))
		require.Equal(t, changed, r.Changed(), "no signal is needed")

		time.Sleep(time.Second)
		require.False(t, r.Owns("a"), "the lease has ended, although no signal was sent")
		l.extend(r.view.Load(), lease(time.Second))
		require.True(t, r.Owns("a"))
		select {
		case <-changed:
		default:
			t.Fatal("Owns answers differently than before, without a signal")
		}
		require.NotEqual(t, changed, r.Changed())
	})
}

// The lease of a retried beat begins with the first try, because the store may have
// committed that try and other members may have received it.
func TestLeaseBeginsWithTheFirstTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		r, err := New(s, "a", nil)
		require.NoError(t, err)
		l := newLoop(t.Context(), r)
		first := time.Now()
		l.beat(first)
		tried := <-l.commits
		require.NoError(t, tried.err)
		tried.err = store.ErrUnknownOutcome // the result was lost
		l.committed(tried)
		time.Sleep(3 * time.Second)
		l.beat(time.Now())
		require.ErrorIs(t, (<-l.commits).err, store.ErrConflict)

		l.put(l.lease.id, value{Beat: l.lease.beat}.encode(), 1, time.Now())
		require.Equal(t, first.Add(l.options.Patience), l.lease.until)
	})
}

// The hash must not change between versions, or two versions of a service would divide the
// names in two ways.
func TestHashIsTheSameEverywhere(t *testing.T) {
	require.Equal(t, uint64(0xcbf29ce484222325), hash(""))
	require.Equal(t, uint64(0xaf63dc4c8601ec8c), hash("a"))
	require.Equal(t, uint64(0x85944171f73967e8), hash("foobar"))
	v := newView(Member{ID: "00"}, Member{ID: "01"}, Member{ID: "02"})
	var owners []int
	for _, name := range []string{"acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "wonka"} {
		owners = append(owners, v.owner(name))
	}
	require.Equal(t, []int{0, 0, 1, 1, 1, 0, 1, 2}, owners)
}
