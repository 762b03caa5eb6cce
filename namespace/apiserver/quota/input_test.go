package quota_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Clients cannot write the status.
func TestStatusIsReadOnly(t *testing.T) {
	e := newEnv(t)
	forged := json.RawMessage(`{"hard":{"configmaps":"100"},"used":{"configmaps":"0"}}`)
	o := limits("a", "configmaps", "1")
	o.Fields["status"] = forged
	_, err := e.content(quota.Resource).Create(e.ctx, space, o)
	require.NoError(t, err)
	require.NoError(t, e.create(configmaps, named("c")))
	want := `{"hard":{"configmaps":"1"},"used":{"configmaps":"1"}}`
	_, err = e.content(quota.Resource).Update(e.ctx, space, o)
	require.NoError(t, err)
	require.Equal(t, want, e.status("a"))
	_, err = e.content(quota.Resource).UpdateStatus(e.ctx, space, o)
	require.NoError(t, err)
	require.Equal(t, want, e.status("a"))
	requireError(t, e.create(configmaps, named("d")), namespace.ErrForbidden,
		`configmaps "d" is forbidden: exceeded quota: a, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`)
}

func TestDryRunChangesNothing(t *testing.T) {
	e := newEnv(t)
	e.limit("a", "configmaps", "1")
	before := revision(t, e.store)
	dry, err := e.DryRun().Content(configmaps)
	require.NoError(t, err)
	for range 3 {
		_, err = dry.Create(e.ctx, space, named("c"))
		require.NoError(t, err)
	}
	_, err = quota.Recount(e.ctx, e.DryRun(), space)
	require.NoError(t, err)
	require.Equal(t, before, revision(t, e.store))
	require.NoError(t, e.create(configmaps, named("c")))
	_, err = dry.Create(e.ctx, space, named("d"))
	require.ErrorIs(t, err, namespace.ErrForbidden)
	dryQuotas, err := e.DryRun().Content(quota.Resource)
	require.NoError(t, err)
	_, err = dryQuotas.Create(e.ctx, space, limits("b", "configmaps", "-1"))
	require.ErrorIs(t, err, namespace.ErrInvalid)
}

// R6: nothing can be created in a namespace that is not Active, and no quota keeps it from becoming
// empty.
func TestR6_TerminatingNamespace(t *testing.T) {
	e := newEnv(t)
	e.limit("a", "configmaps", "1", "example.com/size", "2")
	require.NoError(t, e.create(configmaps, named("held", "example.com/held")))
	require.NoError(t, e.create(widgets, widget("w", `{"size":1}`)))
	n, err := e.Delete(e.ctx, space, namespace.Preconditions{})
	require.NoError(t, err)
	require.ErrorIs(t, e.create(configmaps, named("c")), namespace.ErrTerminating)
	require.ErrorIs(t, e.create(quota.Resource, limits("b")), namespace.ErrTerminating)
	before := e.status("a")
	_, err = e.content(widgets).Update(e.ctx, space, widget("w", `{"size":9}`))
	require.NoError(t, err, "the quota does not limit updates in a terminating namespace")
	require.Equal(t, before, e.status("a"))
	_, err = e.content(quota.Resource).Update(e.ctx, space, limits("a", "configmaps", "5", "count/configmaps", "1"))
	require.NoError(t, err)
	changes, err := quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, changes)
	require.NoError(t, e.remove(configmaps, "held"))
	_, err = e.content(configmaps).Update(e.ctx, space, named("held"))
	require.NoError(t, err)
	d, err := e.Deleter(nil)
	require.NoError(t, err)
	_, err = d.Delete(e.ctx, deleter.Target{Namespace: space, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time}, deleter.Report{})
	require.NoError(t, err)
	_, err = e.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	_, err = e.Get(e.ctx, space)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	require.ErrorIs(t, e.create(configmaps, named("c")), namespace.ErrNotFound)
	require.False(t, errors.Is(e.create(configmaps, named("c")), namespace.ErrTerminating))
}

