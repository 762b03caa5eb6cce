package parties_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/store"
)

// After a failure of the store the announcement is retried with a growing, bounded delay. The
// instance is recorded again as soon as the store works (R10).
func TestR10_StoreUnreachable(t *testing.T) {
	for name, away := range map[string]state{"down": down, "hung": hung} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				a := announce(t, s, agent, &parties.Options{Label: "one"})
				synctest.Wait()
				require.Equal(t, []string{"announced"}, a.hooks())
				a.line.set(away)
				a.line.tries()
				time.Sleep(time.Hour)
				tries := a.line.tries()
				require.Greater(t, len(tries), int(time.Hour/(2*beat))-1, "it does not give up")
				require.Less(t, len(tries), int(time.Hour/(beat*3/4))+4, "it does not hurry")
				if away == down {
					for i := 1; i < len(tries); i++ {
						d := tries[i].Sub(tries[i-1])
						most := beat >> max(4-i, 0)
						require.LessOrEqual(t, d, most, "try %d", i)
						require.GreaterOrEqual(t, d, most*3/4, "try %d", i)
					}
				}
				calls := a.hooks()
				require.NotEmpty(t, calls)
				for _, text := range calls {
					require.Contains(t, text, "failed: parties: announce: ")
				}
				require.False(t, listed(t, s)[0].Alive)
				a.line.set(up)
				time.Sleep(2 * beat)
				require.True(t, listed(t, s)[0].Alive)
				require.Contains(t, a.hooks(), "announced")
				a.line.set(down) // the backoff starts over
				a.line.tries()
				time.Sleep(2 * beat)
				tries = a.line.tries()
				require.LessOrEqual(t, tries[1].Sub(tries[0]), beat/8)
			})
		})
	}
}

// A store that fails at first only delays the announcement.
func TestStoreUnreachableAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a := announce(t, s, agent, nil)
		a.line.set(down)
		time.Sleep(time.Hour)
		require.Empty(t, listed(t, s))
		a.line.set(up)
		back := time.Now().UTC()
		time.Sleep(beat)
		list := listed(t, s)
		require.True(t, list[0].Alive)
		require.True(t, list[0].LastSeen.After(back))
	})
}

// A lost result of a commit costs a retry. The instance keeps its one entry, with the last
// value.
func TestUnknownOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a := announce(t, s, agent, nil)
		synctest.Wait()
		require.Equal(t, []string{"announced"}, a.hooks())
		a.line.set(mute)
		for range 100 {
			time.Sleep(beat)
			synctest.Wait()
			require.True(t, listed(t, s)[0].Alive)
			require.Equal(t, 1, count(t, s))
		}
		a.line.set(up)
		time.Sleep(beat)
		synctest.Wait()
		calls := a.hooks()
		require.Equal(t, "announced", calls[len(calls)-1])
		for _, text := range calls[:len(calls)-1] {
			require.Contains(t, text, store.ErrUnknownOutcome.Error())
		}
	})
}

// late is a store that may apply commits long after their callers gave up.
type late struct {
	store.Store
	mu      sync.Mutex
	hold    bool
	pending []store.Txn
}

func (l *late) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold {
		l.pending = append(l.pending, txn)
		return 0, store.ErrUnknownOutcome
	}
	return l.Store.Commit(ctx, txn)
}

// holds sets whether commits are delayed, and returns the delayed ones.
func (l *late) holds(hold bool) []store.Txn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
	return l.pending
}

// A late beat does not record an instance that has left.
func TestLateBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &late{Store: newStore(t)}
		a := announce(t, s, agent, nil)
		synctest.Wait()
		s.holds(true)
		time.Sleep(2 * beat)
		synctest.Wait()
		pending := s.holds(false)
		require.NoError(t, a.stop())
		require.NotEmpty(t, pending)
		for _, txn := range pending {
			_, err := s.Commit(t.Context(), txn)
			require.ErrorIs(t, err, store.ErrConflict)
		}
		require.False(t, listed(t, s)[0].Alive)
	})
}

