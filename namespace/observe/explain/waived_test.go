package explain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// A waiver is described as effective unless the last pass or the conditions contradict it.
func TestWaiversThatDoNotCount(t *testing.T) {
	const (
		ignored = "failures of widgets.example.com are ignored until 13:00:00 UTC (waiver w by ann: uninstalled)"
		without = "waiver w of widgets.example.com by ann (uninstalled) has no effect: "
		seen    = without + "5 objects were left at its last answer"
		other   = "waiver w of widgets.example.com by ann (uninstalled) had no effect: the last pass was cut short, began before it, or did not support waivers"
		only    = "No waiver helps: only the source knows whether its objects are gone."
		may     = "If it holds no content of this namespace, a waiver lets the deletion continue."
	)
	down := &deleter.SourceError{Resource: widgets, Op: deleter.OpList, Err: errors.New("refused")}
	unwaived := &deleter.SourceError{Resource: widgets, Op: deleter.OpList, Err: &deleter.UnwaivedError{Objects: 5, Err: errors.New("refused")}}
	hidden := deleter.GroupError{Group: "widgets.example.com", Err: &deleter.UnwaivedError{Objects: 5, Err: errors.New("refused")}}
	failed := func(err error) deleter.Report {
		return deleter.Report{UID: "u-1", Results: []deleter.Result{{Resource: widgets, Err: err}}}
	}
	for _, c := range []struct {
		name       string
		report     *deleter.Report // of the last pass, if that was recorded
		conditions phase.Observation
		want       string
		remedy     string // of the failure
	}{
		{"nothing is known", nil, phase.Observation{}, ignored, ""},
		{"the source answers", &deleter.Report{UID: "u-1", Results: []deleter.Result{{Resource: widgets, Remaining: 1}}}, phase.Observation{}, ignored, ""},
		{"its failure is waived", &deleter.Report{UID: "u-1", Results: []deleter.Result{{Resource: widgets}}, Waived: []error{down}}, phase.Observation{}, ignored, ""},
		{"objects were seen", ptr(failed(unwaived)), phase.Observation{}, seen, only},
		{"objects were seen of a group", &deleter.Report{UID: "u-1", Discovery: []error{hidden}}, phase.Observation{}, seen, only},
		{"nothing was seen", ptr(failed(down)), phase.Observation{}, other, may},
		{"by the conditions, objects were seen", nil, phase.Observation{Content: []error{unwaived}}, seen, only},
		{"by the conditions, nothing was seen", nil, phase.Observation{Content: []error{down}}, other, may},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := explain.Input{Namespace: annotated(with(dying("kubernetes"), "", c.conditions), waiver), Now: now}
			in.Namespace.UID = "u-1"
			if c.report != nil {
				r := explain.NewRecorder()
				result := pass.Result{Outcome: pass.Failed, Namespace: in.Namespace, Report: *c.report}
				r.Hooks("").PassEnded(context.Background(), namespace.Ref{Name: in.Namespace.Name, UID: "u-1"}, result, c.report.Err(), time.Second)
				in.History = r.History(in.Namespace.Name, "u-1")
			}
			d := explain.Explain(in)
			last := d.Causes[len(d.Causes)-1]
			require.Equal(t, explain.Waived, last.Kind)
			require.Equal(t, c.want, last.Summary)
			if c.remedy != "" {
				require.Equal(t, widgets.String(), d.Causes[0].Source)
				require.Contains(t, d.Causes[0].Remedy.Text, c.remedy)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }
