package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// badNames cannot be segments of a key.
var badNames = []string{
	"", ".", "..", ".gate", "a/b", "/", "../x", "a%2fb", "a\x00b", "a\nb", "\xff", "a\x7f", strings.Repeat("a", 254), strings.Repeat("é/", 1<<20),
}

// badNewNames can be segments of a key, but no names of new namespaces.
var badNewNames = []string{"A", "-a", "a-", "a_b", "a.b", "ä", strings.Repeat("a", 64)}

// requireRefused holds that a call is refused with a typed error of one of the kinds.
func requireRefused(t *testing.T, err error, what string, kinds ...error) {
	t.Helper()
	require.Error(t, err, what)
	var typed *namespace.Error
	require.ErrorAs(t, err, &typed, what)
	require.LessOrEqual(t, len(err.Error()), 16<<10, what)
	for _, kind := range kinds {
		if typed.Kind == kind {
			return
		}
	}
	t.Errorf("%s: the error %v is of none of the kinds %v", what, err, kinds)
}

// last runs a watch, and returns the error that ends it.
func last[T any](watch iter.Seq2[T, error]) error {
	var last error
	for _, err := range watch {
		last = err
	}
	return last
}

func TestBadInput(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(widgets, "x", object("a"))
	n := e.terminate("x")
	e.create("y")
	e.put(widgets, "y", object("a"))
	before := e.revision()
	t.Run("names", func(t *testing.T) { badNamesEverywhere(t, e) })
	t.Run("namespaces", func(t *testing.T) { badNamespaces(t, e) })
	t.Run("objects", func(t *testing.T) { badObjects(t, e) })
	t.Run("options", func(t *testing.T) { badListsAndWatches(t, e) })
	t.Run("source", func(t *testing.T) { badTargets(t, e, n) })
	t.Run("context", func(t *testing.T) { endedContexts(t, e, n) })
	require.Equal(t, before, e.revision(), "nothing was changed")
}

func badNamesEverywhere(t *testing.T, e *env) {
	w := e.content(widgets)
	for _, name := range badNames {
		what := fmt.Sprintf("%.20q", name)
		bad := []error{namespace.ErrBadRequest, namespace.ErrInvalid}
		_, err := e.Get(e.ctx, name)
		requireRefused(t, err, what, bad...)
		_, err = e.Create(e.ctx, named(name))
		requireRefused(t, err, what, bad...)
		for _, write := range writes(e) {
			_, err = write(e.ctx, named(name))
			requireRefused(t, err, what, bad...)
		}
		_, err = e.Delete(e.ctx, name, anyVersion)
		requireRefused(t, err, what, bad...)
		_, err = w.Get(e.ctx, "y", name)
		requireRefused(t, err, what, bad...)
		_, err = w.Get(e.ctx, name, "a")
		requireRefused(t, err, what, bad...)
		_, err = w.Create(e.ctx, "y", object(name))
		requireRefused(t, err, what, bad...)
		_, err = w.Create(e.ctx, name, object("b"))
		requireRefused(t, err, what, bad...)
		_, err = w.Update(e.ctx, "y", object(name))
		requireRefused(t, err, what, bad...)
		_, err = w.Update(e.ctx, name, object("a"))
		requireRefused(t, err, what, bad...)
		_, err = w.Delete(e.ctx, "y", name, anyVersion)
		requireRefused(t, err, what, bad...)
		_, err = w.Delete(e.ctx, name, "a", anyVersion)
		requireRefused(t, err, what, bad...)
		_, err = w.DeleteCollection(e.ctx, name, labels(t, ""), fields(t, ""))
		requireRefused(t, err, what, bad...)
		_, err = e.Content(namespace.ResourceType{Name: name})
		requireRefused(t, err, what, namespace.ErrNotFound)
		if name == "" {
			continue // all namespaces
		}
		_, err = w.List(e.ctx, name, registry.ListOptions{})
		requireRefused(t, err, what, bad...)
		requireRefused(t, last(w.Watch(e.ctx, name, registry.WatchOptions{})), what, bad...)
		prefixed := namespace.Namespace{Meta: namespace.Meta{GenerateName: name}}
		if len(name) < 200 { // a longer one is cut
			_, err = e.Create(e.ctx, prefixed)
			requireRefused(t, err, what, bad...)
		}
	}
	for _, name := range badNewNames {
		_, err := e.Create(e.ctx, named(name))
		requireRefused(t, err, name, namespace.ErrInvalid)
	}
}

func badNamespaces(t *testing.T, e *env) {
	for what, change := range map[string]func(n *namespace.Namespace){
		"label":       func(n *namespace.Namespace) { n.Labels = map[string]string{"a b": "c"} },
		"label value": func(n *namespace.Namespace) { n.Labels = map[string]string{"a": "\xff"} },
		"annotation":  func(n *namespace.Namespace) { n.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20)} },
		"finalizer":   func(n *namespace.Namespace) { n.Finalizers = finalizer.NewSet("x") },
		"namespace":   func(n *namespace.Namespace) { n.Meta.Namespace = "y" },
		"owner":       func(n *namespace.Namespace) { n.OwnerReferences = make([]namespace.OwnerReference, 1) },
		"kind":        func(n *namespace.Namespace) { n.Kind = "Pod" },
	} {
		for _, name := range []string{"new", "y"} {
			bad := named(name)
			change(&bad)
			_, err := e.Create(e.ctx, bad)
			requireRefused(t, err, what, namespace.ErrInvalid, namespace.ErrBadRequest)
			if name == "y" {
				_, err = e.Update(e.ctx, bad)
				requireRefused(t, err, what, namespace.ErrInvalid, namespace.ErrBadRequest)
			}
		}
	}
	for _, bad := range []finalizer.Name{"", "x", "a/b/c", "\xff/x", finalizer.Name(strings.Repeat("a", 1<<20))} {
		_, err := e.Finalize(e.ctx, named("y", bad))
		requireRefused(t, err, "finalizer", namespace.ErrInvalid)
		_, err = e.Create(e.ctx, named("new", bad))
		requireRefused(t, err, "finalizer", namespace.ErrInvalid)
	}
	for _, version := range []string{"x", "-1", "+1", "1.5", "\xff", strings.Repeat("9", 30)} {
		bad := named("y")
		bad.ResourceVersion = version
		for _, write := range writes(e) {
			_, err := write(e.ctx, bad)
			requireRefused(t, err, version, namespace.ErrBadRequest)
		}
		_, err := e.Delete(e.ctx, "y", namespace.Preconditions{ResourceVersion: version})
		requireRefused(t, err, version, namespace.ErrBadRequest)
		_, err = e.content(widgets).Delete(e.ctx, "y", "a", namespace.Preconditions{ResourceVersion: version})
		requireRefused(t, err, version, namespace.ErrBadRequest)
	}
}

func badObjects(t *testing.T, e *env) {
	w := e.content(widgets)
	for what, change := range map[string]func(o *registry.Object){
		"label":      func(o *registry.Object) { o.Labels = map[string]string{"a b": "c"} },
		"finalizer":  func(o *registry.Object) { o.Finalizers = finalizer.NewSet("x") },
		"nil value":  func(o *registry.Object) { o.Fields["a"] = nil },
		"not JSON":   func(o *registry.Object) { o.Fields["a"] = json.RawMessage(`{"a":`) },
		"two values": func(o *registry.Object) { o.Fields["a"] = json.RawMessage(`1 2`) },
		"not UTF-8":  func(o *registry.Object) { o.Fields["a"] = json.RawMessage("\"\xff\"") },
		"field name": func(o *registry.Object) { o.Fields["\xff"] = json.RawMessage(`1`) },
		"reserved":   func(o *registry.Object) { o.Fields["metadata"] = json.RawMessage(`{}`) },
		"too large": func(o *registry.Object) {
			o.Fields["a"] = json.RawMessage(strings.Repeat(" ", registry.MaxObject) + "1")
		},
		"large whole": func(o *registry.Object) { half(o, "a"); half(o, "b") },
		"too deep":    func(o *registry.Object) { o.Fields["a"] = json.RawMessage(strings.Repeat("[", 1<<20)) },
	} {
		bad := object("new")
		change(&bad)
		_, err := w.Create(e.ctx, "y", bad)
		requireRefused(t, err, what, namespace.ErrInvalid)
		bad.Name = "a"
		_, err = w.Update(e.ctx, "y", bad)
		requireRefused(t, err, what, namespace.ErrInvalid)
	}
}

