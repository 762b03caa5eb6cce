package debug_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// hostile is a name with everything that a page might stumble over.
const hostile = `a"b'c<script>alert(1)</script>&amp;%2e%2e/../?x=1#y` + "\u202egnp.exe\u2066\x00\xc2\xa0日本語"

// scene is a service on a bad day.
func scene(now time.Time) (whole, *debug.Options) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	alive := explain.Holder{Finalizer: "kubernetes", Known: true, Alive: true, LastSeen: ago(2 * time.Second)}
	lost := explain.Holder{Finalizer: "billing.example.com/invoices", Known: true, LastSeen: ago(51 * time.Hour), Contact: "billing@example.com"}

	team := going("team-payments-staging", ago(52*time.Hour))
	team.Summary = "It has been Terminating for 2d 4h: all content is gone, and the owner of the finalizer billing.example.com/invoices has been missing for 2d 3h."
	team.Stage = phase.WaitingForFinalizers
	team.Causes = []explain.Cause{{
		Kind: explain.OwnerMissing, Source: "billing.example.com/invoices",
		Summary: "The owner of the finalizer billing.example.com/invoices was last seen 2d 3h ago.",
		Remedy:  explain.Remedy{Text: "Start it again; ask billing@example.com."},
	}}
	team.Holders = []explain.Holder{lost}
	team.Progress = &explain.Progress{Removed: 412, Known: true, Percent: 100}

	large := going("load-test-2026-11", ago(14*time.Minute))
	large.Progress = &explain.Progress{Removed: 61_240, Known: true, Remaining: 38_760, Percent: 61, PerSecond: 78.4, End: now.Add(8 * time.Minute)}
	large.Causes = []explain.Cause{{Kind: explain.Moving, Summary: "38,760 objects of 3 types are left, and they get less."}}
	large.Holders = []explain.Holder{alive}

	hidden := going("search-index", ago(26*time.Minute))
	hidden.Progress = &explain.Progress{Removed: 318}
	hidden.Causes = []explain.Cause{{Kind: explain.DiscoveryFailed, Summary: "The resource types of metrics.example.com cannot be discovered."}}
	hidden.Holders = []explain.Holder{alive}

	young := going("pr-10482", ago(3*time.Second))
	young.Causes = []explain.Cause{{Kind: explain.Starting, Summary: "the deletion has just begun; the first pass is due or running"}}
	young.Progress, young.Holders = &explain.Progress{Removed: 4, Known: true, Remaining: 9, Percent: 30}, []explain.Holder{alive}

	odd := going(hostile, ago(time.Hour))
	odd.Causes[0].Summary = `<img src=x onerror=alert(2)> cannot be listed`
	long := going("a-"+strings.Repeat("very-", 48)+"long-name", ago(20*time.Minute))
	long.Causes[0] = explain.Cause{Kind: explain.Held, Summary: "4 persistentvolumeclaims are held by kubernetes.io/pvc-protection."}
	long.Holders = []explain.Holder{alive, {Finalizer: "openshift.com/origin"}}

	p := newPlace(team, stuck(now, alive, lost), large, hidden, young, odd, long)
	p.holds = []namespace.Event{
		{Type: namespace.EventPresent, Name: "customer-4711", UID: "7", Until: now.Add(23 * time.Hour)},
		{Type: namespace.EventPresent, Name: "old-wiki", UID: "8", Until: now.Add(40 * time.Minute)},
	}
	return whole{p, 1_284}, &debug.Options{Title: "Orders: namespaces", Parties: agents(now), Records: records(now)}
}

