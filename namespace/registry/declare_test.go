package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// records returns the audit records about a name.
func (e *env) records(name string) []audit.Record {
	e.t.Helper()
	log, err := audit.New(e.store, nil)
	require.NoError(e.t, err)
	records, err := log.List(context.WithoutCancel(e.ctx), name)
	require.NoError(e.t, err)
	return records
}

// changes returns the changes of the records, one text for each record.
func changes(records []audit.Record) []string {
	var texts []string
	for _, r := range records {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s:", r.By, r.Action)
		for _, c := range r.Changes {
			fmt.Fprintf(&b, " %s %q->%q", c.Key, c.Old, c.New)
		}
		texts = append(texts, b.String())
	}
	return texts
}

const (
	legal      = declare.ProtectionPrefix + "legal"
	legalValue = `{"owner":"ada","reason":"contract"}`
)

func annotated(n namespace.Namespace, pairs ...string) namespace.Namespace {
	n = n.DeepCopy()
	for i := 0; i < len(pairs); i += 2 {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		if n.Annotations[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(n.Annotations, pairs[i])
		}
	}
	return n
}

func TestDeclarationsAreOnRecord(t *testing.T) {
	e := newEnv(t)
	ctx := audit.WithActor(t.Context(), "ada")
	n, err := e.Create(ctx, annotated(named("a"), legal, legalValue, "color", "red"))
	require.NoError(t, err)
	n, err = e.Update(ctx, annotated(n, "color", "blue")) // declares nothing
	require.NoError(t, err)
	n, err = e.Update(ctx, n) // changes nothing
	require.NoError(t, err)
	n, err = e.Update(audit.WithActor(ctx, "bob"), annotated(n, legal, "", declare.GraceAnnotation, "1h"))
	require.NoError(t, err)
	held, err := e.Delete(ctx, "a", anyVersion) // puts it on hold
	require.NoError(t, err)
	hold := held.Annotations[declare.HoldAnnotation]
	require.NotEmpty(t, hold)
	_, err = e.Restore(ctx, "a", anyVersion)
	require.NoError(t, err)
	later, err := e.DeleteAfter(ctx, "a", declare.Hold{Until: time.Now().Add(-time.Second), By: "ada"}, anyVersion)
	require.NoError(t, err)
	_, err = e.Delete(ctx, "a", anyVersion) // is due, and declares nothing
	require.NoError(t, err)

	records := e.records("a")
	require.Empty(t, cmp.Diff([]string{
		fmt.Sprintf("ada declared: %s %q->%q", legal, "", legalValue),
		fmt.Sprintf("bob declared: %s %q->%q %s %q->%q", declare.GraceAnnotation, "", "1h", legal, legalValue, ""),
		fmt.Sprintf("ada declared: %s %q->%q", declare.HoldAnnotation, "", hold),
		fmt.Sprintf("ada declared: %s %q->%q", declare.HoldAnnotation, hold, ""),
		fmt.Sprintf("ada declared: %s %q->%q", declare.HoldAnnotation, "", later.Annotations[declare.HoldAnnotation]),
	}, changes(records)))
	for _, r := range records {
		require.Equal(t, n.UID, r.UID)
	}
}

// The record is of the very commit, so that no watcher can see the one without the other.
func TestARecordIsOfTheSameCommit(t *testing.T) {
	e := newEnv(t)
	n := e.create("a")
	position := now(t, e.store)
	_, err := e.Update(e.ctx, annotated(n, legal, legalValue))
	require.NoError(t, err)
	for change, err := range e.store.Watch(e.ctx, "/registry/", position) {
		require.NoError(t, err)
		if change.Bookmark() {
			continue
		}
		require.Len(t, change.Events, 2)
		require.Equal(t, "/registry/namespaces/a", change.Events[0].Key)
		require.Contains(t, change.Events[1].Key, "/registry/.audit/a/")
		return
	}
}

