package replicas

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A term that is renewed in time is so silently; one that somebody may have seen end
// is told of, or that answer would never be taken back.
func TestRenewTellsOfAnEndedTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		r, err := New(s, "a", nil)
		require.NoError(t, err)
		l := newLoop(t.Context(), r)
		term := func(d time.Duration) *view {
			v := newView(Member{ID: "x", Self: true})
			v.until = time.Now().Add(d)
			return v
		}
		l.publish(term(time.Second), nil)
		changed := r.Changed()

		time.Sleep(time.Second / 2)
		l.extend(r.view.Load(), term(time.Second))
		require.True(t, r.Owns("a"))
		require.Equal(t, changed, r.Changed(), "nothing to tell")

		time.Sleep(time.Second)
		require.False(t, r.Owns("a"), "somebody sees it, and nobody has told of it yet")
		l.extend(r.view.Load(), term(time.Second))
		require.True(t, r.Owns("a"))
		select {
		case <-changed:
		default:
			t.Fatal("Owns answers otherwise than before, and nobody is told")
		}
		require.NotEqual(t, changed, r.Changed())
	})
}

// A beat that is tried again counts from its first try: any of them may be the one
// that was stored, and others have seen it then.
func TestTermBeginsWithTheFirstTry(t *testing.T) {
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
		tried.err = store.ErrUnknownOutcome // the answer was lost
		l.committed(tried)
		time.Sleep(3 * time.Second)
		l.beat(time.Now())
		require.ErrorIs(t, (<-l.commits).err, store.ErrConflict)

		l.put(l.lease.id, value{Beat: l.lease.beat}.encode(), 1, time.Now())
		require.Equal(t, first.Add(l.options.Patience), l.lease.until)
	})
}

// Values that version to version must not change, or two versions of a service would
// divide in two ways.
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
