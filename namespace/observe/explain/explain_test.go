package explain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

const origin finalizer.Name = "openshift.com/origin"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// input is an [explain.Input] whose history is open.
type input struct {
	Name      string
	Namespace namespace.Namespace
	History   explain.Recorded
	Parties   []parties.Party
	Records   []audit.Record
	Unread    error
	Notes     []string
	Unguarded bool
	Primary   finalizer.Name
	Now       time.Time
}

func (in input) real() explain.Input {
	return explain.Input{
		Name: in.Name, Namespace: in.Namespace, History: in.History.History(), Parties: in.Parties, Records: in.Records, Unread: in.Unread,
		Notes: in.Notes, Unguarded: in.Unguarded, Primary: in.Primary, Now: in.Now,
	}
}

func diagnose(in input) explain.Diagnosis { return explain.Explain(in.real()) }

// dying returns a namespace that was deleted an hour ago.
func dying(finalizers ...finalizer.Name) namespace.Namespace {
	ns := living()
	ns.DeletionTimestamp = phase.At(ago(time.Hour))
	ns.Spec.Finalizers = finalizer.NewSet(finalizers...)
	return ns
}

func living() namespace.Namespace {
	return namespace.Namespace{Meta: namespace.Meta{Name: "shop", UID: "u-1", CreationTimestamp: phase.At(ago(100 * time.Hour))}}
}

// with returns ns with conditions that a party wrote half an hour ago.
func with(ns namespace.Namespace, qualifier string, seen phase.Observation) namespace.Namespace {
	ns.Status.Conditions = phase.Conditions(ns.Status.Conditions, seen, qualifier, ago(30*time.Minute))
	return ns
}

func annotated(ns namespace.Namespace, declared interface {
	Annotation() (string, string, error)
}) namespace.Namespace {
	key, value, err := declared.Annotation()
	if err != nil {
		panic(err)
	}
	ns = ns.DeepCopy()
	if ns.Annotations == nil {
		ns.Annotations = map[string]string{}
	}
	ns.Annotations[key] = value
	return ns
}

func kinds(d explain.Diagnosis) (list []explain.Kind) {
	for _, c := range d.Causes {
		list = append(list, c.Kind)
	}
	return list
}

// looked is the history of a namespace over which passes ran until a moment ago.
func looked(h explain.Recorded, outcome string) explain.Recorded {
	h.UID, h.Total, h.Began = "u-1", 3, ago(time.Hour)
	h.Passes = []explain.Pass{{Start: ago(6 * time.Second), Took: time.Second, Outcome: outcome}}
	if h.Next.At.IsZero() {
		h.Next = explain.Next{At: now.Add(20 * time.Second), Reason: outcome}
	}
	return h
}

func failing(kind explain.Kind, source, text string) explain.Recorded {
	return looked(explain.Recorded{
		Failing:  []string{source},
		Failures: []explain.Failure{{Kind: kind, Source: source, Text: text, Count: 7, First: ago(50 * time.Minute), Last: ago(5 * time.Second)}},
	}, "failed")
}

func lef(objects ...explain.Objects) explain.Recorded {
	return looked(explain.Recorded{Objects: objects}, "waiting")
}

var (
	undeclared = phase.Observation{Content: []error{&deleter.SourceError{Resource: namespace.ResourceType{Group: "example.com", Name: "widgets"}, Err: deleter.ErrUndeclared}}}
	broken     = phase.Observation{Content: []error{errors.New("widgets.example.com: list: connection refused")}}
	leftPods   = phase.Observation{Remaining: []phase.Remaining{{Resource: "pods", Count: 3}}}
	held       = phase.Observation{
		Remaining:  []phase.Remaining{{Resource: "pods", Count: 3}},
		Finalizers: []phase.Holder{{Finalizer: "example.com/backup", Objects: 2}},
	}
	podsHeld = explain.Objects{
		Resource: "pods", Remaining: 2, Deleting: 2, Sample: []string{"a", "b"}, Since: ago(time.Hour),
		HeldBy: []explain.HeldBy{{Holder: phase.Holder{Finalizer: "example.com/drain", Objects: 2, Sample: []string{"a", "b"}}, Since: ago(time.Hour)}},
	}
	waiver = declare.Waiver{Name: "w", Source: "widgets.example.com", By: "ann", Reason: "uninstalled", Until: now.Add(time.Hour).UTC()}
)

