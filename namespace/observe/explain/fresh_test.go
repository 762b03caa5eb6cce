package explain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// dyingNow is dying, deleted a minute ago by the clock of the test.
func dyingNow(finalizers ...finalizer.Name) namespace.Namespace {
	ns := dying(finalizers...)
	ns.DeletionTimestamp = phase.At(time.Now().Add(-time.Minute))
	return ns
}

func aliveNow(f finalizer.Name) []parties.Party {
	return []parties.Party{{Finalizer: f, Alive: true, LastSeen: time.Now()}}
}

func refused(resource namespace.ResourceType) (deleter.Report, error) {
	err := errors.New("list: connection refused")
	return deleter.Report{Results: []deleter.Result{{Resource: resource, Err: err}}}, err
}

// explained explains ns by a recorder and its conditions.
func explained(r *explain.Recorder, ns namespace.Namespace, known []parties.Party) explain.Diagnosis {
	return explain.Explain(explain.Input{Namespace: ns, History: r.History(ns.Name, ns.UID), Parties: known, Now: time.Now()})
}

// After a controller stops or restarts, the current cause ranks first, not the recorded one.
func TestThePastIsNotThePresent(t *testing.T) {
	for _, c := range []struct {
		name   string
		second string
		alive  bool
		want   []explain.Kind
	}{
		{"restarted in the process with new hooks", "new", true, []explain.Kind{explain.Remaining}},
		{"restarted with the same hooks", "same", true, []explain.Kind{explain.Remaining}},
		{"a second one elsewhere", "elsewhere", true, []explain.Kind{explain.OwnerAtWork, explain.Remaining}},
		{"a second one elsewhere, not announced", "elsewhere", false, []explain.Kind{explain.Remaining}},
		{"stopped for ever", "", false, []explain.Kind{explain.Unattended, explain.SourceFailed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, recorder := new(controllertest.Host), explain.NewRecorder()
				var known []parties.Party
				hooks := recorder.Hooks(finalizer.Kubernetes)
				stop := begin(t, host, hooks, func(context.Context, deleter.Target) (int, error) {
					time.Sleep(3 * time.Second)
					return 0, errors.New("connection refused")
				})
				create(t, host)
				time.Sleep(10*time.Minute + 500*time.Millisecond)
				stop()
				time.Sleep(time.Hour)
				stop = func() {}
				pods := func(context.Context, deleter.Target) (int, error) { return 3, nil }
				switch c.second {
				case "new":
					stop = begin(t, host, recorder.Hooks(finalizer.Kubernetes), pods)
				case "same":
					stop = begin(t, host, hooks, pods)
				case "elsewhere":
					stop = begin(t, host, controller.Hooks{}, pods)
				}
				time.Sleep(10 * time.Minute)
				if c.alive {
					known = aliveNow(finalizer.Kubernetes)
				}
				ns, err := host.Get(t.Context(), "shop")
				require.NoError(t, err)
				d := explained(recorder, ns, known)
				stop()
				require.Equal(t, c.want, kinds(d), d.Text())
				if c.second != "" {
					require.Len(t, d.Objects, 1, "nothing is counted twice")
					require.Equal(t, 3, d.Objects[0].Remaining)
				}
			})
		})
	}
}

// begin runs a controller until stop is called.
func begin(t *testing.T, host controller.Namespaces, hooks controller.Hooks, empty func(context.Context, deleter.Target) (int, error)) (stop func()) {
	t.Helper()
	d, err := deleter.New([]deleter.Source{{Resource: widgets, Content: deleter.Funcs{Delete: empty}.Content()}}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := controller.New(host, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{hooks}})
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	return func() { cancel(); require.NoError(t, <-ended) }
}

func create(t *testing.T, host *controllertest.Host) {
	t.Helper()
	_, err := host.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "shop"}})
	require.NoError(t, err)
	_, err = host.Delete(t.Context(), "shop")
	require.NoError(t, err)
}

// A controller that stops during a pass never reports the next one.
func TestStoppedInMidPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, recorder := new(controllertest.Host), explain.NewRecorder()
		stop := begin(t, host, recorder.Hooks(finalizer.Kubernetes), func(ctx context.Context, _ deleter.Target) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		create(t, host)
		time.Sleep(time.Second)
		stop()
		time.Sleep(24 * time.Hour)
		ns, err := host.Get(t.Context(), "shop")
		require.NoError(t, err)
		d := explained(recorder, ns, nil)
		require.Equal(t, explain.Unattended, d.Causes[0].Kind, d.Text())
		require.Contains(t, d.Summary, "1d ago")
	})
}

