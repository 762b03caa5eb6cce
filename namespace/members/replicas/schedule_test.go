package replicas_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// Members join, leave, die and pause at random, and calls to the store fail. Two members
// never own a name for longer than Patience. Afterwards each name has one owner. The name of
// the test contains the seed.
func TestR11_RandomSchedules(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 3))
				plan, err := storetest.Seeded(seed, storetest.Rates{Conflict: 0.05, Lost: 0.05, Landed: 0.05, Fail: 0.05, Gone: 0.1})
				require.NoError(t, err)
				s := newStore(t)
				var quiet atomic.Bool
				faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
					if quiet.Load() {
						return storetest.Fault{}
					}
					return plan(a)
				})
				require.NoError(t, err)
				nodes := starts(t, faulty, 3)
				both := overlaps{}
				for range 60 {
					both.watch(t, nodes, time.Duration(random.Int64N(int64(2*beat))))
					n := nodes[random.IntN(len(nodes))]
					switch random.IntN(8) {
					case 0:
						if len(nodes) < 8 {
							nodes = append(nodes, start(t, faulty, &replicas.Options{Label: fmt.Sprint("late-", len(nodes))}))
						}
					case 1:
						_ = n.stop()
					case 2, 3:
						n.line.set([]state{down, hung, deaf, mute}[random.IntN(4)])
					default:
						n.line.set(up)
					}
				}
				quiet.Store(true)
				nodes = append(nodes, start(t, faulty, nil)) // at least one replica runs
				for _, n := range nodes {
					n.line.set(up)
				}
				both.watch(t, nodes, 2*bound)
				synctest.Wait()
				live := 0
				for _, n := range nodes {
					if len(n.Members()) > 0 {
						live++
					}
				}
				requireDivided(t, nodes, live)
				page, err := s.List(t.Context(), store.Query{Prefix: entries})
				require.NoError(t, err)
				require.Len(t, page.Entries, live, "no entry of a dead member is left")
			})
		})
	}
}

// overlaps maps two nodes and a name that both own to the start of the overlap.
type overlaps map[overlap]time.Time

type overlap struct {
	one, other int
	name       string
}

// watch observes the nodes for the duration how. It fails the test if two nodes own a name
// for longer than Patience.
func (o overlaps) watch(t *testing.T, nodes []*node, how time.Duration) {
	t.Helper()
	const step = 250 * time.Millisecond
	for end := time.Now().Add(how); time.Now().Before(end); {
		time.Sleep(min(step, time.Until(end)))
		synctest.Wait()
		for _, name := range names(20) {
			for i := range nodes {
				for j := range i {
					key := overlap{j, i, name}
					if !nodes[i].Owns(name) || !nodes[j].Owns(name) {
						delete(o, key)
					} else if o[key].IsZero() {
						o[key] = time.Now()
					}
					if !o[key].IsZero() {
						require.LessOrEqual(t, time.Since(o[key]), patience, "%v", key)
					}
				}
			}
		}
	}
}

// No content of an entry makes a replica fail.
func FuzzEntry(f *testing.F) {
	f.Add("a", []byte(`{"beat":1,"label":"x"}`))
	f.Add("", []byte(`{"beat":-1}`))
	f.Add("a/b", []byte("\xff"))
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t)
			_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(entries+id, data)}})
			if errors.Is(err, store.ErrTooLarge) {
				return
			}
			require.NoError(t, err)
			n := start(t, s, nil)
			synctest.Wait()
			want := 2
			if id == "" || strings.Contains(id, "/") {
				want = 1
			}
			require.Len(t, n.Members(), want)
			time.Sleep(bound)
			require.Len(t, n.Members(), 1)
			require.True(t, n.Owns("a"))
		})
	})
}