func party(f finalizer.Name, alive bool) parties.Party {
	return parties.Party{Finalizer: f, Contact: "#team", Alive: alive, LastSeen: ago(2 * time.Hour)}
}

// Each case lists all causes in order, and words of the first one's summary and remedy.
func TestCauses(t *testing.T) {
	seen := map[explain.Kind]bool{}
	for _, c := range []struct {
		name    string
		in      input
		want    []explain.Kind
		summary string
		remedy  string // of text and command
	}{
		{"there is none", input{Name: "shop"}, []explain.Kind{explain.NotFound}, "it does not exist, and no earlier one is known here", "kubectl get namespaces"},
		{"removed a while ago", input{Name: "shop", History: explain.Recorded{UID: "u-0", Deleted: ago(time.Hour), Ended: ago(time.Minute), Total: 4, Removed: 1200}},
			[]explain.Kind{explain.Gone}, "it was removed 1m ago, 59m after its deletion", ""},
		{"active", input{Namespace: living()}, []explain.Kind{explain.NotTerminating}, "no deletion was requested", "Nothing is wrong"},
		{"protected twice", input{Namespace: annotated(annotated(living(),
			declare.Protection{Name: "legal", Owner: "law@example.com", Reason: "contract"}), declare.Protection{Name: "freeze", Owner: "ops", Reason: "holidays"})},
			[]explain.Kind{explain.Protected, explain.Protected}, "protection freeze refuses its deletion (ops: holidays)", "kubectl annotate namespace shop protection.nslifecycle.io/freeze-"},
		{"a protection that cannot be read", input{Namespace: func() namespace.Namespace {
			ns := living()
			ns.Annotations = map[string]string{"protection.nslifecycle.io/x": "{"}
			return ns
		}()}, []explain.Kind{explain.Protected}, "its owner and reason are unreadable", "protection.nslifecycle.io/x-"},
		{"on hold", input{Namespace: annotated(living(), declare.Hold{Until: now.Add(90 * time.Minute), By: "ann", Reason: "moved"})},
			[]explain.Kind{explain.OnHold}, "on hold, it will be deleted in 1h 30m at 13:30:00 UTC (ann: moved)", "kubectl annotate namespace shop nslifecycle.io/delete-after-"},
		{"on hold, and protected", input{Namespace: annotated(annotated(living(), declare.Hold{Until: now.Add(time.Hour)}),
			declare.Protection{Name: "legal", Owner: "law", Reason: "contract"})}, []explain.Kind{explain.Protected, explain.OnHold}, "protection legal refuses its deletion", ""},
		{"a hold that is over", input{Namespace: annotated(living(), declare.Hold{Until: ago(time.Hour)})},
			[]explain.Kind{explain.OnHold}, "its hold ended 1h ago, but it was not deleted", "kubectl delete namespace shop"},
		{"protections mean nothing any more", input{Namespace: annotated(with(dying("kubernetes"), "", broken), declare.Protection{Name: "late", Owner: "o", Reason: "r"})},
			[]explain.Kind{explain.SourceFailed}, "widgets.example.com fails", ""},

		{"discovery, by this library's condition", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Discovery: []error{errors.New("metrics.example.com: unavailable")}})},
			[]explain.Kind{explain.DiscoveryFailed}, "the resource types of metrics.example.com cannot be discovered: unavailable", "--api-group=metrics.example.com"},
		{"discovery, by a stock Kubernetes", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Discovery: []error{
			errors.New("unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: the server is currently unable to handle the request")}})},
			[]explain.Kind{explain.DiscoveryFailed}, "the resource types of metrics.k8s.io cannot be discovered: the server is currently", "--api-group=metrics.k8s.io"},
		{"discovery as a whole", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Discovery: []error{errors.New("connection refused")}})},
			[]explain.Kind{explain.DiscoveryFailed}, "resource types cannot be discovered: connection refused", ""},
		{"parsing", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Parsing: []error{errors.New("unexpected GroupVersion string: a/b/c")}})},
			[]explain.Kind{explain.ParsingFailed}, "a resource type cannot be read: unexpected GroupVersion", ""},
		{"the other spelling of that condition", input{Namespace: func() namespace.Namespace {
			ns := dying("kubernetes")
			ns.Status.Conditions = []phase.Condition{{Type: "NamespaceDeletionGVParsingFailure", Status: phase.True, Message: "a/b/c"}}
			return ns
		}()}, []explain.Kind{explain.ParsingFailed}, "a/b/c", ""},
		{"a source", input{Namespace: with(dying("kubernetes"), "", broken)},
			[]explain.Kind{explain.SourceFailed}, "widgets.example.com fails: list: connection refused", "kubectl get widgets.example.com -n shop"},
		{"a source of a stock Kubernetes", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Content: []error{
			errors.New("unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods")}})},
			[]explain.Kind{explain.Returning}, "objects of pods exist again after their deletion", "kubectl get pods -n shop"},
		{"a source without a name", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Content: []error{errors.New("no route to host")}})},
			[]explain.Kind{explain.SourceFailed}, "content cannot be deleted: no route to host", ""},
		{"a source that may not be deleted", input{Namespace: dying("kubernetes"), History: failing(explain.SourceFailed, "widgets.example.com", "delete: widgets is forbidden")},
			[]explain.Kind{explain.SourceFailed}, "forbidden", "kubectl auth can-i delete widgets.example.com -n shop"},
		{"an undeclared type", input{Namespace: with(dying("kubernetes"), "", undeclared)}, []explain.Kind{explain.Undeclared},
			"the controller does not declare widgets.example.com, which another version of the service stored", "a waiver lets"},
		{"an undeclared type with objects", input{Namespace: with(dying("kubernetes"), "", phase.Observation{
			Content: undeclared.Content, Remaining: []phase.Remaining{{Group: "example.com", Resource: "widgets", Count: 2}},
		})}, []explain.Kind{explain.Undeclared}, "which another version of the service stored: 2 objects are left", "then retire the type (Registry.RetireType). "},
		{"an undeclared type, as recorded", input{Namespace: dying("kubernetes"), History: failing(explain.Undeclared, "widgets.example.com", deleter.ErrUndeclared.Error())},
			[]explain.Kind{explain.Undeclared}, "the controller does not declare widgets.example.com, which", "a waiver lets"},
		{"a slow source", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Content: []error{errors.New("pods: list: no answer within 30s: context deadline exceeded")}})},
			[]explain.Kind{explain.SourceSlow}, "pods does not answer in time", ""},
		{"a source, as recorded", input{Namespace: with(dying("kubernetes"), "", broken), History: failing(explain.SourceFailed, "widgets.example.com", "list: connection refused")},
			[]explain.Kind{explain.SourceFailed}, "widgets.example.com fails: list: connection refused", ""},
		{"another party's source", input{Namespace: with(dying(origin), string(origin), broken)},
			[]explain.Kind{explain.SourceFailed}, "widgets.example.com fails", ""},
		{"another party's, beside a recorded one", input{Namespace: with(dying("kubernetes", origin), string(origin), broken), History: lef(podsHeld)},
			[]explain.Kind{explain.SourceFailed, explain.Held}, "widgets.example.com fails", ""},
		{"conflicts", input{Namespace: func() namespace.Namespace {
			ns := dying("kubernetes")
			ns.ManagedFields = []namespace.ManagedFieldsEntry{{Manager: "stamper", Time: phase.At(ago(time.Second))}, {Manager: "kubectl", Time: phase.At(ago(time.Hour))}}
			return ns
		}(), History: failing(explain.Conflicts, "the namespace itself", "finalize: conflict")},
			[]explain.Kind{explain.Conflicts}, "other writers change the namespace faster", "--show-managed-fields"},
		{"the store", input{Namespace: dying("kubernetes"), History: failing(explain.StorageFailed, "the namespace itself", "read: disk full")},
			[]explain.Kind{explain.StorageFailed}, "the storage of namespaces fails: read: disk full", ""},

		{"held, by conditions", input{Namespace: with(dying("kubernetes"), "", held)},
			[]explain.Kind{explain.Held}, "finalizer example.com/backup holds 2 objects", "kubectl get pods -n shop -o custom-columns"},
		{"held, as recorded", input{Namespace: with(dying("kubernetes"), "", held), History: lef(podsHeld)},
			[]explain.Kind{explain.Held}, "finalizer example.com/drain holds 2 of pods (a, b)", "kubectl get pods -n shop"},
		{"left, by conditions", input{Namespace: with(dying("kubernetes"), "", leftPods)}, []explain.Kind{explain.Remaining}, "content is left: 3 of pods", "kubectl get pods -n shop"},
		{"coming back", input{Namespace: dying("kubernetes"), History: lef(explain.Objects{Resource: "pods", Remaining: 4, Returning: true})},
			[]explain.Kind{explain.Returning}, "objects of pods reappear as fast as they are deleted: 4 left", "kubectl get pods"},
		{"stopping", input{Namespace: dying("kubernetes"), History: lef(explain.Objects{Resource: "pods", Remaining: 4, Deleting: 4})},
			[]explain.Kind{explain.Stopping}, "4 of pods", ""},
		{"stopping for hours", input{Namespace: dying("kubernetes"), History: lef(
			explain.Objects{Resource: "pods", Remaining: 4, Deleting: 4, Since: ago(2 * time.Hour), Counted: ago(5 * time.Second)},
			explain.Objects{Resource: "jobs", Remaining: 1, Since: ago(3 * time.Hour), Counted: ago(5 * time.Second)},
			explain.Objects{Resource: "claims", Remaining: 1, Deleting: 1, Since: ago(30 * time.Minute), Counted: ago(5 * time.Second)},
		)}, []explain.Kind{explain.Stalled, explain.Stopping}, "objects do not disappear, and no finalizer holds them: 1 of jobs, 4 of pods", "kubectl get jobs -n shop"},
		{"large and moving", input{Namespace: dying("kubernetes"), History: func() explain.Recorded {
			h := lef(explain.Objects{Resource: "pods", Remaining: 3000})
			h.Removed, h.PerSecond = 97000, 100
			return h
		}()}, []explain.Kind{explain.Moving}, "97,000 removed, 3,000 left, done in about 30s", ""},
		{"waiting in order", input{Namespace: dying("kubernetes"), History: lef(podsHeld, explain.Objects{Resource: "networks", Waiting: true})},
			[]explain.Kind{explain.Held, explain.Ordered}, "example.com/drain", ""},
		{"content may still arrive", input{Namespace: dying("kubernetes"), History: looked(explain.Recorded{Arriving: 4 * time.Second}, "waiting")},
			[]explain.Kind{explain.Confirming}, "no content is left, but some may still arrive for 4s", ""},
		{"content may still arrive, by conditions", input{Namespace: with(dying("kubernetes"), "", phase.Observation{Provisional: true})},
			[]explain.Kind{explain.Confirming}, "no content is left, but some may still arrive", ""},
		{"content may still arrive in a type that waits", input{Namespace: dying("kubernetes"), History: func() explain.Recorded {
			h := lef(explain.Objects{Resource: "networks", Waiting: true})
			h.Arriving = 4 * time.Second
			return h
		}()}, []explain.Kind{explain.Ordered}, "networks waits for earlier types", ""},

		{"an owner that is missing", input{Namespace: with(dying(origin), "", phase.Observation{}), Parties: []parties.Party{party(origin, false)}},
			[]explain.Kind{explain.OwnerMissing}, "the owner of finalizer openshift.com/origin is missing: last seen 2h ago (contact: #team)", "force.Drop"},
		{"a missing owner explains its own failure", input{Namespace: with(dying(origin), string(origin), broken), Parties: []parties.Party{party(origin, false)}},
			[]explain.Kind{explain.OwnerMissing, explain.SourceFailed}, "the owner of finalizer openshift.com/origin is missing", ""},
		{"an owner that is missing by its word, and at work", input{Namespace: dying("kubernetes"), History: lef(podsHeld), Parties: []parties.Party{party("kubernetes", false)}},
			[]explain.Kind{explain.Held}, "", ""},
		{"an owner that never was", input{Namespace: with(dying(origin), "", phase.Observation{}), Parties: []parties.Party{}},
			[]explain.Kind{explain.OwnerUnknown}, "finalizer openshift.com/origin is set, and no owner of it ever announced itself", "force.Drop"},
		{"an owner of whom nothing is known", input{Namespace: with(dying(origin), "", phase.Observation{})},
			[]explain.Kind{explain.OwnerUnknown}, "it is not known whether its owner is running", ""},
		{"an owner at work", input{Namespace: with(dying(origin), "", phase.Observation{}), Parties: []parties.Party{party(origin, true)}},
			[]explain.Kind{explain.OwnerAtWork}, "its owner is alive (contact: #team)", "ask its owner"},
		{"a finalizer of the object itself", input{Namespace: func() namespace.Namespace {
			ns := with(dying(), "", phase.Observation{})
			ns.Finalizers = finalizer.NewSet("example.com/guard")
			return ns
		}()}, []explain.Kind{explain.OwnerUnknown}, "finalizer example.com/guard (in metadata.finalizers) is set", "{.metadata.finalizers}"},

		{"no controller", input{Namespace: dying("kubernetes")}, []explain.Kind{explain.Unattended}, "no pass in the 1h since its deletion", "Start the controller"},
		{"just begun", input{Namespace: func() namespace.Namespace {
			ns := dying("kubernetes")
			ns.DeletionTimestamp = phase.At(ago(time.Second))
			return ns
		}()}, []explain.Kind{explain.Starting}, "just begun", "Wait"},
		{"an overdue pass", input{Namespace: with(dying("kubernetes"), "", broken), History: func() explain.Recorded {
			h := failing(explain.SourceFailed, "widgets.example.com", "list: refused")
			h.Next = explain.Next{At: ago(time.Hour)}
			return h
		}()}, []explain.Kind{explain.Unattended, explain.SourceFailed}, "the next pass was due 1h ago", ""},
		{"another replica has it now", input{Namespace: dying("kubernetes"), Parties: []parties.Party{party("kubernetes", true)}, History: func() explain.Recorded {
			h := failing(explain.SourceFailed, "widgets.example.com", "list: refused")
			h.Next = explain.Next{At: ago(time.Hour)}
			return h
		}()}, []explain.Kind{explain.SourceFailed, explain.OwnerAtWork}, "widgets.example.com fails", ""},
		{"no free worker", input{Namespace: dying("kubernetes"), History: explain.Recorded{UID: "u-1", Queued: ago(5 * time.Minute)}},
			[]explain.Kind{explain.Queued}, "it has waited 5m for a worker", "Workers"},
		{"the first pass hangs", input{Namespace: dying("kubernetes"), History: explain.Recorded{UID: "u-1", Running: ago(50 * time.Second)}},
			[]explain.Kind{explain.SourceSlow}, "the current pass has waited 50s for answers", ""},
		{"nothing is known to keep it", input{Namespace: dying("kubernetes"), History: looked(explain.Recorded{}, "waiting")},
			[]explain.Kind{explain.Unknown}, "the cause is not known here", "kubectl get namespace shop -o yaml"},
		{"nothing holds it", input{Namespace: with(dying(), "", phase.Observation{})}, []explain.Kind{explain.Removable}, "no finalizer is left, but the namespace was not removed", "inalize"},
		{"the history of another incarnation", input{Namespace: dying("kubernetes"), History: func() explain.Recorded {
			h := failing(explain.SourceFailed, "x", "y")
			h.UID = "u-0"
			return h
		}()}, []explain.Kind{explain.Unattended}, "no controller works on it", ""},

		{"waived", input{Namespace: annotated(with(dying(origin), "", phase.Observation{}), waiver), Parties: []parties.Party{party(origin, true)}},
			[]explain.Kind{explain.OwnerAtWork, explain.Waived}, "finalizer openshift.com/origin is still set", ""},
		{"a waiver that is over", input{Namespace: annotated(with(dying("kubernetes"), "", broken), func() declare.Waiver {
			w := waiver
			w.Until = ago(10 * time.Minute)
			return w
		}())}, []explain.Kind{explain.SourceFailed}, "widgets.example.com fails", ""},

		{"forced, and gone", input{Name: "shop", Records: forced()}, []explain.Kind{explain.LeftByForce, explain.Gone}, "ann dropped openshift.com/origin by force 20m ago", "force.Sweep"},
		{"forced, swept and gone", input{Name: "shop", Records: append(complete(), audit.Record{Action: audit.Swept, UID: "u-1", Follows: "r1"})},
			[]explain.Kind{explain.Gone, explain.Forced}, "its finalizers were dropped by force 20m ago", ""},
		{"forced, and there", input{Namespace: with(dying(origin), string(origin), broken), Records: forced()},
			[]explain.Kind{explain.SourceFailed, explain.Forced}, "widgets.example.com fails", ""},
		{"forced in another life", input{Namespace: func() namespace.Namespace {
			ns := living()
			ns.UID = "u-2"
			return ns
		}(), Records: append(complete(), audit.Record{Action: audit.Swept, UID: "u-1", Follows: "r1"})}, []explain.Kind{explain.NotTerminating}, "no deletion was requested", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			d := diagnose(c.in)
			require.Equal(t, c.want, kinds(d), "%s", d.Text())
			first := d.Causes[0]
			require.Contains(t, first.Summary, c.summary)
			require.Contains(t, first.Remedy.Text+" "+first.Remedy.Command, c.remedy)
			require.True(t, strings.HasSuffix(d.Summary, ": "+first.Summary), d.Summary)
			for _, k := range c.want {
				seen[k] = true
			}
		})
	}
	severities := map[explain.Severity]bool{}
	for _, k := range explain.Kinds() {
		require.True(t, seen[k], "no case has %q", k)
		severities[k.Severity()] = true
	}
	require.Len(t, severities, 3)
	require.Equal(t, explain.Bad, explain.Kind("something new").Severity())
}