// half fills half of an object.
func half(o *registry.Object, name string) {
	o.Fields[name] = json.RawMessage(`"` + strings.Repeat("x", registry.MaxObject/2) + `"`)
}

func badListsAndWatches(t *testing.T, e *env) {
	w := e.content(widgets)
	good, err := w.List(e.ctx, "", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, good.Continue)
	for what, o := range map[string]registry.ListOptions{
		"limit":       {Limit: -1},
		"continue":    {Continue: "x"},
		"huge":        {Continue: strings.Repeat("A", 1<<20)},
		"not UTF-8":   {Continue: "\xff"},
		"both":        {Continue: good.Continue, ResourceVersion: "1"},
		"version":     {ResourceVersion: "x"},
		"negative":    {ResourceVersion: "-1"},
		"exact":       {Exact: true},
		"exact 0":     {Exact: true, ResourceVersion: "0"},
		"the future":  {ResourceVersion: fmt.Sprint(1 << 60)},
		"exact ahead": {ResourceVersion: fmt.Sprint(1 << 60), Exact: true},
		"field":       {Fields: fields(t, "unknown=1")},
	} {
		_, err := e.List(e.ctx, o)
		requireRefused(t, err, what, namespace.ErrBadRequest)
		_, err = w.List(e.ctx, "y", o)
		requireRefused(t, err, what, namespace.ErrBadRequest)
	}
	for what, o := range map[string]registry.WatchOptions{
		"version": {ResourceVersion: "x"}, "future": {ResourceVersion: fmt.Sprint(1 << 60)}, "field": {Fields: fields(t, "unknown=1")},
	} {
		requireRefused(t, last(e.Watch(e.ctx, o)), what, namespace.ErrBadRequest)
		requireRefused(t, last(w.Watch(e.ctx, "y", o)), what, namespace.ErrBadRequest)
	}
	_, err = w.DeleteCollection(e.ctx, "y", labels(t, ""), fields(t, "unknown=1"))
	requireRefused(t, err, "field", namespace.ErrBadRequest)
	requireRefused(t, last(e.Terminating(e.ctx, "x")), "token", namespace.ErrBadRequest)
}

func badTargets(t *testing.T, e *env, n namespace.Namespace) {
	source := e.source()
	wait := source.(deleter.Notifier).Wait
	good := targetOf(n)
	for what, change := range map[string]func(target *deleter.Target){
		"no namespace": func(target *deleter.Target) { target.Namespace = "" },
		"no uid":       func(target *deleter.Target) { target.UID = "" },
		"no time":      func(target *deleter.Target) { target.DeletedAt = time.Time{} },
		"path":         func(target *deleter.Target) { target.Namespace = "../x" },
		"hidden":       func(target *deleter.Target) { target.Namespace = ".gate" },
		"huge":         func(target *deleter.Target) { target.Namespace = strings.Repeat("a", 1<<20) },
		"not UTF-8":    func(target *deleter.Target) { target.Namespace = "\xff" },
	} {
		bad := good
		change(&bad)
		_, err := source.List(e.ctx, bad, 0, "")
		require.ErrorIs(t, err, deleter.ErrInvalid, what)
		require.ErrorIs(t, source.Delete(e.ctx, bad, "a", ""), deleter.ErrInvalid, what)
		_, _, err = source.DeleteCollection(e.ctx, bad)
		require.ErrorIs(t, err, deleter.ErrInvalid, what)
		require.ErrorIs(t, wait(e.ctx, bad, ""), deleter.ErrInvalid, what)
	}
	_, err := source.List(e.ctx, good, -1, "")
	require.ErrorIs(t, err, deleter.ErrInvalid)
	for _, token := range []string{"x", "\xff", strings.Repeat("A", 1<<20)} {
		_, err = source.List(e.ctx, good, 0, token)
		require.ErrorIs(t, err, deleter.ErrInvalid)
		require.ErrorIs(t, wait(e.ctx, good, token), deleter.ErrInvalid)
	}
	for _, name := range badNames {
		require.ErrorIs(t, source.Delete(e.ctx, good, name, ""), deleter.ErrInvalid)
	}
}

