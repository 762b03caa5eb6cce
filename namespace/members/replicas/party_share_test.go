package replicas_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const many = 120

func every(n int) func(int) bool { return func(i int) bool { return i%n == 0 } }

// work runs count controllers over many namespaces, some of which contain a held object for
// a minute. It returns the numbers of passes, of concurrent passes for one namespace, and of
// calls to sources.
func work(t *testing.T, count int, divided bool) (passes, double, calls int) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		for range count {
			p.join(t, divided)
		}
		time.Sleep(time.Minute)
		p.create(t, names(many), every(4))
		p.delete(t, names(many)...)
		time.Sleep(time.Minute)
		require.Equal(t, many/4, p.left(t))
		p.release(t, names(many)...)
		time.Sleep(time.Minute)
		require.Zero(t, p.left(t))
		p.requireClean(t)
		passes, double, calls = p.figures()
	})
	return passes, double, calls
}

// N controllers with a division do the work of one controller. Without a division they do up
// to N times as much.
func TestR11_NControllersDoTheWorkOfOne(t *testing.T) {
	passes, _, calls := work(t, 1, false)
	for _, n := range []int{1, 2, 4} {
		p, double, c := work(t, n, true)
		t.Logf("%d controllers, divided: %d passes (1 alone: %d), %d calls (%d)", n, p, passes, c, calls)
		require.Zero(t, double)
		require.LessOrEqual(t, p, passes*11/10)
		require.LessOrEqual(t, c, calls*11/10)
	}
	p, double, c := work(t, 4, false)
	t.Logf("4 controllers, not divided: %d passes, %d of them beside another, %d calls", p, double, c)
	require.Greater(t, p, 2*passes, "without a division the work grows, or this test proves nothing")
}

// If a controller's process dies under load, other controllers take its namespaces within
// the bound. The other namespaces keep their owners.
func TestR12_ControllerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		for range 4 {
			p.join(t, true)
		}
		time.Sleep(time.Minute)
		p.create(t, names(many), every(2))
		p.delete(t, names(many)...)
		time.Sleep(time.Minute) // half of the namespaces still have held objects
		before := p.perName()
		orphans, held := map[string]bool{}, 0
		for i, name := range names(many) {
			orphans[name] = p.peers[0].Owns(name)
			if orphans[name] && every(2)(i) {
				held++
			}
		}
		require.NotZero(t, held, "the controller that dies has a share of the held namespaces")
		p.peers[0].line.set(hung)
		time.Sleep(bound)
		synctest.Wait()
		taken := 0
		for name, passes := range p.perName() {
			switch more := passes - before[name]; {
			case !orphans[name]:
				require.LessOrEqual(t, more, 1, "%s had an owner all the time", name)
			case more > 0:
				taken++
				require.LessOrEqual(t, more, 12, "the backoff of %s starts over at 5 ms", name)
			}
		}
		require.Equal(t, held, taken, "others take all of the dead controller's held namespaces")
		for name := range p.double {
			require.True(t, orphans[name], "two controllers work on %s, whose owner did not change", name)
		}
		p.release(t, names(many)...)
		time.Sleep(time.Second)
		require.Zero(t, p.left(t), "others notice that content of the dead controller's namespaces is gone")
		p.requireClean(t)
	})
}

// A controller that cannot reach the store stops its work, and has a share again after the
// outage. A controller that joins under load takes its share. A controller that leaves hands
// its share over at once.
func TestR12_ControllersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		p.join(t, true)
		p.join(t, true)
		time.Sleep(time.Minute)
		all := names(many)
		p.create(t, all, every(2))
		p.delete(t, all[:many/2]...)
		time.Sleep(20 * time.Millisecond) // during the deletions
		p.join(t, true)
		p.delete(t, all[many/2:]...)
		time.Sleep(20 * time.Millisecond)
		p.peers[0].stop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, many/2, p.left(t), "only namespaces with held objects are left")
		p.peers[1].line.set(down)
		time.Sleep(time.Minute)
		p.peers[1].line.set(up)
		time.Sleep(2 * beat)
		requireDivided(t, []*node{p.peers[1].node, p.peers[2].node}, 2)
		p.release(t, all...)
		time.Sleep(time.Second)
		require.Zero(t, p.left(t))
		p.requireClean(t)
		passes, double, calls := p.figures()
		t.Logf("%d passes, %d of them beside another, %d calls", passes, double, calls)
	})
}

// If all controllers die at once, their replacements take every namespace within the bound.
func TestR12_AllRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		for range 3 {
			p.join(t, true)
		}
		time.Sleep(time.Minute)
		for _, q := range p.peers {
			q.line.set(hung)
		}
		p.create(t, names(many), nil)
		p.delete(t, names(many)...)
		for range 3 {
			p.join(t, true)
		}
		time.Sleep(bound + time.Second)
		require.Zero(t, p.left(t))
		p.requireClean(t)
	})
}

// Controllers join, leave, die, pause and lose the store at random under load. Afterwards
// every namespace is removed with all its content, and few passes overlap. The name of the
// test contains the seed.
func TestR12_RandomSchedules(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 4))
				p := newParty(t)
				for range 3 {
					p.join(t, true)
				}
				created := 0
				for range 30 {
					time.Sleep(time.Duration(random.Int64N(int64(beat))))
					fresh := names(created + random.IntN(10))[created:]
					created += len(fresh)
					p.create(t, fresh, every(3))
					p.delete(t, fresh...)
					q := p.peers[random.IntN(len(p.peers))]
					switch random.IntN(8) {
					case 0:
						if len(p.peers) < 7 {
							p.join(t, true)
						}
					case 1:
						q.stop()
					case 2, 3:
						q.line.set([]state{down, hung, deaf, mute}[random.IntN(4)])
					default:
						q.line.set(up)
					}
				}
				p.join(t, true)
				for _, q := range p.peers {
					q.line.set(up)
				}
				time.Sleep(2 * time.Minute)
				p.release(t, names(created)...)
				time.Sleep(2 * time.Minute)
				require.Zero(t, p.left(t))
				p.requireClean(t)
				passes, double, calls := p.figures()
				t.Logf("%d namespaces, %d passes, %d of them beside another, %d calls", created, passes, double, calls)
				require.LessOrEqual(t, double, passes/4)
			})
		})
	}
}