func TestExpiredWaiverIsListed(t *testing.T) {
	w := waiver
	other := diagnose(input{Namespace: annotated(with(dying("kubernetes"), "", broken), w), Now: now})
	require.NotContains(t, other.Causes[0].Detail, "waiver", "it is not over")
	w.Until = ago(10 * time.Minute)
	d := diagnose(input{Namespace: annotated(with(dying("kubernetes"), "", broken), w), Now: now})
	require.Contains(t, d.Causes[0].Detail, "its waiver w by ann ended 10m ago")
}

func TestWaivedFailureIsListed(t *testing.T) {
	h := looked(explain.Recorded{Waived: []string{"widgets.example.com: list: refused"}}, "finalized")
	d := diagnose(input{Namespace: annotated(dying(origin), waiver), History: h, Now: now})
	last := d.Causes[len(d.Causes)-1]
	require.Equal(t, explain.Waived, last.Kind)
	require.Contains(t, last.Summary, "until 13:00:00 UTC (waiver w by ann: uninstalled)")
	require.Equal(t, "it failed in the last pass: list: refused", last.Detail)
}

// An end is predicted only if nothing else blocks the deletion.
func TestNoEndWhileStuck(t *testing.T) {
	h := lef(explain.Objects{Resource: "pods", Remaining: 3000})
	h.PerSecond = 100
	in := input{Namespace: dying("kubernetes"), History: h, Now: now}
	require.Equal(t, now.Add(30*time.Second), diagnose(in).Progress.End)
	in.History.Failing, in.History.Failures = []string{"x"}, []explain.Failure{{Kind: explain.SourceFailed, Source: "x", Text: "y", Count: 1}}
	require.Zero(t, diagnose(in).Progress.End)
	in = input{Namespace: dying("kubernetes"), History: h, Now: now.Add(time.Hour)}
	require.Zero(t, diagnose(in).Progress.PerSecond, "the rate of an hour ago")
}

