package replicas_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/store"
)

func TestBadInput(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct {
		name  string
		group string
		opts  *replicas.Options
		want  string
	}{
		{"no group", "", nil, "must not be empty"},
		{"group ends in a slash", "a/", nil, "must not be empty"},
		{"group leaves its place", "../a", nil, "must not begin with '.'"},
		{"group is hidden", "a/.b", nil, "must not begin with '.'"},
		{"group not UTF-8", "a\xff", nil, "UTF-8"},
		{"group with a line end", "a\nb", nil, "control character"},
		{"group with a percent sign", "a%2fb", nil, "'%'"},
		{"oversized group", strings.Repeat("a", 254), nil, "254 bytes"},
		{"prefix with an empty segment", group, &replicas.Options{Prefix: "/a"}, "Options.Prefix"},
		{"oversized label", group, &replicas.Options{Label: strings.Repeat("a", 254)}, "Options.Label has 254 bytes"},
		{"label not UTF-8", group, &replicas.Options{Label: "\xff"}, "Options.Label"},
		{"negative beat", group, &replicas.Options{Beat: -1}, "Options.Beat"},
		{"negative patience", group, &replicas.Options{Patience: -1}, "Options.Patience"},
		{"patience too short", group, &replicas.Options{Beat: time.Second, Patience: 2*time.Second - 1}, "at least two Beats"},
		{"patience too short for the default beat", group, &replicas.Options{Patience: time.Second}, "at least two Beats"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := replicas.New(s, c.group, c.opts)
			require.ErrorContains(t, err, c.want)
		})
	}
	r, err := replicas.New(s, group, nil)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ended))
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Empty(t, page.Entries, "nothing was written")
}

// A replica that is not a member owns nothing and lists no members.
func TestNotAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		r, err := replicas.New(s, group, nil)
		require.NoError(t, err)
		require.False(t, r.Owns("a"))
		require.Empty(t, r.Members())
		changed := r.Changed()
		n := start(t, s, nil)
		synctest.Wait()
		require.True(t, n.Owns("a"))
		select {
		case <-changed:
			t.Fatal("Changed fired for a replica that does not run")
		default:
		}
		require.NoError(t, n.stop())
		require.False(t, n.Owns("a"))
		require.Empty(t, n.Members())
	})
}

func TestRunOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		n := start(t, s, nil)
		synctest.Wait()
		require.ErrorIs(t, n.Run(t.Context()), replicas.ErrRunning)
		require.NoError(t, n.stop())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, n.Run(ctx), "again, after it returned")
		require.Equal(t, []string{"joined as " + label(t, n), "joined as " + label(t, n)}, n.log.all("joined"))
		page, err := s.List(t.Context(), store.Query{})
		require.NoError(t, err)
		require.Empty(t, page.Entries, "it has left")
	})
}

func label(t *testing.T, n *node) string {
	t.Helper()
	joined := n.log.all("joined as ")
	require.NotEmpty(t, joined)
	return strings.TrimPrefix(joined[0], "joined as ")
}

// Without failures, each name has one owner at all times, and shares are even. A member that
// joins or leaves moves only its own share.
func TestR11_WorkIsDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		nodes := starts(t, s, 4)
		synctest.Wait()
		requireDivided(t, nodes, 4)
		for _, n := range nodes {
			require.Equal(t, "node-", n.Members()[0].Label[:5])
			require.Len(t, n.Members(), 4)
		}
		time.Sleep(10 * time.Minute)
		requireDivided(t, nodes, 4)

		before := owners(nodes)
		nodes = append(nodes, start(t, s, nil))
		synctest.Wait()
		requireDivided(t, nodes, 5)
		requireMoved(t, before, owners(nodes), func(_, to int) bool { return to == 4 })

		before = owners(nodes)
		require.NoError(t, nodes[2].stop())
		synctest.Wait()
		requireDivided(t, nodes, 4)
		requireMoved(t, before, owners(nodes), func(from, _ int) bool { return from == 2 })
		for _, n := range nodes {
			require.Empty(t, n.log.all("expelled", "failed"))
		}
	})
}

// owners returns the index of the owner of each of many names.
func owners(nodes []*node) map[string]int {
	list := map[string]int{}
	for _, name := range names(1000) {
		for i, n := range nodes {
			if n.Owns(name) {
				list[name] = i
			}
		}
	}
	return list
}

func requireMoved(t *testing.T, before, after map[string]int, may func(from, to int) bool) {
	t.Helper()
	for name, from := range before {
		if to := after[name]; to != from {
			require.True(t, may(from, to), "%s moved from %d to %d", name, from, to)
		}
	}
}

// Groups and prefixes are independent, even if the name of one begins with the name of
// another.
func TestGroupsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		var all []*replicas.Replica
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		for _, c := range []struct{ prefix, group string }{
			{"", "example.com"}, {"", "example.com/tenants"}, {"other", "example.com"}, {"a/b", "example.com"},
		} {
			r, err := replicas.New(s, c.group, &replicas.Options{Prefix: c.prefix})
			require.NoError(t, err)
			all = append(all, r)
			go func() { ended <- r.Run(ctx) }()
		}
		time.Sleep(time.Minute)
		for i, r := range all {
			require.Len(t, r.Members(), 1, "%d", i)
			require.True(t, r.Owns("a"))
		}
		cancel()
		for range all {
			require.NoError(t, <-ended)
		}
	})
}

// An idle replica writes once in each Beat and makes no other writes.
func TestIdleCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := starts(t, newStore(t), 4)
		time.Sleep(time.Minute)
		for _, n := range nodes {
			require.LessOrEqual(t, n.line.count(), int(time.Minute/beat)+1)
			require.GreaterOrEqual(t, n.line.count(), int(time.Minute/beat)-1)
			require.Equal(t, []string{"joined as " + label(t, n)}, n.log.all("joined", "lapsed", "expelled", "failed"))
		}
	})
}

// Changed signals every change of an answer to callers that got the channel before it.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		n := start(t, s, nil)
		counted := make(chan int)
		go func() {
			count := 0
			changed := n.Changed()
			for range 5 { // the replica joins, another joins, the other leaves, the lease ends, the replica joins again
				<-changed
				changed = n.Changed()
				count++
			}
			counted <- count
		}()
		time.Sleep(time.Minute)
		other := start(t, s, nil)
		time.Sleep(time.Minute)
		require.NoError(t, other.stop())
		time.Sleep(time.Minute)
		n.line.set(hung)
		time.Sleep(time.Minute)
		require.False(t, n.Owns("a"))
		n.line.set(up)
		time.Sleep(time.Minute)
		require.True(t, n.Owns("a"))
		require.Equal(t, 5, <-counted)
	})
}

// A panic of a hook propagates to the caller of Run, after the replica has left.
func TestHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		r, err := replicas.New(s, group, &replicas.Options{Hooks: replicas.Hooks{
			Members: func([]replicas.Member) { panic("boom") },
		}})
		require.NoError(t, err)
		require.PanicsWithValue(t, "boom", func() { _ = r.Run(t.Context()) })
		require.False(t, r.Owns("a"))
		page, err := s.List(t.Context(), store.Query{})
		require.NoError(t, err)
		require.Empty(t, page.Entries)
	})
}