// If the store does not answer, leaving takes a Beat at most, and the error has the
// consequence.
func TestLeavingWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := announce(t, newStore(t), agent, &parties.Options{Label: "one"})
		time.Sleep(time.Minute)
		a.line.set(hung)
		began := time.Now()
		err := a.stop()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `parties: announce example.com/agent as "one": leave (it will be missing after 30s)`)
		require.LessOrEqual(t, time.Since(began), beat)
	})
}

// A closed store ends Announce with ErrClosed.
func TestStoreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		ended := make(chan error, 1)
		go func() { ended <- parties.Announce(t.Context(), s, agent, nil) }()
		synctest.Wait()
		require.NoError(t, s.Close())
		time.Sleep(beat)
		synctest.Wait()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, store.ErrClosed)
		default:
			t.Fatal("Announce goes on with a closed store")
		}
	})
}

// Writes of others to the entry do not end Announce.
func TestEntriesOfOtherWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		announce(t, s, agent, nil)
		announce(t, s, agent, nil)
		random := rand.New(rand.NewPCG(1, 1))
		for range 500 {
			time.Sleep(time.Duration(random.IntN(int(beat))))
			page, err := s.List(t.Context(), store.Query{Prefix: entries})
			require.NoError(t, err)
			for _, e := range page.Entries {
				op := store.Put(e.Key, e.Value)
				switch random.IntN(6) {
				case 0:
					op = store.Delete(e.Key)
				case 1:
					op = store.Put(e.Key, []byte("\xff{"))
				}
				_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{op}})
				require.NoError(t, err)
			}
			listed(t, s)
		}
		time.Sleep(2 * patience)
		synctest.Wait()
		require.Len(t, listed(t, s)[0].Instances, 2)
		require.Equal(t, 2, count(t, s))
	})
}

// List skips malformed entries. An instance removes those of its own party once they were
// silent for long enough.
func TestMalformedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		strange := []string{"", "example.com/agent/", "no-party", "Not A Party/x", "example.com/other/x", "/", "example.com/agent/a", "example.com/agent/b/c"}
		for _, key := range strange {
			put(t, s, entries+key, "not JSON")
		}
		good := `{"label":"one","since":"2000-01-01T00:00:00Z","seen":"2000-01-01T00:00:00Z","patience":"30s"}`
		put(t, s, entries+"unqualified/x", good)
		put(t, s, entries+"noparty", good)
		put(t, s, entries+"example.com/agent/", good)
		require.Empty(t, listed(t, s))
		announce(t, s, agent, nil)
		time.Sleep(3 * patience)
		synctest.Wait()
		require.Len(t, listed(t, s), 1)
		// example.com/agent/ and example.com/agent/a are removed: ten are left, and the living one.
		require.Equal(t, len(strange)+2-2+1, count(t, s))
	})
}

// A process that dies again and again leaves a bounded number of entries, and a later instance
// removes them.
func TestRepeatedCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for i := range 400 {
			a := announce(t, s, agent, &parties.Options{Label: fmt.Sprint("life-", i)})
			time.Sleep(time.Second)
			synctest.Wait()
			a.line.set(down) // it cannot record that it leaves
			require.Error(t, a.stop())
			require.LessOrEqual(t, count(t, s), 256)
		}
		list := listed(t, s)
		require.Len(t, list, 1)
		require.True(t, list[0].Alive)
		time.Sleep(time.Hour)
		list = listed(t, s)
		require.Len(t, list[0].Instances, 1)
		require.Equal(t, "life-399", list[0].Instances[0].Label, "the last instance stays recorded")
		require.False(t, list[0].Alive)
		announce(t, s, agent, nil)
		time.Sleep(2*patience + beat)
		synctest.Wait()
		require.Equal(t, 1, count(t, s))
	})
}

