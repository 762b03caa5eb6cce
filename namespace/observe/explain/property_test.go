package explain_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// nasty lists strings that a terminal, a shell or a browser might interpret.
var nasty = []string{
	"", " ", "\n", "a\r\nWHY\n", "\x1b[31mred\x1b[0m", "\x1b]0;title\a", "\u202emoc.live\u202c", "\u200b", "\ufeff", "\u2028", "\x00", "\xff\xfe", "\x7f", "\u009b31m",
	"'; rm -rf / #", "$(reboot)", "`reboot`", "--all", "-n", "a b", "<script>alert(1)</script>", "\" onload=\"x", "</pre>", "&amp;", "{{.}}", "%s%d%!", "日本語", "é",
	strings.Repeat("x", 5000), strings.Repeat("long ", 500), "pods", "widgets.example.com", "kubernetes", "example.com/agent", ": ", ", ", " has 1 resource instances",
}

// random makes inputs of nasty parts.
type random struct{ *rand.Rand }

func (r random) text() string {
	s := nasty[r.IntN(len(nasty))]
	if r.IntN(3) == 0 {
		s += nasty[r.IntN(len(nasty))]
	}
	return s
}

func (r random) time() time.Time {
	switch r.IntN(6) {
	case 0:
		return time.Time{}
	case 1:
		return now.Add(time.Duration(r.Int64()))
	case 2:
		return time.Unix(r.Int64(), 0)
	}
	return now.Add(time.Duration(r.IntN(7200)-3600) * time.Second)
}

func (r random) number() int {
	switch r.IntN(5) {
	case 0:
		return 0
	case 1:
		return int(r.Uint64())
	}
	return r.IntN(100000)
}

func some[T any](r random, most int, f func() T) []T {
	var list []T
	for range r.IntN(most + 1) {
		list = append(list, f())
	}
	return list
}

func (r random) finalizer() finalizer.Name { return finalizer.Name(r.text()) }

func (r random) condition() phase.Condition {
	types := []phase.ConditionType{
		phase.DiscoveryFailure, phase.GroupVersionParsingFailure, phase.ContentFailure, phase.ContentRemaining, phase.FinalizersRemaining,
		"NamespaceDeletionGVParsingFailure", phase.ConditionType(r.text()),
	}
	messages := []string{
		r.text(), "Failed to delete all resource types, 2 remaining: " + r.text(), "Some resources are remaining: " + r.text() + " has " + fmt.Sprint(r.number()) + " resource instances, " + r.text(),
		"x: " + r.text() + " in 3 resource instances", "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: " + r.text() + ": " + r.text(),
		"unexpected items still remain in namespace: x for gvr: /v1, Resource=" + r.text(), "new objects may still appear",
	}
	return phase.Condition{
		Type:   types[r.IntN(len(types))].Qualified([]string{"", "", "openshift.com/origin", r.text()}[r.IntN(4)]),
		Status: []phase.ConditionStatus{phase.True, phase.True, phase.False, phase.Unknown, "x"}[r.IntN(5)], LastTransitionTime: phase.Time{Time: r.time()},
		Reason: r.text(), Message: messages[r.IntN(len(messages))],
	}
}

func (r random) namespace() namespace.Namespace {
	ns := namespace.Namespace{}
	if r.IntN(6) == 0 {
		return ns
	}
	ns.Name, ns.UID = r.text(), []string{"u-1", r.text()}[r.IntN(2)]
	ns.CreationTimestamp = phase.Time{Time: r.time()}
	if r.IntN(3) > 0 {
		ns.DeletionTimestamp = phase.Time{Time: r.time()}
	}
	ns.Spec.Finalizers = finalizer.NewSet(some(r, 3, r.finalizer)...)
	ns.Finalizers = finalizer.NewSet(some(r, 1, r.finalizer)...)
	ns.Status.Conditions = some(r, 7, r.condition)
	ns.Annotations = map[string]string{}
	for _, key := range []string{declare.ProtectionPrefix + "a", declare.ProtectionPrefix + r.text(), declare.WaiverPrefix + "w", declare.HoldAnnotation, r.text()} {
		if r.IntN(3) == 0 {
			ns.Annotations[key] = []string{
				r.text(), `{"owner":"o","reason":"` + "r" + `"}`, `{"until":"2026-11-21T13:00:00Z"}`,
				`{"source":"pods","by":"b","reason":"r","until":"2026-11-21T13:00:00Z"}`,
			}[r.IntN(4)]
		}
	}
	return ns
}

