package limitrange_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/limitrange"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const space = "acme"

var (
	pods    = namespace.ResourceType{Name: "pods"}
	claims  = namespace.ResourceType{Name: "persistentvolumeclaims"}
	widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}

	types = []registry.Type{
		{Version: "v1", Resource: "limitranges", Kind: "LimitRange", Namespaced: true},
		{Version: "v1", Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true},
		{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
		{Version: "v1", Resource: "nodes", Kind: "Node"},
	}
	rules = []limitrange.Rule{limitrange.Pods(), limitrange.PersistentVolumeClaims(), {
		Resource: widgets, Items: []string{"spec.parts[*]"}, Type: "example.com/Widget",
	}}
)

type env struct {
	*registry.Registry
	t   testing.TB
	ctx context.Context
}

func newEnv(t testing.TB) *env {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := openOver(t, s, rules...)
	_, err = e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	return e
}

func openOver(t testing.TB, s store.Store, rules ...limitrange.Rule) *env {
	var chain []registry.Admission
	if len(rules) > 0 {
		plugin, err := limitrange.New(rules...)
		require.NoError(t, err)
		chain = append(chain, plugin)
	}
	r, err := registry.New(s, &registry.Options{Types: types, Admission: chain})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
	})
	return &env{Registry: r, t: t, ctx: t.Context()}
}

func (e *env) content(resource namespace.ResourceType) *registry.Content {
	c, err := e.Content(resource)
	require.NoError(e.t, err)
	return c
}

func object(name, spec string) registry.Object {
	return registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec)}}
}

func (e *env) create(resource namespace.ResourceType, name, spec string) (registry.Object, error) {
	return e.content(resource).Create(e.ctx, space, object(name, spec))
}

func (e *env) limit(name, limits string) string {
	e.t.Helper()
	o, err := e.create(limitrange.Resource, name, `{"limits":`+limits+`}`)
	require.NoError(e.t, err)
	return string(o.Fields["spec"])
}

func TestContainerLimits(t *testing.T) {
	e := newEnv(t)
	e.limit("a", `[{"type":"Container","min":{"cpu":"100m"},"max":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"2"}}]`)
	for _, c := range []struct{ requests, limits, text string }{
		{`{"cpu":"500m"}`, `{"cpu":"1"}`, ""},
		{`{"cpu":"500m"}`, `{"cpu":1}`, ""},
		{`{"cpu":"1"}`, `{"cpu":"2"}`, "maximum cpu usage per Container is 1, but limit is 2"},
		{`{"cpu":"1"}`, `{"cpu":"1.001"}`, "maximum cpu usage per Container is 1, but limit is 1.001"},
		{`{"cpu":"2"}`, `{"cpu":"1"}`, "maximum cpu usage per Container is 1, but request is 2"},
		{`{"cpu":"50m"}`, `{"cpu":"100m"}`, "minimum cpu usage per Container is 100m, but request is 50m"},
		{`{"cpu":"100m"}`, `{"cpu":"50m"}`, "minimum cpu usage per Container is 100m, but limit is 50m"},
		{`{"cpu":"300m"}`, `{"cpu":"900m"}`, "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
		{`{"cpu":"0"}`, `{"cpu":"2"}`, "[minimum cpu usage per Container is 100m, but request is 0, maximum cpu usage per Container is 1, but limit is 2, " +
			"cpu max limit to request ratio per Container is 2, but no request is specified or request is 0]"},
		{`{"cpu":"100m"}`, `{"cpu":"0"}`, "[minimum cpu usage per Container is 100m, but limit is 0, " +
			"cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0]"},
	} {
		spec := `{"containers":[{"name":"c","resources":{"requests":` + c.requests + `,"limits":` + c.limits + `}}]}`
		_, err := e.create(pods, "p", spec)
		e.expect(err, pods, "p", c.text)
		_, err = e.create(pods, "p", strings.Replace(spec, "containers", "initContainers", 1))
		e.expect(err, pods, "p", c.text)
	}
}

// expect requires a refusal with the text. If the text is empty, it requires success and deletes
// the created object.
func (e *env) expect(err error, resource namespace.ResourceType, name, text string) {
	e.t.Helper()
	if text == "" {
		require.NoError(e.t, err)
		_, err = e.content(resource).Delete(e.ctx, space, name, namespace.Preconditions{})
		require.NoError(e.t, err)
		return
	}
	require.ErrorIs(e.t, err, namespace.ErrForbidden)
	require.EqualError(e.t, err, resource.String()+` "`+name+`" is forbidden: `+text)
}

func TestDefaults(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, `{"limits":[{"default":{"cpu":"2","memory":"1Gi"},"defaultRequest":{"cpu":"500m","memory":"1Gi"},"max":{"cpu":"2"},"min":{"memory":"1Mi"},"type":"Container"}]}`,
		e.limit("a", `[{"type":"Container","default":{"memory":"1Gi"},"defaultRequest":{"cpu":"500m"},"max":{"cpu":"2"},"min":{"memory":"1Mi"}}]`))
	e.limit("b", `[{"type":"Container","default":{"cpu":"1","example.com/x":"7"}}]`)
	o, err := e.create(pods, "p", `{"containers":[{"name":"c"},{"name":"d","resources":{"limits":{"cpu":"1"}}}],"initContainers":[{"resources":{"requests":{"cpu":"1","memory":"2Mi"}}}]}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"containers":[
		{"name":"c","resources":{"requests":{"cpu":"500m","memory":"1Gi","example.com/x":"7"},"limits":{"cpu":"2","memory":"1Gi","example.com/x":"7"}}},
		{"name":"d","resources":{"requests":{"cpu":"1","memory":"1Gi","example.com/x":"7"},"limits":{"cpu":"1","memory":"1Gi","example.com/x":"7"}}}],
		"initContainers":[{"resources":{"requests":{"cpu":"1","memory":"2Mi","example.com/x":"7"},"limits":{"cpu":"2","memory":"1Gi","example.com/x":"7"}}}]}`, string(o.Fields["spec"]))
	require.Equal(t, "LimitRanger plugin set: cpu, example.com/x, memory request for container c; cpu, example.com/x, memory limit for container c; "+
		"example.com/x, memory request for container d; example.com/x, memory limit for container d; "+
		"example.com/x request for init container spec.initContainers[0]; cpu, example.com/x, memory limit for init container spec.initContainers[0]",
		o.Annotations["kubernetes.io/limit-ranger"])
	require.Contains(t, string(o.Fields["spec"]), `"containers"`)

	o, err = e.create(widgets, "w", `{"parts":[],"other":1}`)
	require.NoError(t, err)
	require.Equal(t, `{"parts":[],"other":1}`, string(o.Fields["spec"]), "without items the spec is unchanged")
}

// The total is the sum of the items, or the greatest init item if that is greater.
func TestTotals(t *testing.T) {
	e := newEnv(t)
	e.limit("a", `[{"type":"Pod","min":{"cpu":"1"},"max":{"cpu":"2","memory":"1Gi"},"maxLimitRequestRatio":{"cpu":"1500m"}},{"type":"example.com/Widget","max":{"memory":"3"}}]`)
	item := func(request, limit string) string {
		return `{"resources":{"requests":{"cpu":"` + request + `","memory":"1"},"limits":{"cpu":"` + limit + `","memory":"1"}}}`
	}
	for _, c := range []struct{ containers, init, text string }{
		{item("500m", "750m") + `,` + item("500m", "750m"), ``, ""},
		{item("1", "1") + `,` + item("1", "1001m"), ``, "maximum cpu usage per Pod is 2, but limit is 2001m"},
		{item("300m", "400m") + `,` + item("300m", "400m"), ``, "minimum cpu usage per Pod is 1, but request is 600m"},
		{item("500m", "500m"), item("1", "1") + `,` + item("1", "1"), ""},
		{item("500m", "500m"), item("3", "3"), "maximum cpu usage per Pod is 2, but limit is 3"},
		{item("1", "1501m"), ``, "cpu max limit to request ratio per Pod is 1500m, but provided ratio is 1.501000"},
		{`{}`, ``, "[minimum cpu usage per Pod is 1.  No request is specified, maximum cpu usage per Pod is 2.  No limit is specified, " +
			"maximum memory usage per Pod is 1Gi.  No limit is specified, cpu max limit to request ratio per Pod is 1500m, but no request is specified or request is 0]"},
	} {
		_, err := e.create(pods, "p", `{"containers":[`+c.containers+`],"initContainers":[`+c.init+`]}`)
		e.expect(err, pods, "p", c.text)
	}
	_, err := e.create(widgets, "w", `{"parts":[{"resources":{"limits":{"memory":2}}},{"resources":{"limits":{"memory":"2"}}}]}`)
	e.expect(err, widgets, "w", "maximum memory usage per example.com/Widget is 3, but limit is 4")
	_, err = e.create(widgets, "w", `{"parts":[{"resources":{"limits":{"memory":2}}}]}`)
	require.NoError(t, err)
}