func TestBadInput(t *testing.T) {
	for name, rules := range map[string][]quota.Rule{
		"no type":     {{Sums: map[string]string{"a": "spec.a"}}},
		"no sums":     {{Resource: widgets}},
		"twice":       {rule, rule},
		"bad path":    {{Resource: widgets, Sums: map[string]string{"a": "spec."}}},
		"bad name":    {{Resource: widgets, Sums: map[string]string{"a b": "spec.a"}}},
		"empty name":  {{Resource: widgets, Sums: map[string]string{"": "spec.a"}}},
		"a count":     {{Resource: widgets, Sums: map[string]string{"count/widgets": "spec.a"}}},
		"a legacy":    {{Resource: widgets, Sums: map[string]string{"pods": "spec.a"}}},
		"invalid":     {{Resource: namespace.ResourceType{Name: "a/b"}, Sums: map[string]string{"a": "spec.a"}}},
		"not UTF-8":   {{Resource: widgets, Sums: map[string]string{"\xff": "spec.a"}}},
		"of metadata": {{Resource: widgets, Sums: map[string]string{"a": "metadata.generation"}}},
	} {
		_, err := quota.New(rules...)
		require.Error(t, err, name)
	}
	_, err := quota.New()
	require.NoError(t, err)

	e := newEnv(t)
	before := revision(t, e.store)
	for _, c := range []struct{ spec, text string }{
		{`{"hard":{"configmaps":"-1"}}`, `spec.hard[configmaps]: Invalid value: "-1": must be greater than or equal to 0`},
		{`{"hard":{"configmaps":"1.5"}}`, `spec.hard[configmaps]: Invalid value: "1.5": must be an integer`},
		{`{"hard":{"count/a.b":"1m"}}`, `spec.hard[count/a.b]: Invalid value: "1m": must be an integer`},
		{`{"hard":{"cpus":"1"}}`, `spec.hard[cpus]: Invalid value: "cpus": must be a standard resource for quota: the service has no rule for it`},
		{`{"hard":{"example.com/gpu":"1"}}`, `spec.hard[example.com/gpu]: Invalid value: "example.com/gpu": is not counted: the service has no rule for it`},
		{`{"hard":[]}`, `spec.hard: Invalid value: must be an object`},
		{`[]`, `spec.hard: Invalid value: spec must be an object`},
		{`{"hard":{},"scopes":["BestEffort"]}`, `spec.scopes: Forbidden: scopes are not supported: a quota counts all objects of its namespace`},
		{`{"hard":{},"scopeSelector":{"matchExpressions":[]}}`, `spec.scopeSelector: Forbidden: scopes are not supported: a quota counts all objects of its namespace`},
	} {
		o := registry.Object{Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(c.spec)}}
		requireError(t, e.create(quota.Resource, o), namespace.ErrInvalid, `ResourceQuota "q" is invalid: `+c.text)
	}
	for _, spec := range []string{
		`{"hard":{"configmaps":"x"}}`, `{"hard":{"configmaps":"1e1000000000"}}`, `{"hard":{"configmaps":{}}}`, `{"hard":{"configmaps":null}}`,
		`{"hard":{"count/":"1"}}`, `{"hard":{"count/a/b":"1"}}`, `{"hard":{"` + strings.Repeat("x", 300) + `":"1"}}`, `{"hard":{"services.nodeports":"1"}}`, `{"hard":"x"}`,
	} {
		o := registry.Object{Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec)}}
		require.ErrorIs(t, e.create(quota.Resource, o), namespace.ErrInvalid, "%.80s", spec)
	}
	for _, spec := range []string{`{"size":"x"}`, `{"size":-1}`, `{"size":[]}`, `"x"`, `{"parts":{}}`, `{"parts":[{"cpu":true}]}`, `{"size":"1e1000000000"}`} {
		require.ErrorIs(t, e.create(widgets, widget("w", spec)), namespace.ErrInvalid, spec)
	}
	requireError(t, e.create(widgets, widget("w", `{"size":"x"}`)), namespace.ErrInvalid,
		`Widget.example.com "w" is invalid: spec.size: Invalid value: "x": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`)
	require.Equal(t, before, revision(t, e.store))

	_, err = quota.Recount(e.ctx, e.Registry, "")
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, err = quota.Recount(e.ctx, e.Registry, "a/b")
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, err = e.content(namespace.ResourceType{Name: "nodes"}).Create(e.ctx, "", named("n"))
	require.NoError(t, err, "cluster-scoped objects are not counted")
}

// A malformed quota that bypassed the plug-in refuses increases, but not decreases, and can be
// deleted.
func TestMalformedQuota(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	require.NoError(t, e.create(configmaps, named("c")))
	require.NoError(t, openOver(t, s, false).create(quota.Resource, registry.Object{
		Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"hard":{"configmaps":{}}}`)},
	}))
	require.ErrorContains(t, e.create(configmaps, named("d")), "quota q is malformed: spec.hard[configmaps]")
	require.NoError(t, e.remove(configmaps, "c"))
	_, err := e.content(quota.Resource).Update(e.ctx, space, registry.Object{
		Meta: namespace.Meta{Name: "q", Labels: map[string]string{"a": "b"}}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"hard":{"configmaps":{}}}`)},
	})
	require.NoError(t, err, "an update may keep a malformed spec")
	require.NoError(t, e.remove(quota.Resource, "q"))
	require.NoError(t, e.create(configmaps, named("d")))
}