func (r random) objects() explain.Objects {
	return explain.Objects{
		Resource: r.text(), Remaining: r.number(), Deleting: r.number(), Sample: some(r, 3, r.text), Waiting: r.IntN(4) == 0, AtLeast: r.IntN(4) == 0,
		Returning: r.IntN(4) == 0, Since: r.time(), HeldBy: some(r, 2, func() explain.HeldBy {
			return explain.HeldBy{Holder: phase.Holder{Finalizer: r.text(), Objects: r.number(), Sample: some(r, 3, r.text)}, Since: r.time()}
		}),
	}
}

func (r random) failure() explain.Failure {
	list := []explain.Kind{
		explain.StorageFailed, explain.DiscoveryFailed, explain.ParsingFailed, explain.Undeclared, explain.SourceFailed, explain.SourceSlow, explain.Returning,
		explain.Conflicts,
	}
	return explain.Failure{Kind: list[r.IntN(len(list))], Source: r.text(), Text: r.text(), Count: r.number(), First: r.time(), Last: r.time()}
}

func (r random) history() explain.Recorded {
	h := explain.Recorded{
		UID: "u-1", Parties: some(r, 2, r.finalizer), Deleted: r.time(), Began: r.time(), Total: r.number(), Removed: r.number(),
		Objects: some(r, 3, r.objects), Failures: some(r, 4, r.failure), Failing: some(r, 2, r.text), Waived: some(r, 2, r.text), PerSecond: r.Float64() * 100, Ended: r.time(),
		Passes: some(r, 4, func() explain.Pass {
			return explain.Pass{Start: r.time(), Took: time.Duration(r.number()), Party: r.finalizer(), Outcome: []string{"failed", "waiting", r.text()}[r.IntN(3)], Error: r.text()}
		}),
	}
	for _, f := range h.Failures {
		if r.IntN(2) == 0 {
			h.Failing = append(h.Failing, f.Source)
		}
	}
	if r.IntN(2) == 0 {
		h.Next = explain.Next{At: r.time(), Reason: r.text()}
	}
	if r.IntN(4) == 0 {
		h.Queued, h.Running = r.time(), r.time()
	}
	return h
}

func (r random) input() input {
	in := input{Name: r.text(), Namespace: r.namespace(), Now: r.time()}
	if r.IntN(3) > 0 {
		in.Now = now
	}
	if r.IntN(2) == 0 {
		in.History = r.history()
	}
	in.Parties = some(r, 3, func() parties.Party {
		return parties.Party{Finalizer: r.finalizer(), Contact: r.text(), LastSeen: r.time(), Alive: r.IntN(2) == 0}
	})
	actions := []audit.Action{audit.Declared, audit.Forcing, audit.Forced, audit.Refused, audit.Swept}
	in.Records = some(r, 4, func() audit.Record {
		rec := audit.Record{ID: r.text(), Time: r.time(), Action: actions[r.IntN(5)], UID: "u-1", By: r.text(), Reason: r.text(), Finalizers: some(r, 2, r.finalizer), Detail: r.text()}
		if r.IntN(2) == 0 {
			rec.Inventory = &audit.Inventory{Objects: some(r, 3, func() audit.Object { return audit.Object{Resource: r.text(), Name: r.text()} }), Failures: make([]audit.Failure, r.IntN(3))}
		}
		return rec
	})
	return in
}

// TestAnyInput checks the invariants of diagnoses of random inputs.
func TestAnyInput(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	for range 1000 {
		in := r.input()
		before := fmt.Sprintf("%+v", in)
		d := diagnose(in)
		sound(t, d)
		require.Empty(t, cmp.Diff(d, diagnose(in), cmp.Comparer(func(a, b float64) bool { return a == b })), "equal inputs, equal diagnoses")
		require.Equal(t, before, fmt.Sprintf("%+v", in), "the input was changed")
	}
}

