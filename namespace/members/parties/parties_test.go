package parties_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/store"
)

func TestBadInput(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct {
		name string
		f    finalizer.Name
		opts *parties.Options
		want string
	}{
		{"no finalizer", "", nil, "invalid finalizer"},
		{"finalizer not qualified", "agent", nil, "fully qualified"},
		{"finalizer leaves its place", "../../agent", nil, "invalid finalizer"},
		{"finalizer not UTF-8", "example.com/\xff", nil, "invalid finalizer"},
		{"oversized finalizer", "example.com/" + finalizer.Name(strings.Repeat("a", 64)), nil, "63"},
		{"prefix with an empty segment", agent, &parties.Options{Prefix: "a//b"}, "must not be empty"},
		{"prefix leaves its place", agent, &parties.Options{Prefix: ".."}, "must not begin with '.'"},
		{"prefix with a percent sign", agent, &parties.Options{Prefix: "a%2f"}, "'%'"},
		{"prefix with a line end", agent, &parties.Options{Prefix: "a\nb"}, "control character"},
		{"oversized prefix", agent, &parties.Options{Prefix: strings.Repeat("a", 254)}, "254 bytes"},
		{"oversized label", agent, &parties.Options{Label: strings.Repeat("a", 254)}, "Options.Label has 254 bytes"},
		{"label not UTF-8", agent, &parties.Options{Label: "\xff"}, "Options.Label"},
		{"label of two lines", agent, &parties.Options{Label: "a\nb"}, "control character"},
		{"oversized contact", agent, &parties.Options{Contact: strings.Repeat("a", 1025)}, "Options.Contact has 1025 bytes"},
		{"contact not UTF-8", agent, &parties.Options{Contact: "\xff"}, "Options.Contact"},
		{"negative beat", agent, &parties.Options{Beat: -1}, "Options.Beat is -1ns: it must be at least 100ms"},
		{"beat of a nanosecond", agent, &parties.Options{Beat: 1}, "Options.Beat is 1ns: it must be at least 100ms"},
		{"beat just too short", agent, &parties.Options{Beat: 100*time.Millisecond - 1}, "it must be at least 100ms"},
		{"patience for no beat", agent, &parties.Options{Patience: 200*time.Millisecond - 1}, "at least two Beats"},
		{"label with a control character beyond ASCII", agent, &parties.Options{Label: "a\u009b2J"}, "control character"},
		{"oversized beat", agent, &parties.Options{Beat: 13 * time.Hour}, "Options.Beat is 13h0m0s: it must be at most 12h"},
		{"negative patience", agent, &parties.Options{Patience: -1}, "Options.Patience is -1ns: it must be at least two Beats"},
		{"oversized patience", agent, &parties.Options{Patience: 25 * time.Hour}, "Options.Patience is 25h0m0s: it must be at most 24h"},
		{"patience too short", agent, &parties.Options{Beat: time.Second, Patience: time.Second}, "at least two Beats"},
		{"no patience at all", agent, &parties.Options{Patience: 1}, "at least two Beats"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, parties.Announce(t.Context(), s, c.f, c.opts), c.want)
			if c.opts != nil && c.opts.Prefix != "" {
				_, err := parties.List(t.Context(), s, c.opts.Prefix)
				require.ErrorContains(t, err, c.want)
			}
		})
	}
	require.ErrorIs(t, parties.Announce(t.Context(), s, "agent", nil), finalizer.ErrInvalid)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, parties.Announce(ended, s, agent, nil))
	_, err := parties.List(ended, s, "")
	require.ErrorIs(t, err, context.Canceled)
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Empty(t, page.Entries, "nothing was written")
}

