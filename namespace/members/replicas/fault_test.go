package replicas_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/store"
)

// takeover sleeps until each name has an owner among nodes again, and returns the elapsed
// time.
func takeover(t *testing.T, nodes []*node) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		if _, none, _ := owned(nodes, names(100)); none == 0 {
			return time.Since(began)
		}
		require.Less(t, time.Since(began), time.Hour, "no node takes over")
		time.Sleep(50 * time.Millisecond)
	}
}

// After the silent death of a member, other members take over its share within the bound. By
// then the dead member owns nothing.
func TestR12_SilentDeath(t *testing.T) {
	for _, at := range []time.Duration{0, beat / 3, beat - 1, beat, 3*beat + 1} {
		synctest.Test(t, func(t *testing.T) {
			nodes := starts(t, newStore(t), 4)
			time.Sleep(time.Minute + at)
			nodes[1].line.set(hung)
			died := time.Now()
			for time.Since(died) < bound {
				time.Sleep(50 * time.Millisecond)
				_, _, several := owned(nodes, names(100))
				require.Zero(t, several, "two owners after %v", time.Since(died))
			}
			requireDivided(t, append(nodes[:1:1], nodes[2:]...), 3)
			require.False(t, nodes[1].Owns("tenant-1"))
			expelled := 0
			for _, n := range nodes {
				require.LessOrEqual(t, len(n.log.all("expelled")), 1)
				expelled += len(n.log.all("expelled node-1"))
			}
			require.Equal(t, 1, expelled)
		})
	}
}

// Several members die at once: some, all but one, and all while others start.
func TestR12_ManyDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		old := starts(t, s, 5)
		time.Sleep(time.Minute)
		for _, n := range old[:4] {
			n.line.set(hung)
		}
		require.LessOrEqual(t, takeover(t, old[4:]), bound)
		old[4].line.set(hung)
		fresh := starts(t, s, 3) // replacements that start at once
		require.LessOrEqual(t, takeover(t, fresh), bound)
		synctest.Wait()
		requireDivided(t, fresh, 3)
	})
}

// After a long pause, a member owns nothing at first. It then joins again, and every member
// has a share.
func TestR11_PauseAndReturn(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, patience - time.Second, patience + time.Second, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			nodes := starts(t, newStore(t), 3)
			time.Sleep(time.Minute)
			nodes[0].line.set(hung)
			time.Sleep(pause)
			nodes[0].line.set(up)
			synctest.Wait()
			time.Sleep(beat + patience)
			requireDivided(t, nodes, 3)
			lapsed := len(nodes[0].log.all("lapsed"))
			if pause < patience-beat {
				require.Zero(t, lapsed, "a short pause is forgiven")
			}
			if pause > bound {
				require.Equal(t, 1, lapsed)
				require.Len(t, nodes[0].log.all("joined"), 2)
			}
		})
	}
}

// A stopped process cannot notice the end of its lease in time. Owns checks the clock, so
// its first answer after the stop is correct.
func TestR11_StoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		stopped := make(chan struct{})
		members := 0
		paused := start(t, s, &replicas.Options{Label: "paused", Hooks: replicas.Hooks{Members: func([]replicas.Member) {
			if members++; members == 2 {
				<-stopped
			}
		}}})
		time.Sleep(time.Second)
		other := start(t, s, nil) // its start blocks the first replica's loop
		synctest.Wait()
		mine := ""
		for _, name := range names(100) {
			if paused.Owns(name) {
				mine = name
			}
		}
		require.NotEmpty(t, mine)
		time.Sleep(time.Minute)
		require.False(t, paused.Owns(mine))
		require.True(t, other.Owns(mine))
		changed := paused.Changed()
		close(stopped)
		<-changed // the loop notices the end of the lease too
		time.Sleep(bound)
		requireDivided(t, []*node{paused, other}, 2)
		require.Equal(t, 2, len(paused.log.all("joined")))
	})
}