// After another process takes over, conditions take precedence over the record.
func TestConditionsOfAnotherProcessCount(t *testing.T) {
	for _, left := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := explain.NewRecorder()
			h := r.Hooks(finalizer.Kubernetes)
			report, err := refused(widgets)
			passed(h, shop, pass.Failed, err, report)
			if left {
				h.Released(shop)
			} else {
				h.Retried(shop, time.Second, controller.ReasonFailed)
			}
			time.Sleep(24 * time.Hour)
			ns := dyingNow(finalizer.Kubernetes)
			ns.Status.Conditions = phase.Conditions(nil, held, "", time.Now().Add(-10*time.Second))
			for _, known := range [][]parties.Party{nil, aliveNow(finalizer.Kubernetes)} {
				d := explained(r, ns, known)
				require.Equal(t, explain.Held, d.Causes[0].Kind, d.Text())
				require.False(t, has(d, explain.SourceFailed) || has(d, explain.Unattended), d.Text())
				require.Len(t, d.Failures, 1, "that is history")
			}
		})
	}
}

func has(d explain.Diagnosis, kind explain.Kind) bool {
	for _, k := range kinds(d) {
		if k == kind {
			return true
		}
	}
	return false
}

// A namespace that has moved to another replica is not in this queue.
func TestLeftForAnotherShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		h := r.Hooks(finalizer.Kubernetes)
		report := counted(pods, 2, 3, 0)
		passed(h, shop, pass.Waiting, nil, report)
		h.Queued(shop)
		h.Released(shop)
		time.Sleep(time.Hour)
		got := r.History("shop", "u-1").Recorded()
		require.Zero(t, got.Queued)
		require.Empty(t, got.Objects)
		require.Equal(t, 1, got.Total, "the passes are kept")
		require.Equal(t, 2, got.Removed)
		ns := dyingNow(finalizer.Kubernetes)
		ns.Status.Conditions = phase.Conditions(nil, leftPods, "", time.Now().Add(-10*time.Second))
		require.Equal(t, explain.Remaining, explained(r, ns, aliveNow(finalizer.Kubernetes)).Causes[0].Kind)
		require.Equal(t, explain.Remaining, explained(r, ns, nil).Causes[0].Kind)

		h.Queued(shop) // and back
		require.NotZero(t, r.History("shop", "u-1").Recorded().Queued)
		h.Released(namespace.Ref{Name: "other", UID: "u-9"})
		require.Zero(t, r.History("other", "").Recorded(), "of which nothing was known")
	})
}

// A restarted controller counts once.
func TestRestartsAreNotCountedTwice(t *testing.T) {
	for _, party := range []finalizer.Name{finalizer.Kubernetes, ""} {
		synctest.Test(t, func(t *testing.T) {
			r := explain.NewRecorder()
			for range 50 {
				h := r.Hooks(party)
				h.Queued(shop)
				passed(h, shop, pass.Waiting, nil, counted(pods, 1, 10, 0))
			}
			got := r.History("shop", "u-1").Recorded()
			require.Len(t, got.Objects, 1)
			require.Len(t, got.Parties, 1)
			require.Equal(t, 10, got.Passes[31].Remaining)
			require.Equal(t, 50, got.Total)
			require.Equal(t, 50, got.Removed, "what is gone stays gone")
		})
	}
}

// A party that has finished contributes nothing.
func TestDroppedFinalizer(t *testing.T) {
	for _, outcome := range []pass.Outcome{pass.NoFinalizer, pass.Finalized} {
		synctest.Test(t, func(t *testing.T) {
			r := explain.NewRecorder()
			h := r.Hooks(finalizer.Kubernetes)
			report, err := refused(widgets)
			report.Results = append(report.Results, deleter.Result{Resource: pods, Remaining: 3, Holders: []phase.Holder{{Finalizer: "example.com/x", Objects: 3}}})
			passed(h, shop, pass.Failed, err, report)
			h.Retried(shop, time.Second, controller.ReasonFailed)
			passed(h, shop, outcome, nil, deleter.Report{})
			time.Sleep(time.Hour)
			known := aliveNow(origin)
			require.Equal(t, []explain.Kind{explain.OwnerAtWork}, kinds(explained(r, dyingNow(origin), known)))
			known[0].Alive = false
			require.Equal(t, []explain.Kind{explain.OwnerMissing}, kinds(explained(r, dyingNow(origin), known)))
		})
	}
}