// List returns each announced party with its contact and its living instances.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		require.Empty(t, listed(t, s))
		began := time.Now().UTC()
		two := announce(t, s, agent, &parties.Options{Label: "two", Contact: "#agents"})
		synctest.Wait()
		time.Sleep(3 * time.Second)
		one := announce(t, s, agent, &parties.Options{Label: "one", Contact: "#agents-on-call"})
		announce(t, s, finalizer.Kubernetes, &parties.Options{Label: "controller"})
		synctest.Wait()
		time.Sleep(beat) // two's second beat is younger than one's first, and one's third than all
		synctest.Wait()
		at := func(d time.Duration) time.Time { return began.Add(d) }
		want := []parties.Party{
			{
				Finalizer: agent, Contact: "#agents-on-call", LastSeen: at(13 * time.Second), Alive: true,
				Instances: []parties.Instance{
					{Label: "one", Since: at(3 * time.Second), LastSeen: at(13 * time.Second), Alive: true},
					{Label: "two", Since: at(0), LastSeen: at(10 * time.Second), Alive: true},
				},
			},
			{
				Finalizer: finalizer.Kubernetes, LastSeen: at(13 * time.Second), Alive: true,
				Instances: []parties.Instance{{Label: "controller", Since: at(3 * time.Second), LastSeen: at(13 * time.Second), Alive: true}},
			},
		}
		require.Empty(t, cmp.Diff(want, listed(t, s)))

		// An instance that leaves records that at once, and is not listed while others live.
		require.NoError(t, one.stop())
		list := listed(t, s)
		require.Len(t, list[0].Instances, 1)
		require.Equal(t, "two", list[0].Instances[0].Label)
		require.Equal(t, "#agents", list[0].Contact)

		// The last instance stays listed after it has left.
		time.Sleep(time.Second)
		require.NoError(t, two.stop())
		for range 2 {
			want[0].Contact, want[0].Alive, want[0].LastSeen = "#agents", false, at(14*time.Second)
			want[0].Instances = []parties.Instance{{Label: "two", Since: at(0), LastSeen: at(14 * time.Second), Left: true}}
			require.Empty(t, cmp.Diff(want[:1], listed(t, s)[:1]))
			time.Sleep(24 * time.Hour)
			synctest.Wait()
		}
	})
}

// The JSON form is part of the API.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	data, err := json.Marshal(parties.Party{
		Finalizer: agent, Contact: "#agents", LastSeen: at,
		Instances: []parties.Instance{{Label: "one", Since: at, LastSeen: at, Left: true}},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"finalizer":"example.com/agent","contact":"#agents","lastSeen":"2026-01-02T03:04:05Z","alive":false,
		"instances":[{"label":"one","since":"2026-01-02T03:04:05Z","lastSeen":"2026-01-02T03:04:05Z","alive":false,"left":true}]}`, string(data))
}

// An instance is alive until it has been silent for its own Patience.
func TestMissing(t *testing.T) {
	for _, opts := range []parties.Options{
		{},
		{Beat: time.Second},
		{Beat: time.Second, Patience: 3 * time.Second},
		{Beat: time.Minute},
		{Patience: 6 * time.Second},
		{Patience: 24 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			patience := opts.Patience
			if patience == 0 {
				patience = max(30*time.Second, 3*opts.Beat)
			}
			s := newStore(t)
			a := announce(t, s, agent, &opts)
			for range 100 {
				time.Sleep(patience / 7)
				synctest.Wait()
				require.True(t, listed(t, s)[0].Alive)
			}
			a.line.set(hung)
			last := listed(t, s)[0].LastSeen
			time.Sleep(time.Until(last.Add(patience - time.Millisecond)))
			require.True(t, listed(t, s)[0].Alive)
			time.Sleep(time.Millisecond)
			list := listed(t, s)
			require.False(t, list[0].Alive)
			require.Equal(t, last, list[0].LastSeen, "missing since then")
			require.False(t, list[0].Instances[0].Left, "it did not leave orderly")
		})
	}
}

// The entries of parties whose names have a common beginning are kept apart.
func TestFinalizersWithACommonBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		outer := announce(t, s, finalizer.Kubernetes, &parties.Options{Label: "outer"})
		inner := announce(t, s, "kubernetes/agent", &parties.Options{Label: "inner"})
		synctest.Wait()
		inner.line.set(hung)
		time.Sleep(time.Hour)
		synctest.Wait()
		list := listed(t, s)
		require.Len(t, list, 2, "a living party does not remove dead instances of another one")
		require.Equal(t, []string{"outer", "inner"}, []string{list[0].Instances[0].Label, list[1].Instances[0].Label})
		require.NoError(t, outer.stop())
	})
}

// Parties of different prefixes are independent.
func TestPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		announce(t, s, agent, &parties.Options{Prefix: "a/b"})
		synctest.Wait()
		require.Empty(t, listed(t, s))
		list, err := parties.List(t.Context(), s, "a/b")
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}