// A user who may update one namespace can neither fill the store with records, nor
// displace the records of force, nor make a commit exceed the limits of the store.
func TestRecordsOfDeclarationsAreBounded(t *testing.T) {
	m, err := memory.New(&memory.Options{Limits: store.Limits{Operations: 16}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	e := newEnvOver(t, m)
	n := e.create("a")
	start := now(t, e.store)
	log, err := audit.New(e.store, nil)
	require.NoError(t, err)
	forcing, err := log.Write(e.ctx, audit.Record{Action: audit.Forcing, Namespace: "a", UID: n.UID, By: "ops", Reason: "stuck", Finalizers: []finalizer.Name{"kubernetes"}})
	require.NoError(t, err)
	long := make([]string, 0, 60)
	for i := range 30 {
		key, value, err := declare.Protection{Name: fmt.Sprintf("p%02d", i), Owner: "ops", Reason: strings.Repeat("x", 1000)}.Annotation()
		require.NoError(t, err)
		long = append(long, key, value)
	}
	kept := func() (count, size int) {
		page, err := e.store.List(e.ctx, store.Query{Prefix: "/registry/.audit/a/"})
		require.NoError(t, err)
		for _, entry := range page.Entries {
			size += len(entry.Key) + len(entry.Value)
		}
		return len(page.Entries) - 1, size // without the one of force
	}
	last := ""
	for i, more := range [][]string{nil, long} {
		for toggle := range 250 {
			last = fmt.Sprintf("%ds", i*1000+toggle)
			n.Annotations = nil
			n, err = e.Update(e.ctx, annotated(n, append([]string{declare.GraceAnnotation, last}, more[:len(more)*(toggle%2)]...)...))
			require.NoError(t, err)
		}
		count, size := kept()
		require.LessOrEqual(t, count, audit.MaxDeclared)
		require.LessOrEqual(t, size, audit.MaxDeclaredBytes+1000)
		require.Equal(t, more == nil, count == audit.MaxDeclared)
	}
	records := e.records("a")
	require.Contains(t, changes(records[len(records)-1:])[0], last)
	require.Equal(t, forcing.ID, records[0].ID)
	require.NoError(t, registrytest.Audit(e.ctx, e.store, "registry", start, e.revision()))
}

// A declaration that a plugin adds is recorded like any other.
func TestDeclarationsOfPluginsAreRecorded(t *testing.T) {
	e := admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
		if w.Itself != nil && w.Itself.Verb == registry.Create {
			w.Itself.New.Annotations = map[string]string{legal: legalValue}
		}
		return nil
	}))
	e.create("a")
	require.Len(t, e.records("a"), 1)
	_, err := e.DryRun().Create(e.ctx, named("b"))
	require.NoError(t, err)
	require.Empty(t, e.records("b"), "a dry run declares nothing")
}

// The last update of a namespace may take a declaration off together with the last
// finalizer (rule R1).
func TestR1_TheRecordOfAWriteThatRemoves(t *testing.T) {
	e := newEnv(t)
	n := named("a")
	n.Finalizers = n.Finalizers.With("example.com/own")
	n, err := e.Create(e.ctx, annotated(n, declare.GraceAnnotation, "0s"))
	require.NoError(t, err)
	e.terminate("a")
	e.release("a")
	n, err = e.Get(e.ctx, "a")
	require.NoError(t, err)
	n = annotated(n, declare.GraceAnnotation, "")
	n.Finalizers = n.Finalizers.Without("example.com/own")
	_, err = e.Update(e.ctx, n)
	require.NoError(t, err)
	_, err = e.Get(e.ctx, "a")
	require.ErrorIs(t, err, namespace.ErrNotFound)
	require.Len(t, e.records("a"), 2)
}

// Under unknown outcomes there is one record for each change that was made.
func TestRecordsUnderUnknownOutcomes(t *testing.T) {
	for _, kind := range []storetest.Kind{storetest.Lost, storetest.Landed} {
		inner, err := memory.New(nil)
		require.NoError(t, err)
		s, err := storetest.Inject(inner, func(a storetest.Attempt) storetest.Fault {
			if a.Method == "commit" && (a.N == 1 || a.N == 0 && kind == storetest.Landed) {
				return storetest.Fault{Kind: kind}
			}
			return storetest.Fault{}
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		e := newEnvOver(t, s)
		n, err := e.Create(e.ctx, annotated(named("a"), legal, legalValue))
		require.NoError(t, err)
		_, err = e.Update(e.ctx, annotated(n, legal, ""))
		require.NoError(t, err)
		require.Len(t, e.records("a"), 2, kind)
	}
}

// A store that leaves little room has shorter records, not fewer declarations.
func TestRecordsFitTheStoresLimits(t *testing.T) {
	s, err := memory.New(&memory.Options{Limits: store.Limits{Bytes: 3000}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, s)
	n := e.create("a")
	for i := range 3 {
		value := fmt.Sprintf(`{"owner":"ada","reason":"%s"}`, strings.Repeat("x", 900+i))
		n, err = e.Update(e.ctx, annotated(n, legal, value))
		require.NoError(t, err)
	}
	records := e.records("a")
	require.Len(t, records, 3)
	for _, r := range records {
		require.Contains(t, r.Changes[0].New, "bytes)")
	}
}

func TestALongActorIsCut(t *testing.T) {
	e := newEnv(t)
	ctx := audit.WithActor(t.Context(), strings.Repeat("é", audit.MaxBy)+"\xff")
	_, err := e.Create(ctx, annotated(named("a"), legal, legalValue))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("é", audit.MaxBy/2), e.records("a")[0].By)
}

// The name of the actor cannot prevent a deletion.
func TestGraceRecordsTheActor(t *testing.T) {
	e := newEnv(t)
	for i, tc := range []struct{ actor, by string }{
		{"", ""}, {"ada", "ada"}, {"a\nb\xff", "ab"}, {strings.Repeat("\x00", audit.MaxBy), ""}, {strings.Repeat("é", audit.MaxBy), strings.Repeat("é", 256)},
	} {
		name := fmt.Sprint("a", i)
		_, err := e.Create(t.Context(), annotated(named(name), declare.GraceAnnotation, "1h"))
		require.NoError(t, err)
		n, err := e.Delete(audit.WithActor(t.Context(), tc.actor), name, anyVersion)
		require.NoError(t, err)
		hold, held, err := declare.HoldOf(n.Meta)
		require.NoError(t, err)
		require.True(t, held)
		require.Equal(t, tc.by, hold.By)
	}
}