// One party is overdue, the other is not.
func TestOnePartyIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		one, other := r.Hooks(finalizer.Kubernetes), r.Hooks(origin)
		report, err := refused(widgets)
		passed(one, shop, pass.Failed, err, report)
		one.Retried(shop, time.Second, controller.ReasonFailed)
		time.Sleep(time.Hour)
		passed(other, shop, pass.Waiting, nil, counted(pods, 0, 3, 3))
		other.Retried(shop, time.Minute, controller.ReasonRemaining)
		d := explained(r, dyingNow(finalizer.Kubernetes, origin), aliveNow(origin))
		require.Equal(t, []explain.Kind{explain.Unattended, explain.SourceFailed, explain.Stopping}, kinds(d), d.Text())
		require.Equal(t, "kubernetes", d.Causes[0].Source, "the owner of the other finalizer does not work on this one")
		require.Contains(t, d.Causes[1].Detail, "as of")
		require.NotContains(t, d.Causes[2].Detail, "as of")
	})
}

// An overdue pass is reported even if the owner is alive.
func TestOverdueBesideAnOwnerAlive(t *testing.T) {
	h := looked(explain.Recorded{Objects: []explain.Objects{{Resource: "pods", Remaining: 1000}}, PerSecond: 10, Next: explain.Next{At: ago(24 * time.Hour)}}, "waiting")
	h.Passes[0].Start = ago(24 * time.Hour)
	in := input{Namespace: dying(finalizer.Kubernetes), History: h, Parties: []parties.Party{party("kubernetes", true)}, Now: now}
	d := diagnose(in)
	require.Equal(t, []explain.Kind{explain.OwnerAtWork, explain.Remaining}, kinds(d), "what moved yesterday does not move")
	require.Contains(t, d.Causes[0].Detail, "was due here 1d ago")
	require.Contains(t, d.Text(), "1,000 of pods, as of 2026-11-20 12:00:01 UTC")
	in.Parties = []parties.Party{party(origin, true)}
	require.Equal(t, explain.Unattended, diagnose(in).Causes[0].Kind, "the owner of another finalizer is no help")
}

// Counts older than the last pass have their time.
func TestOldCountsAreMarked(t *testing.T) {
	h := lef(explain.Objects{Resource: "pods", Remaining: 5, Counted: ago(time.Hour)}, explain.Objects{Resource: "widgets", Remaining: 2, Counted: ago(5 * time.Second)})
	d := diagnose(input{Namespace: dying(finalizer.Kubernetes), History: h, Now: now})
	require.True(t, d.Objects[0].Old)
	require.False(t, d.Objects[1].Old)
	require.Contains(t, d.Text(), "pods: 5 remaining, as of 11:00:00 UTC")
	require.Contains(t, d.Summary, "5 of pods, as of 11:00:00 UTC, 2 of widgets")
}

// Passes of a party do not concern the same finalizer in metadata.finalizers.
func TestFinalizerInBothLists(t *testing.T) {
	for _, f := range []finalizer.Name{"example.com/agent", finalizer.Kubernetes} {
		ns := dying()
		ns.Finalizers = finalizer.NewSet(f)
		h := looked(explain.Recorded{Parties: []finalizer.Name{f}}, "finalized")
		h.Passes[0].Party = f
		d := diagnose(input{Namespace: ns, History: h, Now: now})
		require.Equal(t, []explain.Kind{explain.OwnerUnknown}, kinds(d))
		require.Equal(t, string(f), d.Causes[0].Source)
	}
}

// The failures of one party do not hide those of another.
func TestPartiesFailInOneWay(t *testing.T) {
	ns := with(dying(finalizer.Kubernetes, origin), string(origin), phase.Observation{Content: []error{errors.New("secrets: list: connection refused")}})
	h := failing(explain.SourceFailed, "widgets.example.com", "list: connection refused")
	h.Parties, h.Passes[0].Party = []finalizer.Name{finalizer.Kubernetes}, finalizer.Kubernetes
	d := diagnose(input{Namespace: ns, History: h, Now: now})
	require.Equal(t, []explain.Kind{explain.SourceFailed, explain.SourceFailed}, kinds(d))
	require.Equal(t, "secrets", d.Causes[1].Source)
}

// The plain conditions belong to the primary party, which may own a finalizer of the host's own: its
// recorded passes supersede them.
func TestPrimaryPartyOwnsThePlainConditions(t *testing.T) {
	const agent finalizer.Name = "example.com/agent"
	seen := phase.Observation{Content: []error{errors.New("widgets.example.com: list: connection refused")}}
	h := failing(explain.SourceFailed, "widgets.example.com", "list: no route to host")
	h.Parties, h.Passes[0].Party = []finalizer.Name{agent}, agent
	in := input{Namespace: with(dying(agent), "", seen), Primary: agent, History: h, Now: now}
	require.Equal(t, []explain.Kind{explain.SourceFailed}, kinds(diagnose(in)))
	in.Primary = ""
	require.Len(t, kinds(diagnose(in)), 2, "without Primary they belong to the owner of kubernetes")
}