func TestOwnResources(t *testing.T) {
	e := newEnv(t)
	e.limit("a", `[{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"10Gi"},"maxLimitRequestRatio":{"storage":"2"}}]`)
	for _, c := range []struct{ resources, text string }{
		{`{"requests":{"storage":"5Gi"},"limits":{"storage":"6Gi"}}`, ""},
		{`{"requests":{"storage":"11Gi"},"limits":{"storage":"11Gi"}}`, "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi"},
		{`{"requests":{"storage":"6Gi"},"limits":{"storage":"11Gi"}}`, "maximum storage usage per PersistentVolumeClaim is 10Gi, but limit is 11Gi"},
		{`{"requests":{"storage":"512Mi"},"limits":{"storage":"1Gi"}}`, "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"},
		{`{"requests":{"storage":"1Gi"},"limits":{"storage":"4Gi"}}`, "storage max limit to request ratio per PersistentVolumeClaim is 2, but provided ratio is 4.000000"},
		{`{"limits":{"storage":"1Gi"}}`, "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, " +
			"maximum storage usage per PersistentVolumeClaim is 10Gi.  No request is specified, " +
			"storage max limit to request ratio per PersistentVolumeClaim is 2, but no request is specified or request is 0]"},
	} {
		_, err := e.create(claims, "c", `{"resources":`+c.resources+`}`)
		e.expect(err, claims, "c", c.text)
	}
	_, err := e.create(claims, "c", `{}`)
	require.ErrorIs(t, err, namespace.ErrForbidden)
}

// All LimitRanges apply. The refusal lists each violation once.
func TestSeveral(t *testing.T) {
	e := newEnv(t)
	e.limit("b", `[{"type":"Container","max":{"cpu":"1"}}]`)
	e.limit("a", `[{"type":"Container","max":{"cpu":"1","memory":"1"}}]`)
	_, err := e.create(pods, "p", `{"containers":[{"resources":{"limits":{"cpu":"2","memory":"2"}}},{"resources":{"limits":{"cpu":"2"}}}]}`)
	e.expect(err, pods, "p", "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1, but limit is 2]")
}

// An existing object can be updated as long as its resources do not change.
func TestUpdate(t *testing.T) {
	e := newEnv(t)
	spec := `{"containers":[{"resources":{"limits":{"cpu":"4"}}}]}`
	_, err := e.create(pods, "p", spec)
	require.NoError(t, err)
	held, err := e.content(pods).Create(e.ctx, space, func() registry.Object {
		o := object("held", spec)
		o.Finalizers = finalizer.NewSet("example.com/held")
		return o
	}())
	require.NoError(t, err)
	e.limit("a", `[{"type":"Container","max":{"cpu":"2"}}]`)
	o := object("p", spec)
	o.Labels = map[string]string{"a": "b"}
	_, err = e.content(pods).Update(e.ctx, space, o)
	require.NoError(t, err)
	_, err = e.content(pods).Update(e.ctx, space, object("p", strings.Replace(spec, "4", "3", 1)))
	require.EqualError(t, err, `pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3`)
	_, err = e.content(pods).Update(e.ctx, space, object("p", strings.Replace(spec, "4", "2", 1)))
	require.NoError(t, err)
	_, err = e.content(pods).Delete(e.ctx, space, "held", namespace.Preconditions{UID: held.UID})
	require.NoError(t, err)
	o = object("held", strings.Replace(spec, "4", "5", 1))
	o.Finalizers = held.Finalizers
	_, err = e.content(pods).Update(e.ctx, space, o)
	require.NoError(t, err, "limits do not apply to an object that is being deleted")
	_, err = e.content(limitrange.Resource).Delete(e.ctx, space, "a", namespace.Preconditions{})
	require.NoError(t, err)
	_, err = e.create(pods, "q", spec)
	require.NoError(t, err)
}