// A context that has ended before the call: its cause, and nothing is begun.
func endedContexts(t *testing.T, e *env, n namespace.Namespace) {
	cause := fmt.Errorf("the caller went home")
	ctx, cancel := context.WithCancelCause(e.ctx)
	cancel(cause)
	ended := *e
	ended.ctx = ctx
	for _, op := range operations() {
		if op.name == "pass deletes" || op.name == "pass deletes collection" {
			continue // they read the target first
		}
		err := op.do(&ended)
		require.Error(t, err, op.name)
		require.True(t, errors.Is(err, cause) || errors.Is(err, context.Canceled), "%s: %v", op.name, err)
	}
	w := e.content(widgets)
	source := e.source()
	_, get := w.Get(ctx, "y", "a")
	_, list := w.List(ctx, "y", registry.ListOptions{})
	_, lists := e.List(ctx, registry.ListOptions{})
	_, page := source.List(ctx, targetOf(n), 0, "")
	_, _, collection := source.DeleteCollection(ctx, targetOf(n))
	for what, err := range map[string]error{
		"get": get, "list": list, "namespaces": lists, "page": page, "collection": collection,
		"delete":  source.Delete(ctx, targetOf(n), "a", ""),
		"wait":    source.(deleter.Notifier).Wait(ctx, targetOf(n), ""),
		"watch":   last(w.Watch(ctx, "y", registry.WatchOptions{})),
		"watches": last(e.Watch(ctx, registry.WatchOptions{})), "terminating": last(e.Terminating(ctx, "")),
	} {
		require.Error(t, err, what)
		require.True(t, errors.Is(err, cause) || errors.Is(err, context.Canceled), "%s: %v", what, err)
	}
}