// A dead instance is removed after its Patience, at most two Patiences later. An instance that
// has left is removed at the next cleaning.
func TestRemoveDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		announce(t, s, agent, nil)
		slow := announce(t, s, agent, &parties.Options{Beat: time.Minute, Patience: 10 * time.Minute})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, count(t, s))
		slow.line.set(hung)
		time.Sleep(9 * time.Minute)
		require.Equal(t, 2, count(t, s), "its own Patience counts")
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1, count(t, s))
		// It comes back, and leaves orderly.
		slow.line.set(up)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, count(t, s))
		require.NoError(t, slow.stop())
		time.Sleep(patience)
		synctest.Wait()
		require.Equal(t, 1, count(t, s))
	})
}

// Removal does not rely on clocks of other machines: an instance with a wrong clock is listed
// as missing, and stays.
func TestWrongClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		announce(t, s, agent, &parties.Options{Label: "right"})
		key := entries + string(agent) + "/off"
		for i := range 100 {
			for _, off := range []time.Duration{-time.Hour, time.Hour} {
				seen := time.Now().Add(off).UTC().Format(time.RFC3339Nano)
				put(t, s, key, `{"label":"off","since":"`+seen+`","seen":"`+seen+`","patience":"30s"}`)
				time.Sleep(beat)
				synctest.Wait()
				require.Equal(t, 2, count(t, s), "beat %d", i)
				list := listed(t, s)
				require.Len(t, list[0].Instances, 1)
				require.Equal(t, "right", list[0].Instances[0].Label)
			}
		}
		time.Sleep(3 * patience)
		synctest.Wait()
		require.Equal(t, 1, count(t, s), "it has died")
	})
}

// List returns the error of the store.
func TestListFails(t *testing.T) {
	s := &line{Store: newStore(t)}
	s.set(down)
	_, err := parties.List(t.Context(), s, "")
	require.ErrorIs(t, err, errDown)
}

// List returns more entries than fit into one page.
func TestManyParties(t *testing.T) {
	s := newStore(t)
	seen := time.Now().UTC().Format(time.RFC3339Nano)
	const many = 1300
	for i := range many {
		put(t, s, fmt.Sprintf("%sexample.com/agent-%04d/x", entries, i), `{"seen":"`+seen+`"}`)
	}
	list := listed(t, s)
	require.Len(t, list, many)
	require.EqualValues(t, "example.com/agent-1299", list[many-1].Finalizer)
}

// If there are too many entries, those that were silent for longest are removed.
func TestLivingInstancesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for i := range 1000 {
			put(t, s, fmt.Sprintf("%s%s/%024d", entries, agent, i), `{"label":"dead","seen":"2000-01-01T00:00:00Z"}`)
		}
		put(t, s, entries+string(agent)+"/living", `{"label":"living","seen":"2000-01-01T00:00:00Z","patience":"1h"}`)
		announce(t, s, agent, &parties.Options{Label: "new"})
		synctest.Wait()
		require.Equal(t, 256, count(t, s))
		var labels []string
		for _, i := range listed(t, s)[0].Instances {
			labels = append(labels, i.Label)
		}
		require.Contains(t, labels, "living")
		require.Contains(t, labels, "new")
	})
}

// An instance that beats just before its removal stays.
func TestInstanceReturnsDuringItsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		key := entries + string(agent) + "/paused"
		beats := func() {
			seen := time.Now().UTC().Format(time.RFC3339Nano)
			put(t, s, key, `{"label":"paused","since":"`+seen+`","seen":"`+seen+`"}`)
		}
		beats()
		a := announce(t, s, agent, nil)
		removals := 0
		a.line.intercept(func(txn store.Txn) {
			if txn.Do[0].Delete {
				removals++
				beats()
			}
		})
		time.Sleep(10 * patience)
		synctest.Wait()
		require.Greater(t, removals, 1)
		require.Equal(t, 2, count(t, s))
	})
}
