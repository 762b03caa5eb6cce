package priority_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/internal/priority"
)

type member struct {
	due  int
	slot int32
}

func TestQueueAgainstAMap(t *testing.T) {
	t.Parallel()
	q := priority.New(func(a, b *member) bool { return a.due < b.due }, func(m *member) *int32 { return &m.slot })
	all := make([]member, 50)
	queued := map[*member]bool{}
	for range 5000 {
		m := &all[rand.IntN(len(all))]
		switch rand.IntN(3) {
		case 0:
			q.Remove(m)
			delete(queued, m)
		default:
			m.due = rand.IntN(1000)
			q.Set(m)
			queued[m] = true
		}
		for now := rand.IntN(200); ; {
			first, ok := q.First()
			require.Equal(t, len(queued) > 0, ok)
			for other := range queued {
				require.LessOrEqual(t, first.due, other.due)
			}
			if !ok || first.due > now {
				break
			}
			q.Remove(first)
			delete(queued, first)
		}
		for i := range all {
			require.Equal(t, queued[&all[i]], all[i].slot != 0)
		}
	}
}