func stuck(now time.Time, holders ...explain.Holder) explain.Diagnosis {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	d := going("analytics", ago(3*time.Hour+12*time.Minute))
	d.UID = "0c9e8f0e-33a5-4a86-9e0e-3f3a4f9b1f10"
	d.Summary = "It has been Terminating for 3h 12m: reports.example.com cannot be listed, and 2 widgets are held by a finalizer."
	d.Holders = holders
	d.Causes = []explain.Cause{{
		Kind: explain.SourceFailed, Source: "reports.example.com", Summary: "reports.example.com has failed 31 times in 3h 11m.",
		Detail: "Get \"https://10.3.0.17:443/apis/example.com/v1/namespaces/analytics/reports\": dial tcp 10.3.0.17:443: connect: connection refused",
		Remedy: explain.Remedy{
			Text:    "Bring the service back, or declare by a waiver that it holds nothing of this namespace.",
			Command: `kubectl annotate namespace analytics 'waiver.nslifecycle.io/reports={"source":"reports.example.com","by":"NAME","reason":"REASON","until":"2026-11-22T12:00:00Z"}'`,
		},
	}, {
		Kind: explain.Held, Source: "widgets.example.com", Summary: "2 objects of widgets.example.com are held by the finalizer example.com/drain.",
		Remedy: explain.Remedy{Text: "Look at what the finalizer's controller says.", Command: "kubectl get widgets.example.com --namespace analytics"},
	}, {Kind: explain.OwnerAtWork, Summary: "The owner of kubernetes is at work."}}
	d.Progress = &explain.Progress{Removed: 1_870, Known: true, Remaining: 240, Percent: 88, PerSecond: 0.4, End: now.Add(10 * time.Minute)}
	d.Objects = []explain.Objects{
		{Resource: "configmaps", Remaining: 238, Deleting: 0, Sample: []string{"app-1", "app-2", "app-3", "app-4", "app-5"}},
		{Resource: "widgets.example.com", Remaining: 2, Deleting: 2, Sample: []string{"blue", "green"},
			HeldBy: []explain.HeldBy{{Holder: phase.Holder{Finalizer: "example.com/drain", Objects: 2, Sample: []string{"blue", "green"}}, Since: ago(3 * time.Hour)}}},
		{Resource: "volumes.example.com", Waiting: true},
	}
	d.Failures = []explain.Failure{{
		Source: "reports.example.com", Text: d.Causes[0].Detail, Count: 31, First: ago(3*time.Hour + 11*time.Minute), Last: ago(40 * time.Second),
	}}
	for i := range 32 {
		p := explain.Pass{
			Start: ago(time.Duration(32-i)*6*time.Minute - 20*time.Second), Took: time.Duration(120+i*7) * time.Millisecond, Outcome: "failed",
			Deleted: 50, Remaining: 240 + (31-i)*52, Party: "kubernetes", Error: "reports.example.com: connection refused",
		}
		if i%9 == 4 || i < 3 {
			p.Outcome, p.Error = "waiting", ""
		}
		d.Passes = append(d.Passes, p)
	}
	d.Next = &explain.Next{At: now.Add(85 * time.Second), Reason: "failed"}
	return d
}

// forgotten is a namespace without a controller.
func forgotten(now time.Time) explain.Diagnosis {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	d := going("forgotten", ago(30*time.Hour))
	d.Causes = []explain.Cause{{
		Kind: explain.Unattended, Summary: "no controller works on finalizer kubernetes any more: the next pass was due 23h ago",
		Remedy: explain.Remedy{Text: "Start the controller of its finalizers."},
	}}
	d.Next = &explain.Next{At: ago(23 * time.Hour), Reason: "failed"}
	d.Passes = []explain.Pass{{Start: ago(23*time.Hour + time.Minute), Took: time.Second, Outcome: "failed", Remaining: 19, Error: "no answer"}}
	d.Objects = []explain.Objects{
		{Resource: "configmaps", Remaining: 12, Counted: ago(23*time.Hour + 2*time.Minute), Sample: []string{"app-1"}},
		{Resource: "pods", Remaining: 7, Deleting: 7, Counted: ago(23 * time.Hour), Returning: true},
	}
	return d
}

func agents(now time.Time) func(context.Context) ([]parties.Party, error) {
	return func(context.Context) ([]parties.Party, error) {
		return []parties.Party{
			{Finalizer: "billing.example.com/invoices", Contact: "billing@example.com", LastSeen: now.Add(-51 * time.Hour),
				Instances: []parties.Instance{{Label: "billing-0"}}},
			{Finalizer: "kubernetes", Alive: true, LastSeen: now.Add(-2 * time.Second), Contact: "#platform",
				Instances: []parties.Instance{{Label: "orders-7d9f-abcde", Alive: true}, {Label: "orders-7d9f-fghij", Alive: true}}},
		}, nil
	}
}

func records(now time.Time) func(context.Context, string) ([]audit.Record, error) {
	return func(_ context.Context, name string) ([]audit.Record, error) {
		if name != "analytics" {
			return nil, nil
		}
		var list []audit.Record
		for i, action := range []audit.Action{audit.Declared, audit.Forcing, audit.Refused} {
			r := audit.Record{
				ID: fmt.Sprint(i), Time: now.Add(time.Duration(i-4) * time.Minute), Action: action, Namespace: name, UID: "1", By: "operator@example.com",
			}
			switch action {
			case audit.Declared:
				r.Changes = []audit.Change{{Key: "protection.nslifecycle.io/audit-2026", Old: `{"owner":"legal","reason":"audit"}`}}
			default:
				r.Reason, r.Finalizers = "the cluster it was on is gone", []finalizer.Name{"billing.example.com/invoices"}
			}
			if action == audit.Refused {
				r.Detail = "reports.example.com did not answer"
			}
			list = append(list, r)
		}
		return list, nil
	}
}