// Content that reappears makes no progress.
func TestNoProgressOfWhatComesBack(t *testing.T) {
	h := lef(explain.Objects{Resource: "pods", Remaining: 12, Returning: true})
	h.Removed, h.PerSecond = 4242, 57
	d := diagnose(input{Namespace: dying("kubernetes"), History: h, Now: now})
	require.Nil(t, d.Progress)
	require.NotContains(t, d.Text(), "4,242")
	h.Objects[0].Returning = false
	require.Equal(t, 4242, diagnose(input{Namespace: dying("kubernetes"), History: h, Now: now}).Progress.Removed)
}

func TestText(t *testing.T) {
	h := failing(explain.SourceFailed, "widgets.example.com", "list: connection refused")
	h.Objects = []explain.Objects{podsHeld}
	h.Removed, h.PerSecond = 1204, 12.4
	d := diagnose(input{
		Namespace: dying("kubernetes", origin), History: h, Now: now,
		Parties: []parties.Party{party("kubernetes", true), party(origin, false)},
	})
	require.Equal(t, strings.TrimPrefix(`
namespace shop: Terminating (DeletingContent) for 1h
  deleted 2026-11-21 11:00:00 UTC, now 2026-11-21 12:00:00 UTC
  uid u-1

WHY
  1. the owner of finalizer openshift.com/origin is missing: last seen 2h ago
     (contact: #team)
     since 10:00:00 UTC (2h)
     -> Restart its owner. If the owner is gone for good, drop the finalizer on
        the record (force.Drop).
        $ kubectl get namespace shop -o 'jsonpath={.spec.finalizers}'
        # force.Drop(ctx, namespaces, content, log, force.Request{Name: "shop", UID: "u-1", Finalizers: []finalizer.Name{"openshift.com/origin"}, By: <WHO>, Reason: <WHY>})
  2. widgets.example.com fails: list: connection refused
     since 11:10:00 UTC (50m), in 7 passes
     -> Find the cause and fix it; it is retried automatically. If it holds no
        content of this namespace, a waiver lets the deletion continue.
        $ kubectl get widgets.example.com -n shop
        # kubectl annotate namespace shop waiver.nslifecycle.io/<NAME>='{"source":"widgets.example.com","by":"<WHO>","reason":"<WHY>","until":"<YYYY-MM-DDThh:mm:ssZ>"}'
  3. finalizer example.com/drain holds 2 of pods (a, b)
     since 11:00:00 UTC (1h)
     -> Check that the owner of example.com/drain is running. If it is gone for
        good, remove the finalizer from these objects.
        $ kubectl get pods -n shop -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers

PROGRESS
  1,204 removed, at least 2 remaining, 12/s, in 3 passes

HELD BY
  kubernetes: owner alive, last pass 5s ago, contact #team
  openshift.com/origin: owner missing since 10:00:00 UTC, contact #team

OBJECTS
  pods: 2 remaining, 2 being deleted (a, b), no fewer for 1h
    example.com/drain holds 2 (a, b) since 11:00:00 UTC (1h)

FAILURES
  widgets.example.com: list: connection refused
    7 times, first 11:10:00 UTC, last 11:59:55 UTC (5s ago)

NEXT PASS
  in 20s at the latest, 12:00:20 UTC (failed)
`, "\n"), d.Text())
}

