package explain_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

func forced() []audit.Record {
	return []audit.Record{
		{ID: "r1", Time: ago(21 * time.Minute), Action: audit.Forcing, UID: "u-1", Objects: 2, Failures: 1, Inventory: &audit.Inventory{
			Objects:  []audit.Object{{Resource: "pods", Name: "a"}, {Resource: "pods", Name: "b"}},
			Failures: []audit.Failure{{Source: "widgets.example.com", Text: "refused"}},
		}},
		{ID: "r2", Time: ago(20 * time.Minute), Action: audit.Forced, UID: "u-1", By: "ann", Reason: "the agent was uninstalled", Finalizers: []finalizer.Name{origin}, Follows: "r1"},
	}
}

// complete is forced with an answer of every source.
func complete() []audit.Record {
	records := forced()
	records[0].Inventory.Failures, records[0].Failures = nil, 0
	return records
}

func TestForcedDropListsRemainingObjects(t *testing.T) {
	d := diagnose(input{Name: "shop", Records: forced(), Now: now})
	c := d.Causes[0]
	require.Equal(t, "ann dropped openshift.com/origin by force 20m ago: the agent was uninstalled", c.Summary)
	require.Equal(t, "left then: 2 of pods (a, b) (1 source did not answer)", c.Detail)
	require.Contains(t, c.Remedy.Text, "force.Sweep with record r1")

	swept := append(complete(), audit.Record{ID: "r3", Time: ago(time.Minute), Action: audit.Swept, UID: "u-1", Follows: "r1", Detail: "2 of 2 removed"})
	c = diagnose(input{Name: "shop", Records: swept, Now: now}).Causes[1]
	require.Contains(t, c.Detail, "swept 1m ago: 2 of 2 removed")
	require.NotContains(t, c.Remedy.Text, "Sweep")
}

// A force is open until a sweep of its complete inventory leaves nothing.
func TestForcedDropIsOpenUntilNothingIsLeft(t *testing.T) {
	const sweep, over, look = "force.Sweep with record r1", "There is nothing more to do for it.", "1 source did not answer then"
	record := func(id string, action audit.Action, follows string, left int) audit.Record {
		return audit.Record{ID: id, Time: ago(time.Minute), Action: action, UID: "u-1", Follows: follows, Objects: left}
	}
	// As a log lists them: with counts, without inventories.
	listed := func(objects, failures int, more ...audit.Record) []audit.Record {
		records := complete()
		records[0].Inventory, records[0].Objects, records[0].Failures = nil, objects, failures
		return append(records, more...)
	}
	for name, c := range map[string]struct {
		records []audit.Record
		want    string
	}{
		"not swept":                         {complete(), sweep},
		"swept":                             {append(complete(), record("r3", audit.Swept, "r1", 0)), over},
		"a sweep that removed nothing":      {append(complete(), record("r3", audit.Swept, "r1", 2)), sweep},
		"swept at last":                     {append(complete(), record("r3", audit.Swept, "r1", 2), record("r4", audit.Swept, "r1", 0)), over},
		"swept, but sources did not answer": {append(forced(), record("r3", audit.Swept, "r1", 0)), look},
		"a sweep of another force":          {append(complete(), record("r3", audit.Swept, "r0", 0)), sweep},
		"a later force was refused":         {append(complete(), record("r3", audit.Forcing, "", 9), record("r4", audit.Refused, "r3", 0)), sweep},
		"a later force is not over":         {append(complete(), record("r3", audit.Forcing, "", 9)), sweep},
		"two at once": {
			append([]audit.Record{complete()[0], record("r1b", audit.Forcing, "", 9)}, complete()[1], record("r4", audit.Refused, "r1b", 0)), sweep,
		},
		"nothing was left":               {listed(0, 0), over},
		"listed":                         {listed(2, 0), sweep},
		"listed, sources did not answer": {listed(0, 1), look},
		"listed and swept":               {listed(2, 0, record("r3", audit.Swept, "r1", 0)), over},
		"without its inventory":          {complete()[1:], "Record r1 of the objects left then is lost or unreadable, so no sweep can use it"},
		"without it, swept":              {append(complete()[1:], record("r3", audit.Swept, "r1", 0)), over},
		"without it, swept in part":      {append(complete()[1:], record("r3", audit.Swept, "r1", 2)), "no sweep can use it"},
		"damaged": {
			append([]audit.Record{{ID: "r1", Time: ago(time.Hour), Action: audit.Unreadable, Namespace: "shop", Detail: "x"}}, complete()[1:]...), "no sweep can use it",
		},
		"another one is damaged": {
			append([]audit.Record{{ID: "r0", Time: ago(time.Hour), Action: audit.Unreadable, Namespace: "shop", Detail: "x"}}, complete()...), sweep,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnose(input{Name: "shop", Records: c.records, Now: now})
			at := slices.IndexFunc(d.Causes, isForced)
			require.Contains(t, d.Causes[at].Remedy.Text, c.want)
			require.Equal(t, c.want != over, at == 0, "a drop with remaining objects comes first")
			if name == "two at once" {
				require.Contains(t, d.Causes[0].Detail, "2 of pods (a, b)")
			}
		})
	}
}

