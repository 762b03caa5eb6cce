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

// A store that fails is asked again with a growing delay, but not without bound, and
// the instance is known again as soon as it answers (R10).
func TestR10_StoreAway(t *testing.T) {
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
				told := a.hooks()
				require.NotEmpty(t, told)
				for _, text := range told {
					require.Contains(t, text, "failed: parties: announce: ")
				}
				require.False(t, listed(t, s)[0].Alive)
				a.line.set(up)
				time.Sleep(2 * beat)
				require.True(t, listed(t, s)[0].Alive)
				require.Contains(t, a.hooks(), "announced")
				a.line.set(down) // the next failure is the first again
				a.line.tries()
				time.Sleep(2 * beat)
				tries = a.line.tries()
				require.LessOrEqual(t, tries[1].Sub(tries[0]), beat/8)
			})
		})
	}
}

// A store that is away at first costs nothing but time.
func TestStoreAwayAtFirst(t *testing.T) {
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

// Answers that are lost cost a repetition; the entry stays one, and what is said last
// stands.
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
		told := a.hooks()
		require.Equal(t, "announced", told[len(told)-1])
		for _, text := range told[:len(told)-1] {
			require.Contains(t, text, store.ErrUnknownOutcome.Error())
		}
	})
}

// late is a store whose commits may be done long after their callers gave up.
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

// holds makes commits wait, or not, and returns those that do.
func (l *late) holds(hold bool) []store.Txn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
	return l.pending
}

// A beat that is done after the instance has left does not bring it back.
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

// Leaving takes a Beat at most when the store does not answer, and says what follows.
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

// A store that is closed ends it, and says so.
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
			t.Fatal("it goes on, in vain")
		}
	})
}

// What others do to the entries ends nothing.
func TestEntriesAreTamperedWith(t *testing.T) {
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

// Entries that are none are passed over, and those in the party's own place go once
// they were silent for long enough.
func TestStrangeEntries(t *testing.T) {
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
		// Gone are example.com/agent/ and example.com/agent/a: ten, and the living one.
		require.Equal(t, len(strange)+2-2+1, count(t, s))
	})
}

// A process that dies again and again leaves no heap, and neither do the instances that
// come after.
func TestDyingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for i := range 400 {
			a := announce(t, s, agent, &parties.Options{Label: fmt.Sprint("life-", i)})
			time.Sleep(time.Second)
			synctest.Wait()
			a.line.set(down) // it cannot say that it leaves
			require.Error(t, a.stop())
			require.LessOrEqual(t, count(t, s), 256)
		}
		list := listed(t, s)
		require.Len(t, list, 1)
		require.True(t, list[0].Alive)
		time.Sleep(time.Hour)
		list = listed(t, s)
		require.Len(t, list[0].Instances, 1)
		require.Equal(t, "life-399", list[0].Instances[0].Label, "the last one stays known")
		require.False(t, list[0].Alive)
		announce(t, s, agent, nil)
		time.Sleep(2*patience + beat)
		synctest.Wait()
		require.Equal(t, 1, count(t, s))
	})
}

// The dead go after their Patience at the latest two Patiences, and never before; who
// has left goes with the next look.
func TestTidy(t *testing.T) {
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
		// It comes back, and leaves in good order.
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

// No clock of another machine is believed where something is removed: one that is off
// is told of as missing, and stays.
func TestClocksOff(t *testing.T) {
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

// A listing that fails says so.
func TestListFails(t *testing.T) {
	s := &line{Store: newStore(t)}
	s.set(down)
	_, err := parties.List(t.Context(), s, nil)
	require.ErrorIs(t, err, errDown)
}

// More entries than one page holds are all told.
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

// What goes because there is too much is what was silent for longest.
func TestTheLivingStay(t *testing.T) {
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

// One that comes back at the moment at which it is removed stays.
func TestBackAtTheLastMoment(t *testing.T) {
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
