package explain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Text, JSON and page agree on the remaining number, and claim no unobserved completion.
func TestProgressIsTheSameEverywhere(t *testing.T) {
	removed := func(n int, h explain.Recorded) explain.Recorded {
		h.Removed = n
		return h
	}
	pods := func(n int) explain.Objects { return explain.Objects{Resource: "pods", Remaining: n, Since: ago(1)} }
	ended := explain.Recorded{UID: "u-1", Deleted: ago(2), Ended: ago(1), Total: 4, Removed: 9}
	unknown := with(dying("kubernetes"), "", broken)
	for _, c := range []struct {
		name    string
		in      input
		text    string // of the progress; empty: there is none
		percent int    // negative: not known
	}{
		{"nothing was seen and a source fails", input{Namespace: unknown, History: removed(7, failing(explain.SourceFailed, "x", "y"))},
			"7 removed, remaining unknown", -1},
		{"nothing was seen by conditions", input{Namespace: unknown}, "", -1},
		{"some was seen and a source fails", input{Namespace: unknown, History: func() explain.Recorded {
			h := removed(6, failing(explain.SourceFailed, "x", "y"))
			h.Objects = []explain.Objects{pods(2)}
			return h
		}()}, "6 removed, at least 2 remaining", 75},
		{"some remain", input{Namespace: dying("kubernetes"), History: removed(3, lef(pods(1)))}, "3 removed, 1 remaining", 75},
		{"all but one", input{Namespace: dying("kubernetes"), History: removed(999_999, lef(pods(1)))}, "999,999 removed, 1 remaining", 99},
		{"as many as there can be", input{Namespace: dying("kubernetes"), History: removed(math.MaxInt, lef(pods(math.MaxInt)))}, " remaining", 50},
		{"waiting for a finalizer", input{Namespace: with(dying(origin), "", phase.Observation{}), History: removed(9, looked(explain.Recorded{}, "finalized"))},
			"9 removed, 0 remaining", 100},
		{"removed", input{Name: "shop", History: ended}, "9 removed, in 4 passes", 100},
		{"removed by force, objects are left", input{Name: "shop", History: ended, Records: forced()}, "9 removed, at least 2 remaining", 81},
		{"removed by force, objects are left and nothing was recorded", input{Name: "shop", Records: forced()}, "0 removed, at least 2 remaining", 0},
		{"removed by force and swept", input{Name: "shop", History: ended, Records: append(complete(), audit.Record{Action: audit.Swept, UID: "u-1", Follows: "r1"})},
			"9 removed, in 4 passes", 100},
		{"terminating, a finalizer was dropped by force", input{Namespace: with(dying("kubernetes"), "", phase.Observation{}), History: removed(9, looked(explain.Recorded{}, "waiting")), Records: forced()},
			"9 removed, at least 2 remaining", 81},
		{"cannot be read", input{Name: "shop", Unread: errors.New("disk full"), History: removed(7, looked(explain.Recorded{}, "failed"))},
			"7 removed, remaining unknown", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			d := diagnose(c.in)
			encoded, err := json.Marshal(d.Progress)
			require.NoError(t, err)
			if c.text == "" {
				require.Equal(t, "null", string(encoded))
				require.NotContains(t, d.Text(), "PROGRESS")
				return
			}
			_, text, _ := strings.Cut(d.Text(), "PROGRESS\n")
			line, _, _ := strings.Cut(text, "\n")
			require.Contains(t, line, c.text)
			if c.percent < 0 {
				require.Contains(t, string(encoded), `"known":false`)
				return
			}
			require.Contains(t, string(encoded), `"known":true`)
			require.Contains(t, string(encoded), fmt.Sprintf(`"percent":%d`, c.percent))
		})
	}
}

// For healthy namespaces, no command deletes anything.
func TestHealthyNamespaceIsOfferedNoDeletion(t *testing.T) {
	for name, in := range map[string]input{
		"active":       {Namespace: living()},
		"not there":    {Name: "shop"},
		"removed":      {Name: "shop", History: explain.Recorded{UID: "u-1", Ended: ago(1)}},
		"just begun":   {Namespace: dying("kubernetes")},
		"on the watch": {Namespace: dying("kubernetes"), History: lef(explain.Objects{Resource: "pods", Remaining: 3, Deleting: 3})},
	} {
		in.Now = now
		d := diagnose(in)
		require.NotContains(t, d.Text(), "kubectl delete", name)
	}
}

// An unknown name differs from a removed namespace.
func TestNeverExistedIsNotRemoved(t *testing.T) {
	unknown := diagnose(input{Name: "shop", Now: now})
	require.Equal(t, []explain.Kind{explain.NotFound}, kinds(unknown))
	require.Contains(t, unknown.Text(), "namespace shop: not found\n")
	require.NotContains(t, unknown.Text(), "There is nothing to do")
	for name, in := range map[string]input{
		"recorded":   {Name: "shop", History: explain.Recorded{UID: "u-1", Ended: ago(1)}},
		"on record":  {Name: "shop", Records: []audit.Record{{ID: "r1", Action: audit.Declared, UID: "u-1"}}},
		"was forced": {Name: "shop", Records: forced()},
	} {
		in.Now = now
		d := diagnose(in)
		require.Contains(t, kinds(d), explain.Gone, name)
		require.Contains(t, d.Text(), "namespace shop: gone\n", name)
	}
}