func TestDryRun(t *testing.T) {
	e := newEnv(t)
	e.limit("a", `[{"type":"Container","max":{"cpu":"2"}}]`)
	dry, err := e.DryRun().Content(pods)
	require.NoError(t, err)
	o, err := dry.Create(e.ctx, space, object("p", `{"containers":[{}]}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"containers":[{"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"2"}}}]}`, string(o.Fields["spec"]))
	_, err = dry.Create(e.ctx, space, object("p", `{"containers":[{"resources":{"limits":{"cpu":"3"}}}]}`))
	require.ErrorIs(t, err, namespace.ErrForbidden)
	_, err = e.content(pods).Get(e.ctx, space, "p")
	require.ErrorIs(t, err, namespace.ErrNotFound)
}

// The refusal of a LimitRange lists all violations with their paths.
func TestValidation(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct{ limits, text string }{
		{`[{"type":"Container","min":{"cpu":"2"},"max":{"cpu":"1"},"default":{"cpu":"2"},"defaultRequest":{"cpu":"2"}}]`,
			`[spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1, ` +
				`spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1, ` +
				`spec.limits[0].default[cpu]: Invalid value: "2": default value 2 is greater than max value 1]`},
		{`[{"type":"Container","min":{"cpu":"2"},"default":{"cpu":"1"},"defaultRequest":{"cpu":"1500m"}}]`,
			`[spec.limits[0].defaultRequest[cpu]: Invalid value: "1500m": min value 2 is greater than default request value 1500m, ` +
				`spec.limits[0].defaultRequest[cpu]: Invalid value: "1500m": default request value 1500m is greater than default limit value 1, ` +
				`spec.limits[0].default[cpu]: Invalid value: "1": min value 2 is greater than default value 1]`},
		{`[{"type":"Container"},{"type":"Container"}]`, `spec.limits[1].type: Duplicate value: "Container"`},
		{`[{"type":"Thing"}]`, `spec.limits[0].type: Invalid value: "Thing": must be a standard limit type or fully qualified`},
		{`[{"type":"Pod","default":{"cpu":"1"},"defaultRequest":{"cpu":"1"}}]`,
			"[spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod', spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod']"},
		{`[{"type":"PersistentVolumeClaim"}]`, `spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided`},
		{`[{"type":"Pod","maxLimitRequestRatio":{"cpu":"500m"}}]`, `spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1`},
		{`[{"type":"Pod","min":{"cpu":"1"},"max":{"cpu":"3"},"maxLimitRequestRatio":{"cpu":"4"}}]`,
			`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "4": ratio 4 is greater than max/min = 3.000000`},
		{`[{"type":"Pod","max":{"cpus":"1"}}]`, `spec.limits[0].max[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified`},
		{`[{"type":"Pod","max":{"cpu":"-1"}}]`, `spec.limits[0].max[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
		{`[{"type":"Pod","max":[]}]`, `spec.limits[0].max: Invalid value: must be an object`},
		{`[1]`, `spec.limits[0]: Invalid value: must be an object`},
		{`{}`, `spec.limits: Invalid value: must be a list of objects`},
	} {
		_, err := e.create(limitrange.Resource, "l", `{"limits":`+c.limits+`}`)
		require.ErrorIs(t, err, namespace.ErrInvalid, c.limits)
		require.EqualError(t, err, `LimitRange "l" is invalid: `+c.text)
	}
	e.limit("l", `[{"type":"Pod","min":{"cpu":"1"},"max":{"cpu":"3"},"maxLimitRequestRatio":{"cpu":"3"}}]`)
	_, err := e.content(limitrange.Resource).Update(e.ctx, space, object("l", `{"limits":[{"type":""}]}`))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = e.content(limitrange.Resource).Update(e.ctx, space, object("l", `{"limits":[]}`))
	require.NoError(t, err)
}

func TestBadInput(t *testing.T) {
	for name, rules := range map[string][]limitrange.Rule{
		"no type":         {{Items: []string{"spec.a[*]"}}},
		"nothing":         {{Resource: widgets}},
		"twice":           {limitrange.Pods(), limitrange.Pods()},
		"bad path":        {{Resource: widgets, Items: []string{"spec["}}},
		"bad init":        {{Resource: widgets, Items: []string{"spec[*]"}, Init: []string{""}}},
		"bad resources":   {{Resource: widgets, Resources: "metadata.x", Type: "Pod"}},
		"resources alone": {{Resource: widgets, Resources: "spec.resources"}},
		"type Container":  {{Resource: widgets, Items: []string{"spec.a[*]"}, Type: "Container"}},
		"unqualified":     {{Resource: widgets, Items: []string{"spec.a[*]"}, Type: "Widget"}},
		"not UTF-8":       {{Resource: widgets, Items: []string{"spec.a[*]"}, Type: "a/\xff"}},
	} {
		_, err := limitrange.New(rules...)
		require.Error(t, err, name)
	}
	_, err := limitrange.New()
	require.NoError(t, err)

	e := newEnv(t)
	e.limit("a", `[{"type":"Container","default":{"cpu":"1"}}]`)
	for _, c := range []struct{ spec, text string }{
		{`[]`, `spec: Invalid value: must be an object`},
		{`{"containers":{}}`, `spec.containers: Invalid value: must be a list`},
		{`{"containers":["x"]}`, `spec.containers[0]: Invalid value: must be an object`},
		{`{"containers":[{"resources":1}]}`, `spec.containers[0].resources: Invalid value: must be an object`},
		{`{"containers":[{"resources":{"limits":[]}}]}`, `spec.containers[0].resources.limits: Invalid value: must be an object`},
		{`{"containers":[{"resources":{"limits":{"cpu":"-1"}}}]}`, `spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
	} {
		_, err := e.create(pods, "p", c.spec)
		require.ErrorIs(t, err, namespace.ErrInvalid, c.spec)
		require.ErrorContains(t, err, `Pod "p" is invalid: `)
		require.ErrorContains(t, err, c.text)
	}
	_, err = e.create(widgets, "w", `{"parts":[{"resources":{"requests":{"cpu":"1e1000000000"}}}]}`)
	require.ErrorContains(t, err, `Widget.example.com "w" is invalid: spec.parts[0].resources.requests[cpu]: Invalid value: "1e1000000000"`)
	_, err = e.create(namespace.ResourceType{Name: "configmaps"}, "c", `[]`)
	require.NoError(t, err, "no rule")
	_, err = e.content(namespace.ResourceType{Name: "nodes"}).Create(e.ctx, "", object("n", `{}`))
	require.NoError(t, err, "cluster-scoped")
}

// The valid parts of a LimitRange that bypassed the plug-in apply.
func TestMalformedLimitRange(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	past := openOver(t, s)
	_, err = past.Create(past.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	past.limit("a", `[7,{"type":"Container","max":{"cpu":"x","memory":"1"}}]`)
	past.limit("b", `{}`)
	e := openOver(t, s, rules...)
	_, err = e.create(pods, "p", `{"containers":[{"resources":{"limits":{"cpu":"4","memory":"2"}}}]}`)
	e.expect(err, pods, "p", "maximum memory usage per Container is 1, but limit is 2")
}

// FuzzAdmit checks that the plug-in returns no error other than a typed refusal, and that it accepts
// the objects that it completed.
func FuzzAdmit(f *testing.F) {
	f.Add(`{"limits":[{"type":"Container","default":{"cpu":"1"},"max":{"cpu":2},"maxLimitRequestRatio":{"cpu":"1.5"}}]}`, `{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}`)
	f.Add(`{"limits":[{"type":"Pod","min":{"memory":"1Gi"}}]}`, `{"initContainers":[{"resources":null}],"containers":[null]}`)
	f.Fuzz(func(t *testing.T, limits, spec string) {
		e := newEnv(t)
		for _, c := range []struct {
			resource namespace.ResourceType
			spec     string
		}{{limitrange.Resource, limits}, {pods, spec}, {claims, spec}} {
			made, err := e.create(c.resource, "a", c.spec)
			if err == nil {
				made.Meta = namespace.Meta{Name: "again"}
				if _, err := e.content(c.resource).Create(e.ctx, space, made); err != nil {
					t.Fatalf("the plug-in refuses an object that it completed: %v", err)
				}
				continue
			}
			if typed := (*namespace.Error)(nil); !errors.As(err, &typed) {
				t.Fatal(err)
			}
		}
	})
}