func isForced(c explain.Cause) bool { return c.Kind == explain.Forced || c.Kind == explain.LeftByForce }

// ofForce returns the causes that report forced drops.
func ofForce(d explain.Diagnosis) (list []explain.Cause) {
	for _, c := range d.Causes {
		if isForced(c) {
			list = append(list, c)
		}
	}
	return list
}

// A call that crashed before its last record may have dropped the finalizers.
func TestForcedDropWithoutAnEnd(t *testing.T) {
	begun := complete()[0]
	begun.By, begun.Reason, begun.Finalizers = "ann", "gone for good", []finalizer.Name{origin}
	d := diagnose(input{Name: "shop", Records: []audit.Record{begun}, Now: now})
	require.Equal(t, []explain.Kind{explain.LeftByForce, explain.Gone}, kinds(d))
	c := d.Causes[0]
	require.Equal(t, "ann began to drop openshift.com/origin by force 21m ago: gone for good", c.Summary)
	require.Equal(t, "its completion is not on record; left then: 2 of pods (a, b)", c.Detail)
	require.Contains(t, c.Remedy.Text, "Call force.Drop again with the same request")
	require.Contains(t, c.Remedy.Text, "force.Sweep with record r1")

	d = diagnose(input{Namespace: dying("kubernetes"), Records: []audit.Record{begun}, Now: now})
	require.Len(t, ofForce(d), 1, "the finalizer is gone")
	d = diagnose(input{Namespace: dying(origin), Records: []audit.Record{begun}, Now: now})
	require.Empty(t, ofForce(d), "the finalizer is still set")

	again := begun
	again.ID, again.Follows = "r7", "r1"
	d = diagnose(input{Name: "shop", Records: []audit.Record{begun, again}, Now: now})
	require.Len(t, ofForce(d), 1, "the second call resumed the first")
	require.Contains(t, d.Causes[0].Remedy.Text, "record r7")
	refused := audit.Record{ID: "r8", Action: audit.Refused, UID: "u-1", Follows: "r7"}
	d = diagnose(input{Name: "shop", Records: []audit.Record{begun, again, refused}, Now: now})
	require.Len(t, ofForce(d), 1)
	require.Contains(t, d.Causes[0].Remedy.Text, "record r1")
	begun.Action, refused.Follows = audit.Forcing, "r1"
	require.Equal(t, []explain.Kind{explain.Gone}, kinds(diagnose(input{Name: "shop", Records: []audit.Record{begun, refused}, Now: now})))
}

// Each force that left objects is listed until they are swept.
func TestEachForcedDropIsListed(t *testing.T) {
	second := []audit.Record{
		{ID: "r4", Action: audit.Forcing, UID: "u-1", Inventory: &audit.Inventory{}},
		{ID: "r5", Action: audit.Forced, UID: "u-1", Follows: "r4", By: "bob", Finalizers: []finalizer.Name{"example.com/agent"}, Time: ago(time.Minute)},
	}
	for name, in := range map[string]input{
		"gone":          {Name: "shop"},
		"created again": {Namespace: func() (ns namespace.Namespace) { ns = living(); ns.UID = "u-2"; return ns }()},
		"terminating":   {Namespace: dying("kubernetes")},
	} {
		t.Run(name, func(t *testing.T) {
			in.Records, in.Now = append(complete(), second...), now
			list := ofForce(diagnose(in))
			require.NotEmpty(t, list)
			require.Contains(t, list[0].Summary, "ann dropped openshift.com/origin by force")
			require.Contains(t, list[0].Remedy.Text, "force.Sweep with record r1")
			if name == "created again" {
				require.Contains(t, list[0].Summary, "in an earlier namespace of this name (uid u-1), ")
				require.Len(t, list, 1, "the second drop left no objects")
				return
			}
			require.Len(t, list, 2)
			require.Contains(t, list[1].Summary, "bob dropped example.com/agent")
			require.Equal(t, "There is nothing more to do for it.", list[1].Remedy.Text)
		})
	}
	var many []audit.Record
	for range 40 {
		many = append(many, complete()...)
	}
	for i := range many {
		many[i].UID = "u" + string(rune('a'+i/2))
	}
	require.Len(t, ofForce(diagnose(input{Name: "shop", Records: many, Now: now})), 16)
}

// A record that was forgotten after it was listed cannot be swept.
func TestForcedDropWhoseRecordIsForgotten(t *testing.T) {
	listed := complete()
	listed[0].Inventory, listed[0].Objects = nil, 2
	e := explain.New(new(controllertest.Host), &explain.Options{
		Records: func(context.Context, string) ([]audit.Record, error) { return listed, nil },
		Record: func(context.Context, string, string) (audit.Record, error) {
			return audit.Record{}, &namespace.Error{Kind: namespace.ErrNotFound, Message: "no such record"}
		},
	})
	d, err := e.Explain(t.Context(), "shop")
	require.NoError(t, err)
	c := ofForce(d)[0]
	require.Contains(t, c.Remedy.Text, "Record r1 of the objects left then is lost")
	require.NotContains(t, c.Remedy.Text, "force.Sweep")
	require.Len(t, listed, 2, "the host's list is not changed")
	require.Equal(t, "r1", listed[0].ID)
}
