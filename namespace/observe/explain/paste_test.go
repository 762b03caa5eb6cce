package explain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// No text of a condition, and no name, becomes an option of a command.
func TestNoOptionFromOutside(t *testing.T) {
	known := map[string]bool{"-n": true, "-o": true, "--namespaced": true, "--show-managed-fields": true}
	check := func(t *testing.T, d explain.Diagnosis) {
		t.Helper()
		for _, c := range d.Causes {
			for _, word := range strings.Fields(c.Remedy.Command) {
				ours := known[word] || word == "--api-group=metrics.example.com"
				require.False(t, strings.HasPrefix(strings.Trim(word, "'"), "-") && !ours, c.Remedy.Command)
			}
		}
	}
	for _, hostile := range []string{"--server=http://evil.example", "-f=http://evil.example/x.yaml", "secrets,--token", "-n", "--all", "-"} {
		for _, objects := range []explain.Objects{{Resource: hostile, Remaining: 2}, {Resource: hostile, Remaining: 2, Deleting: 2}, {Resource: hostile, Remaining: 2, Returning: true}} {
			check(t, diagnose(input{Namespace: dying(finalizer.Kubernetes), History: lef(objects), Now: now}))
		}
		ns := dying(finalizer.Kubernetes)
		ns.Status.Conditions = []phase.Condition{
			{Type: phase.ContentRemaining, Status: phase.True, Message: "Some resources are remaining: " + hostile + " has 2 resource instances"},
			{Type: phase.ContentFailure, Status: phase.True, Message: hostile + ": refused"},
			{Type: phase.DiscoveryFailure, Status: phase.True, Message: hostile + ": refused"},
		}
		check(t, diagnose(input{Namespace: ns, Now: now}))
		ns.Name = hostile
		for _, c := range diagnose(input{Namespace: ns, Now: now}).Causes {
			if strings.HasPrefix(hostile, "-") {
				require.NotContains(t, c.Remedy.Command, hostile+" ")
				require.False(t, strings.HasSuffix(c.Remedy.Command, hostile), c.Remedy.Command)
			}
		}
	}
}

// Templates cannot be run before they are filled in: a shell parses a redirection, and Go does
// not compile them.
func TestRemediesToBeFilledIn(t *testing.T) {
	d := diagnose(input{Namespace: with(dying("kubernetes"), "", broken), Now: now})
	require.Equal(t, `kubectl annotate namespace shop waiver.nslifecycle.io/<NAME>='{"source":"widgets.example.com","by":"<WHO>","reason":"<WHY>","until":"<YYYY-MM-DDThh:mm:ssZ>"}'`,
		d.Causes[0].Remedy.Template)
	_, value, _ := strings.Cut(d.Causes[0].Remedy.Template, "='")
	filled := living()
	filled.Annotations = map[string]string{declare.WaiverPrefix + "w": strings.Replace(strings.TrimSuffix(value, "'"), "<YYYY-MM-DDThh:mm:ssZ>", "2026-12-24T12:00:00Z", 1)}
	list, err := declare.Waivers(filled.Meta)
	require.NoError(t, err, "it is a waiver when it is filled in")
	require.Equal(t, "widgets.example.com", list[0].Source)
	require.Contains(t, d.Text(), "# kubectl annotate namespace shop waiver.nslifecycle.io/<NAME>=")

	forbidden := diagnose(input{Namespace: dying("kubernetes"), History: failing(explain.SourceFailed, "widgets.example.com", "delete: widgets is forbidden"), Now: now})
	require.Empty(t, forbidden.Causes[0].Remedy.Template, "the controller is to be let, not the failure waived")
	whole := diagnose(input{Namespace: with(dying("kubernetes"), "", phase.Observation{Discovery: []error{errors.New("refused")}}), Now: now})
	require.Empty(t, whole.Causes[0].Remedy.Template, "discovery as a whole cannot be waived")

	d = diagnose(input{Namespace: dying(origin), Parties: []parties.Party{party(origin, false)}, Now: now})
	require.Equal(t, `force.Drop(ctx, namespaces, content, log, force.Request{Name: "shop", UID: "u-1", Finalizers: []finalizer.Name{"openshift.com/origin"}, By: <WHO>, Reason: <WHY>})`,
		d.Causes[0].Remedy.Template)
	ns := dying()
	ns.Finalizers = finalizer.NewSet(origin)
	d = diagnose(input{Namespace: ns, Now: now})
	require.Empty(t, d.Causes[0].Remedy.Template, "force takes off what is in the spec")
	for _, name := range []string{"-n", "a'b", "$(reboot)", "a\nb"} {
		ns := namespace.Namespace{Meta: namespace.Meta{Name: name, UID: "u-1", DeletionTimestamp: phase.At(now)}, Spec: namespace.Spec{Finalizers: finalizer.NewSet("kubernetes")}}
		template := diagnose(input{Namespace: with(ns, "", broken), Now: now}).Causes[0].Remedy.Template
		require.NotContains(t, template, " "+name+" ")
	}
}