func TestBadInput(t *testing.T) {
	for _, in := range []input{
		{},
		{Name: "\x00"},
		{Namespace: namespace.Namespace{Meta: namespace.Meta{UID: "u"}}},
		{Namespace: dying("")},
		{Namespace: dying("kubernetes"), Now: time.Time{}},
		{Namespace: dying("kubernetes"), History: explain.Recorded{Objects: []explain.Objects{{Remaining: -5, Deleting: -1}}, PerSecond: -1, Total: -1, Passes: make([]explain.Pass, 1)}},
		{Namespace: dying("kubernetes"), History: lef(explain.Objects{Resource: strings.Repeat("x", 1<<20), Remaining: 1})},
	} {
		d := diagnose(in)
		require.NotEmpty(t, d.Causes)
		require.NotEmpty(t, d.Text())
	}
}

// No waiver is offered for a type with known objects.
func TestUndeclaredTypeWithObjects(t *testing.T) {
	for count, template := range map[int]bool{0: true, 1: false} {
		seen := undeclared
		seen.Remaining = []phase.Remaining{{Group: "example.com", Resource: "widgets", Count: count}}
		d := diagnose(input{Namespace: with(dying("kubernetes"), "", seen), Now: now})
		require.Equal(t, explain.Undeclared, d.Causes[0].Kind)
		require.Equal(t, template, d.Causes[0].Remedy.Template != "")
		left, waiver := ": 1 object is left", ""
		if template {
			left, waiver = "", " If it holds no content of this namespace, a waiver lets the deletion continue."
		}
		require.Equal(t, "the controller does not declare widgets.example.com, which another version of the service stored"+left, d.Causes[0].Summary)
		require.Equal(t, "Run a controller of the version that declares it. If the service has dropped the type, let the last version that declares it "+
			"delete the remaining objects, then retire the type (Registry.RetireType)."+waiver, d.Causes[0].Remedy.Text)
	}
}