// sound checks the invariants of a diagnosis.
func sound(t *testing.T, d explain.Diagnosis) {
	t.Helper()
	require.NotEmpty(t, d.Causes)
	require.LessOrEqual(t, len(d.Causes), 64)
	require.True(t, strings.HasPrefix(d.Summary, d.Name+" is ") && strings.HasSuffix(d.Summary, ": "+d.Causes[0].Summary), "%q", d.Summary)
	all := explain.Kinds()
	rank := func(k explain.Kind) int {
		for i := range all {
			if all[i] == k {
				return i
			}
		}
		t.Fatalf("kind %q has no rank", k)
		return 0
	}
	for i, c := range d.Causes {
		require.NotEmpty(t, c.Summary)
		require.NotEmpty(t, c.Remedy.Text, "cause %q has no remedy", c.Kind)
		require.False(t, strings.ContainsFunc(c.Remedy.Command, unsafe), "%q", c.Remedy.Command)
		require.True(t, c.Remedy.Command == "" || strings.HasPrefix(c.Remedy.Command, "kubectl "))
		require.True(t, i == 0 || rank(d.Causes[i-1].Kind) <= rank(c.Kind), "the order of %q and %q", d.Causes[max(i-1, 0)].Kind, c.Kind)
	}
	text := d.Text()
	require.True(t, strings.HasPrefix(text, "namespace "))
	require.False(t, strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unsafe), "%q", text)
	require.Equal(t, 1, strings.Count(text, "\nWHY\n"), "%q", text)
	_, err := json.Marshal(safe(d))
	require.NoError(t, err)
}

// safe returns d without moments that JSON has no form for.
func safe(d explain.Diagnosis) explain.Diagnosis {
	raw := func(at time.Time) time.Time {
		if y := at.UTC().Year(); y < 0 || y > 9999 {
			return time.Time{}
		}
		return at
	}
	d.Since, d.At = raw(d.Since), raw(d.At)
	d.Passes, d.Failures, d.Next, d.Objects, d.Holders, d.Causes = nil, nil, nil, nil, nil, nil
	if d.Progress != nil {
		p := *d.Progress
		p.End = raw(p.End)
		d.Progress = &p
	}
	return d
}

// unsafe reports whether a terminal might obey r, or whether it changes how text reads.
func unsafe(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.IsSpace(r) && r != ' '
}

// FuzzConditions explains a terminating namespace with one arbitrary condition.
func FuzzConditions(f *testing.F) {
	for _, message := range nasty {
		f.Add("NamespaceContentRemaining", "True", message)
	}
	f.Add("NamespaceDeletionDiscoveryFailure", "True", "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: the server is currently unable to handle the request")
	f.Add("openshift.com/origin.NamespaceDeletionContentFailure", "True", "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: x for gvr: /v1, Resource=pods")
	f.Add("NamespaceFinalizersRemaining", "True", "Some content in the namespace has finalizers remaining: a/b in 3 resource instances, c/d in 99999999999999999999 resource instances")
	f.Add("NamespaceContentRemaining", "Unknown", "No remaining resources were seen, but new objects may still appear; the next pass checks again")
	f.Fuzz(func(t *testing.T, typ, status, message string) {
		ns := dying("kubernetes", origin)
		ns.Status.Conditions = []phase.Condition{{Type: phase.ConditionType(typ), Status: phase.ConditionStatus(status), LastTransitionTime: phase.At(ago(time.Minute)), Message: message}}
		sound(t, diagnose(input{Namespace: ns, Now: now}))
	})
}

func TestHostileNames(t *testing.T) {
	ns := dying("kubernetes")
	ns.Name = "x'; reboot; '"
	ns = with(ns, "", leftPods)
	d := diagnose(input{Namespace: ns, Now: now})
	require.Equal(t, `kubectl get pods -n 'x'\''; reboot; '\'''`, d.Causes[0].Remedy.Command)

	for _, name := range []string{"a\nb", "\x1b[2Ja", "\u202ea", "--all", "\xff"} {
		ns.Name = name
		d = diagnose(input{Namespace: ns, Now: now})
		require.Empty(t, d.Causes[0].Remedy.Command, "%q", name)
	}
	ns.Name = "a\u202eb\x1b[31m\n\xffc"
	require.Contains(t, diagnose(input{Namespace: ns, Now: now}).Text(), `namespace a\u202eb\x1b[31m\n\xffc: Terminating`)
}

// Lines have at most 80 columns, except for commands and long words.
func TestTextIsNotWide(t *testing.T) {
	h := failing(explain.SourceFailed, "widgets.example.com", strings.Repeat("connection refused and more words ", 9))
	h.Objects = []explain.Objects{podsHeld, {Resource: "a", Remaining: 12345, Sample: []string{strings.Repeat("b", 60), strings.Repeat("c", 60)}}}
	d := diagnose(input{Namespace: dying("kubernetes", origin), History: h, Now: now, Parties: []parties.Party{party(origin, false)}})
	for line := range strings.Lines(d.Text()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "        $ ") && !strings.HasPrefix(line, "        # ") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
		}
		require.Equal(t, strings.TrimRight(line, " "), line)
	}
}
