package rules

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
)

const alertsFile = "../../alerts.yaml"

// alerts are the rules as Prometheus reads them.
func alerts(t *testing.T) []rulefmt.RuleNode {
	t.Helper()
	file, errs := rulefmt.ParseFile(alertsFile)
	require.Empty(t, errs)
	var all []rulefmt.RuleNode
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// Every rule has a severity, a summary and a description.
func TestAlertsAreComplete(t *testing.T) {
	for _, rule := range alerts(t) {
		require.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], rule.Alert.Value)
		for _, annotation := range []string{"summary", "description"} {
			text := rule.Annotations[annotation]
			require.True(t, strings.HasSuffix(text, "."), "%s: %s %q", rule.Alert.Value, annotation, text)
		}
	}
}

// firing is a firing alert.
type firing struct{ alert, finalizer, summary string }

const kubernetes = `finalizer="kubernetes",job="agent",instance="`

// Each case lists series with one sample per minute, and the alerts that fire.
var cases = []struct {
	name   string
	series string
	at     time.Duration
	want   []firing
}{
	{
		"all is well",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_terminating{` + kubernetes + `a",stage="DeletingContent"} 3+0x60
		namespace_terminating{` + kubernetes + `a",stage="WaitingForFinalizers"} 0+0x60
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="DeletingContent"} 20+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="failed"} 7+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="removed"} 0+5x60
		namespace_finalize_conflicts_total{` + kubernetes + `a"} 0+6x60
		namespace_sources_failing{` + kubernetes + `a",resource="pods"} 0+0x60`,
		time.Hour, nil,
	},
	{
		"stuck, not long enough",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x120
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="DeletingContent"} 0+60x120`,
		time.Hour + 5*time.Minute, nil,
	},
	{
		"stuck for an hour, as one of two replicas tells",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x120
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="DeletingContent"} 0+60x120
		namespace_terminating_oldest_seconds{` + kubernetes + `b",stage="DeletingContent"} 0+0x120`,
		time.Hour + 6*time.Minute,
		[]firing{{"NamespaceStuckTerminating", "kubernetes", "A namespace has been terminating for 1h 6m 0s."}},
	},
	{
		"stuck for a day",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x20
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="DeletingContent"} 90000+60x20`,
		5 * time.Minute,
		[]firing{
			{"NamespaceStuckForADay", "kubernetes", "A namespace has been terminating for 1d 1h 5m 0s."},
			{"NamespaceStuckTerminating", "kubernetes", "A namespace has been terminating for 1d 1h 5m 0s."},
		},
	},
	{
		"a source fails, and passes with it",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_sources_failing{` + kubernetes + `a",resource="widgets.example.com"} 2+0x60
		namespace_sources_failing{` + kubernetes + `b",resource="widgets.example.com"} 1+0x60
		namespace_sources_failing_seconds{finalizer="example.com/agent",job="agent",instance="a",resource="widgets.example.com"} 0+60x60
		namespace_sources_failing{` + kubernetes + `b",resource="pods"} 0+0x60
		namespace_sources_failing_seconds{` + kubernetes + `a",resource="widgets.example.com"} 0+60x60
		namespace_sources_failing_seconds{` + kubernetes + `b",resource="widgets.example.com"} 0+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="failed"} 0+3x60`,
		40 * time.Minute,
		[]firing{{"NamespaceSourceFailing", "kubernetes", "The source widgets.example.com fails in 3 terminating namespaces."}},
	},
	{
		"a source failed for a moment",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_sources_failing{` + kubernetes + `a",resource="widgets.example.com"} 2+0x10 0+0x10 2+0x10
		namespace_sources_failing_seconds{` + kubernetes + `a",resource="widgets.example.com"} 0+60x10 0+0x10 0+60x10`,
		30 * time.Minute, nil,
	},
	{
		"passes fail without a source",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_sources_failing{` + kubernetes + `a",resource="widgets.example.com"} 0+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="failed"} 0+3x60`,
		40 * time.Minute,
		[]firing{{"NamespacePassesFailing", "kubernetes", "100% of the passes over terminating namespaces fail, although no source fails."}},
	},
	{
		"passes of one party fail, and a source of another",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_sources_failing{finalizer="example.com/agent",job="agent",instance="a",resource="widgets.example.com"} 1+0x60
		namespace_sources_failing_seconds{finalizer="example.com/agent",job="agent",instance="a",resource="widgets.example.com"} 0+60x60
		namespace_passes_total{` + kubernetes + `a",outcome="failed"} 0+3x60`,
		40 * time.Minute,
		[]firing{
			{"NamespacePassesFailing", "kubernetes", "100% of the passes over terminating namespaces fail, although no source fails."},
			{"NamespaceSourceFailing", "example.com/agent", "The source widgets.example.com fails in 1 terminating namespaces."},
		},
	},
	{
		"waiting for others, who are stuck",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x90
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="DeletingContent"} 0+0x90
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="WaitingForFinalizers"} 0+60x90`,
		66 * time.Minute,
		[]firing{{"NamespaceWaitsForOthers", "kubernetes", "A namespace that kubernetes has finished has been terminating for 1h 6m 0s."}},
	},
	{
		"waiting for others, who always take a minute",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x180
		namespace_terminating{` + kubernetes + `a",stage="WaitingForFinalizers"} 2+0x180
		namespace_terminating_oldest_seconds{` + kubernetes + `a",stage="WaitingForFinalizers"} 60+0x180`,
		3 * time.Hour, nil,
	},
	{
		"a busy host with a source that fails now and then",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x180
		namespace_sources_failing{` + kubernetes + `a",resource="pods"} 3+0x180
		namespace_sources_failing_seconds{` + kubernetes + `a",resource="pods"} 40+0x180`,
		3 * time.Hour, nil,
	},
	{
		"a busy host of whose passes a few fail, or conflict",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="failed"} 0+60x60
		namespace_passes_total{` + kubernetes + `a",outcome="removed"} 0+6000x60
		namespace_finalize_conflicts_total{` + kubernetes + `a"} 0+90x60`,
		time.Hour, nil,
	},
	{
		"the queue stands",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 5+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="waiting"} 70+0x60`,
		30 * time.Minute,
		[]firing{{"NamespaceQueueStands", "kubernetes", "5 terminating namespaces wait, and no pass completes."}},
	},
	{
		"the queue is worked on",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 5+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="waiting"} 70+1x60`,
		30 * time.Minute, nil,
	},
	{
		"the queue is long",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 70+0x60
		namespace_controller_queue_depth{` + kubernetes + `b"} 50+0x60
		namespace_passes_total{` + kubernetes + `a",outcome="waiting"} 0+100x60`,
		30 * time.Minute,
		[]firing{{"NamespaceQueueLong", "kubernetes", "For 15 minutes at least 120 terminating namespaces were waiting for a worker."}},
	},
	{
		"the queue was long for a moment",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x20 1000+0x5 0+0x30
		namespace_passes_total{` + kubernetes + `a",outcome="waiting"} 0+100x60`,
		25 * time.Minute, nil,
	},
	{
		"a storm of conflicts",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x60
		namespace_finalize_conflicts_total{` + kubernetes + `a"} 0+90x60
		namespace_finalize_conflicts_total{` + kubernetes + `b"} 0+60x60
		namespace_passes_total{` + kubernetes + `a",outcome="waiting"} 0+60x60`,
		40 * time.Minute,
		[]firing{{"NamespaceConflictStorm", "kubernetes", "2.5 writes per second conflict with another writer."}},
	},
	{
		"no controller",
		`up{job="agent"} 0+0x60`,
		11 * time.Minute,
		[]firing{{"NamespaceControllerAbsent", "", "No controller of namespaces is running."}},
	},
	{
		"one party's controller is gone, another's is there",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x10 stale
		namespace_controller_queue_depth{finalizer="example.com/agent",job="other",instance="b"} 0+0x120`,
		2 * time.Hour,
		[]firing{{"NamespaceControllerAbsent", "kubernetes", "No controller of kubernetes is running."}},
	},
	{
		"a controller that was replaced by one elsewhere",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x10 stale
		namespace_controller_queue_depth{finalizer="kubernetes",job="other",instance="b"} _x12 0+0x120`,
		time.Hour, nil,
	},
	{
		"a controller that was restarted",
		`namespace_controller_queue_depth{` + kubernetes + `a"} 0+0x10 _x8 0+0x20`,
		30 * time.Minute, nil,
	},
}

// The rules fire when they should, with the right summaries.
func TestAlertsFire(t *testing.T) {
	all := alerts(t)
	fired := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			storage := promqltest.LoadedStorage(t, "load 1m\n"+c.series)
			defer storage.Close()
			query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, 1e6), storage)
			var got []firing
			for _, rule := range all {
				expr, err := parser.ParseExpr(rule.Expr.Value)
				require.NoError(t, err)
				alert := rules.NewAlertingRule(rule.Alert.Value, expr, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
					labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, log.NewNopLogger())
				for at := time.Duration(0); at <= c.at; at += time.Minute {
					_, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(at), query, new(url.URL), 0)
					require.NoError(t, err)
				}
				for _, a := range alert.ActiveAlerts() {
					if a.State != rules.StateFiring {
						continue
					}
					fired[rule.Alert.Value] = true
					for _, annotation := range []string{"summary", "description"} {
						require.NotContains(t, a.Annotations.Get(annotation), "<")
						require.NotContains(t, a.Annotations.Get(annotation), "  ")
					}
					require.Empty(t, a.Labels.Get("instance"))
					got = append(got, firing{rule.Alert.Value, a.Labels.Get("finalizer"), a.Annotations.Get("summary")})
				}
			}
			slices.SortFunc(got, func(x, y firing) int { return strings.Compare(x.alert, y.alert) })
			require.Equal(t, c.want, got)
		})
	}
	for _, rule := range all {
		require.True(t, fired[rule.Alert.Value], "no case in which %s fires", rule.Alert.Value)
	}
}
