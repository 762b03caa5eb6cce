package registry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var (
	documents = registry.ResourceType{Group: "example.com", Version: "v1", Resource: "documents", Kind: "Document", Namespaced: true}
	invoices  = registry.ResourceType{Group: "example.com", Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}
)

// version is one version of a service, which declares types of its own.
type version struct {
	*env
	deleter *deleter.Composed
	report  deleter.Report
}

func newVersion(t *testing.T, s store.Store, types ...registry.ResourceType) *version {
	t.Helper()
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	d, err := r.Deleter(nil)
	require.NoError(t, err)
	return &version{env: &env{Registry: r, t: t, ctx: t.Context(), store: s}, deleter: d}
}

func (v *version) pass(name string) (pass.Result, error) {
	result, err := pass.Run(v.ctx, v.Registry, v.deleter, namespace.Party{Finalizer: finalizer.Kubernetes},
		pass.Request{Name: name, Previous: v.report})
	v.report = result.Report
	return result, err
}

func (v *version) condition(name string, t phase.ConditionType) phase.Condition {
	v.t.Helper()
	n, err := v.Get(v.ctx, name)
	require.NoError(v.t, err)
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	v.t.Fatalf("%s has no condition %s", name, t)
	return phase.Condition{}
}

func (v *version) waive(name, source string) {
	v.t.Helper()
	n, err := v.Get(v.ctx, name)
	require.NoError(v.t, err)
	w := namespace.Waiver{Name: "upgrade", Source: source, By: "test", Reason: "invoices are gone", Until: time.Now().Add(time.Hour)}
	key, value, err := w.Annotation()
	require.NoError(v.t, err)
	n.Annotations = map[string]string{key: value}
	_, err = v.Update(v.ctx, n)
	require.NoError(v.t, err)
}

func versions(t *testing.T) (old, new *version, s store.Store) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
		require.NoError(t, s.Close())
	})
	return newVersion(t, s, documents), newVersion(t, s, documents, invoices), s
}

// A controller of an old version does not finalize a namespace that may hold content of a
// type that only the new version declares. Its conditions say why, and what to do.
func TestR7_UndeclaredTypeFailsClosed(t *testing.T) {
	old, new, _ := versions(t)
	new.create("acme")
	new.create("empty")
	new.put(documents.Name(), "acme", object("d"))
	new.put(invoices.Name(), "acme", object("i"))
	new.terminate("acme")
	new.terminate("empty")
	for range 2 {
		result, err := old.pass("acme")
		require.ErrorIs(t, err, deleter.ErrUndeclared)
		require.Equal(t, pass.Failed, result.Outcome)
		failed := old.condition("acme", phase.ContentFailure)
		require.Equal(t, phase.True, failed.Status)
		require.Equal(t, "Failed to delete all resource types, 1 remaining: invoices.example.com: another version of the service stored objects of this type, "+
			"and this process does not declare it; run a version that declares it, or retire the type once none of it is left", failed.Message)
		left := old.condition("acme", phase.ContentRemaining)
		require.Equal(t, phase.True, left.Status)
		require.Equal(t, "Some resources are remaining: invoices.example.com has 1 resource instances", left.Message)
	}
	old.report = deleter.Report{}
	_, err := old.pass("empty")
	require.ErrorIs(t, err, deleter.ErrUndeclared)
	require.Equal(t, phase.Unknown, old.condition("empty", phase.ContentRemaining).Status)

	for _, name := range []string{"acme", "empty"} {
		new.report = deleter.Report{}
		result, err := new.pass(name)
		require.NoError(t, err)
		require.Equal(t, pass.Removed, result.Outcome)
	}
}

// A party that deletes some of the declared types fails closed as well.
func TestR7_UndeclaredTypeFailsEveryParty(t *testing.T) {
	old, new, _ := versions(t)
	n := new.create("acme")
	new.put(invoices.Name(), "acme", object("i"))
	new.terminate("acme")
	d, err := old.Deleter(&registry.DeleterOptions{Types: []namespace.ResourceType{documents.Name()}})
	require.NoError(t, err)
	target := deleter.Target{Namespace: "acme", UID: n.UID, DeletedAt: time.Now()}
	report, err := d.Delete(t.Context(), target, deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrUndeclared)
	require.Equal(t, 1, report.Remaining())

	d, err = new.Deleter(&registry.DeleterOptions{Types: []namespace.ResourceType{documents.Name()}})
	require.NoError(t, err)
	report, err = d.Delete(t.Context(), target, deleter.Report{})
	require.NoError(t, err)
	require.True(t, report.Empty(), "another party of this process deletes invoices")
	_, err = new.pass("acme")
	require.NoError(t, err)
}

// A waiver lets a namespace without objects of the type go, and no other one.
func TestR7_WaiverOfAnUndeclaredType(t *testing.T) {
	old, new, _ := versions(t)
	for _, name := range []string{"acme", "empty"} {
		new.create(name)
	}
	new.put(invoices.Name(), "acme", object("i"))
	for _, name := range []string{"acme", "empty"} {
		new.terminate(name)
		old.waive(name, "invoices.example.com")
	}
	_, err := old.pass("acme")
	var unwaived *deleter.UnwaivedError
	require.ErrorAs(t, err, &unwaived)
	require.Equal(t, 1, unwaived.Objects)
	require.ErrorIs(t, err, deleter.ErrUndeclared)

	old.report = deleter.Report{}
	result, err := old.pass("empty")
	require.NoError(t, err)
	require.Equal(t, pass.Removed, result.Outcome)
	require.Len(t, result.Report.Waived, 1)

	new.report = deleter.Report{}
	_, err = new.pass("acme")
	require.NoError(t, err)
}

// If it cannot be read which types are stored, any type may be.
func TestR7_UnknownTypeRecords(t *testing.T) {
	_, new, s := versions(t)
	n := new.create("acme")
	new.terminate("acme")
	broken := newVersion(t, brokenList{s, "/registry/.types/"}, documents)
	result, err := broken.pass("acme")
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, pass.Failed, result.Outcome)
	require.Equal(t, phase.True, new.condition("acme", phase.DiscoveryFailure).Status)
	broken.waive("acme", "invoices.example.com")
	_, err = broken.pass("acme")
	require.ErrorIs(t, err, errEnough, "no waiver stands in for it")
	require.Equal(t, n.UID, result.Namespace.UID)
	_, err = new.pass("acme")
	require.NoError(t, err)
}

// brokenList is a store that cannot list below a prefix.
type brokenList struct {
	store.Store
	prefix string
}

func (s brokenList) List(ctx context.Context, q store.Query) (store.Page, error) {
	if q.Prefix == s.prefix {
		return store.Page{}, errEnough
	}
	return s.Store.List(ctx, q)
}