// If all processes stop, for example because their machine sleeps, none mistakes the silence
// for the death of another. The first one to wake expels no member.
func TestR11_PausedMembersExpelNone(t *testing.T) {
	for _, pause := range []time.Duration{beat, patience + time.Second, time.Hour} {
		for first := range 3 {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				const members = 3
				wake := make([]chan struct{}, members)
				var nodes []*node
				for i := range members {
					wake[i] = make(chan struct{})
					nodes = append(nodes, start(t, s, &replicas.Options{Label: fmt.Sprint("node-", i), Hooks: replicas.Hooks{
						Members: func(list []replicas.Member) {
							if len(list) == members+1 {
								<-wake[i] // blocks the loop, and thereby the watch
							}
						},
					}}))
				}
				time.Sleep(time.Minute)
				extra := start(t, s, nil) // its start blocks the loops of all other members
				synctest.Wait()
				require.NoError(t, extra.stop())
				time.Sleep(pause)
				for i := range members {
					close(wake[(first+i)%members])
					time.Sleep(beat / 2)
				}
				time.Sleep(bound)
				requireDivided(t, nodes, members)
				for _, n := range nodes {
					require.Empty(t, n.log.all("expelled node"))
				}
			})
		}
	}
}

// dying is a store whose watches end at once.
type dying struct {
	store.Store
	watches atomic.Int64
}

func (d *dying) Watch(ctx context.Context, _ string, _ store.Position) iter.Seq2[store.Change, error] {
	return func(func(store.Change, error) bool) {
		if d.watches.Add(1) > 1000 {
			<-ctx.Done() // enough watches to fail the test
		}
	}
}

// A replica restarts a watch that ended at once after a pause.
func TestR10_FailingWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &dying{Store: newStore(t)}
		start(t, s, nil)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, s.watches.Load(), int64(time.Minute/(beat/4))+1)
		require.Greater(t, s.watches.Load(), int64(time.Minute/beat))
	})
}

// A replica that cannot reach the store owns nothing before others take over. It joins again
// once the connection works. A replica that loses only its watches lists instead and stays a
// member.
func TestR12_StoreUnreachableForOne(t *testing.T) {
	for name, broken := range map[string]state{"down": down, "hung": hung, "deaf": deaf} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := starts(t, newStore(t), 3)
				time.Sleep(time.Minute)
				nodes[2].line.set(broken)
				if broken == deaf { // the replica lists instead of watching, and stays a member
					time.Sleep(10 * time.Minute)
					requireDivided(t, nodes, 3)
					require.NotEmpty(t, nodes[2].log.all("failed: watch members: a beat that the store acknowledged"))
					require.Empty(t, nodes[2].log.all("lapsed"))
					return
				}
				require.LessOrEqual(t, takeover(t, nodes[:2]), bound)
				require.False(t, nodes[2].Owns("tenant-1"))
				time.Sleep(10 * time.Minute)
				requireDivided(t, nodes, 2)
				nodes[2].line.set(up)
				time.Sleep(beat)
				requireDivided(t, nodes, 3)
			})
		})
	}
}

// A member whose watch yields nothing lists instead, and still expels dead members. It
// notices each beat and the expulsion up to a Beat late.
func TestR12_ExpelWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := starts(t, newStore(t), 2)
		time.Sleep(time.Minute)
		nodes[0].line.set(deaf)
		time.Sleep(time.Minute)
		nodes[1].line.set(hung)
		require.LessOrEqual(t, takeover(t, nodes[:1]), bound+3*beat)
	})
}

// If another client keeps deleting a replica's entry, the replica joins again at a bounded
// rate.
func TestR10_JoiningIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for change, err := range s.Watch(ctx, entries, store.Position{}) {
				if err != nil {
					return
				}
				for _, e := range change.Events {
					if !e.Deleted {
						_, _ = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete(e.Key)}})
					}
				}
			}
		}()
		synctest.Wait()
		n := start(t, s, nil)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, n.line.count(), int(time.Minute/(beat/4))+2)
		require.Greater(t, n.line.count(), 10)
		cancel()
		<-ended
		time.Sleep(beat)
		require.True(t, n.Owns("a"), "it joins as soon as its entry stays")
	})
}

