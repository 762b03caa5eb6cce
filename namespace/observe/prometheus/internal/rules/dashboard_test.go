package rules

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// dashboard is the part of Grafana's format that the tests read.
type dashboard struct {
	Templating struct {
		List []struct{ Name string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, RefID string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile("../../dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(data, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// expr returns the query that Grafana sends to Prometheus.
func expr(t *testing.T, text string) parser.Expr {
	t.Helper()
	text = strings.NewReplacer("$finalizer", "kubernetes|example.com/agent", "$__rate_interval", "5m").Replace(text)
	require.NotContains(t, text, "$", "a variable that the dashboard has not")
	e, err := parser.ParseExpr(text)
	require.NoError(t, err, text)
	return e
}

// series lists every series of a collector, in the format of Prometheus' test loader: each
// grows by its value every minute.
func series(t *testing.T) (load string, known map[string][]string) {
	t.Helper()
	registry := client.NewRegistry()
	collector, err := prometheus.New("kubernetes", nil)
	require.NoError(t, err)
	require.NoError(t, registry.Register(collector))
	h := collector.Hooks()
	for _, name := range []string{"a", "b"} {
		ref := namespace.Ref{Name: name, UID: "1"}
		h.Queued(ref)
		r := pass.Result{Outcome: pass.Failed, Conflicts: 1}
		r.Namespace.Name, r.Namespace.UID = ref.Name, ref.UID
		r.Namespace.DeletionTimestamp = phase.Time{Time: time.Now().Add(-time.Hour)}
		r.Report.Results = []deleter.Result{{Resource: namespace.ResourceType{Name: "pods"}, Deleted: 1, Err: errors.New("boom")}}
		h.PassEnded(context.Background(), ref, r, r.Report.Err(), time.Second)
		h.Retried(ref, time.Second, controller.ReasonFailed)
	}
	h.Removed(namespace.Ref{Name: "b", UID: "1"})
	families, err := registry.Gather()
	require.NoError(t, err)
	var b strings.Builder
	known = map[string][]string{}
	line := func(name string, pairs ...string) {
		kept := []string{"job", "instance"}
		b.WriteString(name + `{job="agent",instance="a"`)
		for i := 0; i < len(pairs); i += 2 {
			b.WriteString("," + pairs[i] + `="` + pairs[i+1] + `"`)
			kept = append(kept, pairs[i])
		}
		b.WriteString("} 1+1x120\n")
		known[name] = kept
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, l.GetName(), l.GetValue())
			}
			if m.GetHistogram() == nil {
				line(family.GetName(), pairs...)
				continue
			}
			line(family.GetName()+"_sum", pairs...)
			line(family.GetName()+"_count", pairs...)
			for _, le := range []string{"1", "60", "+Inf"} {
				line(family.GetName()+"_bucket", append(pairs, "le", le)...)
			}
		}
	}
	return b.String(), known
}

// Every query of the dashboard returns data.
func TestDashboardShows(t *testing.T) {
	load, _ := series(t)
	storage := promqltest.LoadedStorage(t, "load 1m\n"+load)
	defer storage.Close()
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, 1e6), storage)
	for _, p := range readDashboard(t).Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			got, err := query(t.Context(), expr(t, target.Expr).String(), time.Unix(0, 0).Add(2*time.Hour))
			require.NoError(t, err, target.Expr)
			require.NotEmpty(t, got, "%s: %s shows nothing", p.Title, target.Expr)
			for _, sample := range got {
				require.False(t, math.IsNaN(sample.F), "%s: %s is no number", p.Title, target.Expr)
			}
		}
	}
}

// The metrics and labels in alerts and dashboard are exported, and the dashboard shows every
// metric.
func TestNamesExist(t *testing.T) {
	_, known := series(t)
	used := map[string]bool{}
	check := func(e parser.Expr, where string) {
		parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.VectorSelector:
				used[n.Name] = true
				require.Contains(t, known, n.Name, where)
				for _, m := range n.LabelMatchers {
					if m.Name != labels.MetricName {
						require.Contains(t, known[n.Name], m.Name, where)
					}
				}
			case *parser.AggregateExpr:
				for _, name := range n.Grouping {
					require.True(t, n.Without || isLabel(known, n, name), "%s: nothing has the label %s", where, name)
				}
			}
			return nil
		})
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			check(expr(t, target.Expr), p.Title)
		}
	}
	for name := range known {
		require.True(t, used[name], "the dashboard does not show %s", name)
	}
	for _, rule := range alerts(t) {
		e, err := parser.ParseExpr(rule.Expr.Value)
		require.NoError(t, err)
		check(e, rule.Alert.Value)
	}
}

// isLabel reports whether every metric below n has the label.
func isLabel(known map[string][]string, n parser.Node, label string) bool {
	all := true
	parser.Inspect(n, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			all = all && slices.Contains(known[s.Name], label)
		}
		return nil
	})
	return all
}

// Grafana accepts it: panels have unique ids, titles, and positions that do not overlap.
func TestDashboardIsInOrder(t *testing.T) {
	d := readDashboard(t)
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.True(t, strings.HasSuffix(p.Description, "."), p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s lies upon it", p.Title)
				taken[at] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			require.False(t, refs[target.RefID], p.Title)
			refs[target.RefID] = true
		}
	}
	require.Len(t, d.Templating.List, 2)
}