func TestBadOptions(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	good := registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"}
	typed := func(change func(t *registry.Type)) *registry.Options {
		bad := good
		change(&bad)
		return &registry.Options{Types: []registry.Type{bad}}
	}
	for what, o := range map[string]*registry.Options{
		"prefix":           {Prefix: "a//b"},
		"slash":            {Prefix: "/registry"},
		"dots":             {Prefix: "a/.."},
		"hidden":           {Prefix: ".gate"},
		"not UTF-8":        {Prefix: "\xff"},
		"huge":             {Prefix: strings.Repeat("a", 1<<20)},
		"finalizer":        {Finalizer: "host"},
		"immortal":         {Immortal: []string{"a/b"}},
		"queue":            {WatchQueue: -1},
		"twice":            {Types: []registry.Type{good, good}},
		"finalize":         typed(func(t *registry.Type) { t.Resource = "finalize" }),
		"namespaces":       typed(func(t *registry.Type) { t.Group, t.Resource = "", "namespaces" }),
		"resource":         typed(func(t *registry.Type) { t.Resource = "" }),
		"resource path":    typed(func(t *registry.Type) { t.Resource = "a/b" }),
		"resource dots":    typed(func(t *registry.Type) { t.Resource = "a.b" }),
		"resource case":    typed(func(t *registry.Type) { t.Resource = "Widgets" }),
		"resource hidden":  typed(func(t *registry.Type) { t.Resource = ".gate" }),
		"group":            typed(func(t *registry.Type) { t.Group = "a/b" }),
		"group huge":       typed(func(t *registry.Type) { t.Group = strings.Repeat("a.", 126) + "a" }),
		"version":          typed(func(t *registry.Type) { t.Version = "" }),
		"kind":             typed(func(t *registry.Type) { t.Kind = "" }),
		"kind path":        typed(func(t *registry.Type) { t.Kind = "A/B" }),
		"field":            typed(func(t *registry.Type) { t.Fields = []string{""} }),
		"field dots":       typed(func(t *registry.Type) { t.Fields = []string{"spec..a"} }),
		"field end":        typed(func(t *registry.Type) { t.Fields = []string{"spec."} }),
		"field list":       typed(func(t *registry.Type) { t.Fields = []string{"spec.a[0]"} }),
		"field spaces":     typed(func(t *registry.Type) { t.Fields = []string{"spec.a b"} }),
		"field digit":      typed(func(t *registry.Type) { t.Fields = []string{"spec.0"} }),
		"field operator":   typed(func(t *registry.Type) { t.Fields = []string{"spec.a=b"} }),
		"field not UTF-8":  typed(func(t *registry.Type) { t.Fields = []string{"spec.\xff"} }),
		"field huge":       typed(func(t *registry.Type) { t.Fields = []string{strings.Repeat("a.", 1<<19) + "a"} }),
		"field twice":      typed(func(t *registry.Type) { t.Fields = []string{"type", "type"} }),
		"field of all":     typed(func(t *registry.Type) { t.Fields = []string{"metadata.name"} }),
		"field metadata":   typed(func(t *registry.Type) { t.Fields = []string{"metadata.uid"} }),
		"field kind":       typed(func(t *registry.Type) { t.Fields = []string{"kind"} }),
		"nil plugin":       {Admission: []registry.Admission{nil}},
		"typed nil plugin": {Admission: []registry.Admission{plugin(nil), nil}},
	} {
		_, err := registry.New(s, o)
		requireRefused(t, err, what, namespace.ErrInvalid)
	}
	_, err = registry.New(nil, nil)
	requireRefused(t, err, "store", namespace.ErrInvalid)
	_, err = registry.New(s, &registry.Options{Types: []registry.Type{{Group: "example.com", Version: "v1", Resource: "namespaces", Kind: "Namespace"}}})
	require.NoError(t, err, "in another group the name is free")
}

// Foreign entries in the store are errors.
func TestForeignEntries(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	w, err := r.Content(widgets)
	require.NoError(t, err)
	for _, value := range []string{"", "{", "null", "[]", `{"metadata":{"uid":1}}`, "\xff", `{"metadata":"`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{1:2}`, `{"a":}`} {
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{
			store.Put("/registry/namespaces/x", []byte(value)), store.Put("/registry/widgets.example.com/x/a", []byte(value)),
			store.Put("/registry/.terminating/x", []byte("u")),
		}})
		require.NoError(t, err)
		if value != "null" { // a null namespace is an empty document
			_, err = r.Get(t.Context(), "x")
			require.Error(t, err, value)
			_, err = r.List(t.Context(), registry.ListOptions{})
			require.Error(t, err, value)
			_, err = r.Delete(t.Context(), "x", anyVersion)
			require.Error(t, err, value)
		}
		_, err = w.Get(t.Context(), "x", "a")
		require.Error(t, err, value)
		_, err = w.List(t.Context(), "x", registry.ListOptions{})
		require.Error(t, err, value)
		_, err = w.Update(t.Context(), "x", object("a"))
		require.Error(t, err, value)
		require.Error(t, registrytest.Check(t.Context(), s, "registry"))
	}
}