// A commit with an unknown outcome is not a failure: the watch shows whether the write
// succeeded.
func TestR11_UnknownOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		nodes := starts(t, s, 3)
		for _, n := range nodes[:2] {
			n.line.set(mute)
		}
		time.Sleep(10 * time.Minute)
		requireDivided(t, nodes, 3)
		for _, n := range nodes {
			require.Empty(t, n.log.all("lapsed", "expelled"))
		}
		require.ErrorIs(t, nodes[0].stop(), store.ErrUnknownOutcome, "it does not know whether it has left")
		synctest.Wait()
		requireDivided(t, nodes, 2)
	})
}

// After an outage of the store for all members, no member is expelled.
func TestR11_StoreUnreachableForAll(t *testing.T) {
	for _, away := range []time.Duration{time.Second, patience - time.Second, patience, time.Minute} {
		for _, how := range []state{down, hung} {
			synctest.Test(t, func(t *testing.T) {
				nodes := starts(t, newStore(t), 4)
				time.Sleep(time.Minute + 300*time.Millisecond)
				for _, n := range nodes {
					n.line.set(how)
				}
				time.Sleep(away)
				for _, n := range nodes {
					n.line.set(up)
				}
				time.Sleep(beat)
				requireDivided(t, nodes, 4)
				for _, n := range nodes {
					require.Empty(t, n.log.all("expelled"), "away for %v", away)
				}
			})
		}
	}
}

// Other writes to the entry of a replica do not end it: a copy of the value, another value, a
// deletion.
func TestEntryChangedByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		nodes := starts(t, s, 2)
		random := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
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
		}
		time.Sleep(bound)
		requireDivided(t, nodes, 2)
		require.NotEmpty(t, nodes[0].log.all("lapsed: other replicas considered this one dead"))
	})
}

// A foreign entry between the entries of the members counts as a silent member.
func TestMalformedEntryIsExpelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(entries+"strange", []byte("not JSON"))}})
		require.NoError(t, err)
		n := start(t, s, nil)
		synctest.Wait()
		require.Len(t, n.Members(), 2)
		time.Sleep(bound)
		require.Len(t, n.Members(), 1)
		require.Len(t, n.log.all("expelled"), 1)
	})
}

// A closed store ends Run with ErrClosed.
func TestStoreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		n := start(t, s, nil)
		time.Sleep(time.Minute)
		require.NoError(t, s.Close())
		time.Sleep(time.Minute)
		require.ErrorIs(t, n.stop(), store.ErrClosed)
		require.Len(t, n.log.all("lapsed"), 1)
		require.Contains(t, n.log.all("lapsed")[0], store.ErrClosed.Error())
	})
}

// If the store does not answer, leaving takes at most a Beat, and the error states the
// consequence.
func TestLeavingWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, newStore(t), nil)
		time.Sleep(time.Minute)
		n.line.set(hung)
		began := time.Now()
		err := n.stop()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "others take over after Patience and a Beat")
		require.LessOrEqual(t, time.Since(began), beat)
	})
}

// cancelling fails listings with context.Canceled.
type cancelling struct {
	store.Store
	listings int
}

func (c *cancelling) List(context.Context, store.Query) (store.Page, error) {
	c.listings++
	return store.Page{}, &store.Error{Op: "list", Err: context.Canceled}
}

// If the store itself reports a canceled call, the replica retries as after any other
// failure.
func TestR10_CancelledByTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cancelling{Store: newStore(t)}
		failed := 0
		r, err := replicas.New(c, "g", &replicas.Options{Hooks: replicas.Hooks{Failed: func(error) { failed++ }}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, r.Run(ctx))
		require.LessOrEqual(t, c.listings, int(time.Minute/(beat/4))+1)
		require.GreaterOrEqual(t, failed, c.listings-1)
	})
}