// No end is predicted for objects whose source fails.
func TestEndOfWhatMoves(t *testing.T) {
	h := failing(explain.SourceFailed, "widgets.example.com", "refused")
	h.Objects = []explain.Objects{{Resource: "pods", Remaining: 1000}, {Resource: "widgets.example.com", Remaining: 5000}}
	h.PerSecond = 10
	d := diagnose(input{Namespace: dying(finalizer.Kubernetes), History: h, Now: now})
	require.Equal(t, []explain.Kind{explain.SourceFailed, explain.Moving}, kinds(d))
	require.Equal(t, "content is being deleted: 0 removed, 1,000 left", d.Causes[1].Summary)
	require.Zero(t, d.Progress.End)
}

// An error that panics and a withdrawn type do not lose recorded facts.
func TestRecorderSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		h := r.Hooks(finalizer.Kubernetes)
		passed(h, shop, pass.Waiting, nil, counted(pods, 7, 3, 0))
		passed(h, shop, pass.Waiting, nil, counted(widgets, 0, 1, 0)) // pods are not served any more
		require.Equal(t, 7, r.History("shop", "u-1").Recorded().Removed)
		require.Panics(t, func() { passed(h, shop, pass.Failed, bomb{}, deleter.Report{}) })
		h.Retried(shop, time.Second, controller.ReasonFailed)
		require.Zero(t, r.History("shop", "u-1").Recorded().Running)
	})
}

type bomb struct{}

func (bomb) Error() string { panic("an error of the host") }

// The names of a party are bounded as a whole.
func TestRecorderBoundsNames(t *testing.T) {
	r := explain.NewRecorder()
	kept := 0
	for _, party := range []finalizer.Name{finalizer.Kubernetes, origin} {
		var report deleter.Report
		for i := range 64 {
			result := deleter.Result{Resource: namespace.ResourceType{Name: fmt.Sprintf("t%02d", i)}, Remaining: 16, Sample: []string{"a", "b", "c", "d", "e"}}
			for j := range 16 {
				result.Holders = append(result.Holders, phase.Holder{Finalizer: fmt.Sprintf("%d.%d/x", i, j), Objects: 1, Sample: []string{"a", "b", "c", "d", "e"}})
			}
			report.Results = append(report.Results, result)
		}
		r.Hooks(party).PassEnded(context.Background(), shop, pass.Result{Outcome: pass.Waiting, Report: report}, nil, 0)
	}
	for _, o := range r.History("shop", "u-1").Recorded().Objects {
		kept += len(o.Sample)
		for _, h := range o.HeldBy {
			kept += 1 + len(h.Sample)
		}
	}
	require.Equal(t, 2*256, kept)
}

// Recorded names are used, with their age, if the conditions report the same count.
func TestOldNamesBesideConditions(t *testing.T) {
	by := func(f string) explain.HeldBy {
		return explain.HeldBy{Holder: phase.Holder{Finalizer: f, Objects: 2, Sample: []string{"a", "b"}}}
	}
	in := input{Namespace: with(dying(finalizer.Kubernetes), "", held), Now: now}
	in.History = lef(explain.Objects{Resource: "pods", Remaining: 3, HeldBy: []explain.HeldBy{by("example.com/backup"), by("example.com/drain")}})
	in.History.Next = explain.Next{At: ago(time.Hour)}
	d := diagnose(in)
	require.Len(t, d.Objects, 1)
	require.True(t, d.Objects[0].Old)
	require.Equal(t, []explain.HeldBy{by("example.com/backup")}, d.Objects[0].HeldBy, "the other has let go since")
	require.Equal(t, "finalizer example.com/backup holds 2 of pods (a, b), as of 11:59:55 UTC", d.Causes[1].Summary, "%s", d.Text())

	in.History.Objects[0].Remaining = 5
	d = diagnose(in)
	require.Len(t, d.Objects, 1)
	require.Equal(t, 3, d.Objects[0].Remaining, "the conditions know better")
	require.Empty(t, d.Objects[0].Sample)
	require.Equal(t, "finalizer example.com/backup holds 2 objects", d.Causes[1].Summary)
}

// The same text in the condition of another party is another failure.
func TestSameFailureOfAnotherParty(t *testing.T) {
	in := input{Namespace: with(dying(finalizer.Kubernetes, origin), string(origin), broken), Now: now}
	in.History = failing(explain.SourceFailed, "widgets.example.com", "list: connection refused")
	require.Equal(t, []explain.Kind{explain.SourceFailed, explain.SourceFailed}, kinds(diagnose(in)))
}
