package manifests_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

const space = "node-7"

var (
	configmaps = namespace.ResourceType{Name: "configmaps"}
	widgets    = namespace.ResourceType{Group: "example.com", Name: "widgets"}

	types = []registry.Type{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true},
		{Version: "v1", Resource: "nodes", Kind: "Node"},
	}
)

type env struct {
	*registry.Registry
	t     testing.TB
	ctx   context.Context
	store store.Store
	start store.Position
}

func newEnv(t testing.TB, chain ...registry.Admission) *env {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r, err := registry.New(s, &registry.Options{Types: types, Admission: chain})
	require.NoError(t, err)
	e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
	e.start = e.position()
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
	})
	return e
}

func (e *env) position() store.Position {
	page, err := e.store.List(context.WithoutCancel(e.t.Context()), store.Query{Prefix: "/", Limit: 1})
	require.NoError(e.t, err)
	return page.Position
}

func (e *env) space() *env {
	_, err := e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(e.t, err)
	return e
}

func (e *env) content(resource namespace.ResourceType) *registry.Content {
	c, err := e.Content(resource)
	require.NoError(e.t, err)
	return c
}

// all returns the objects as `configmaps/a {"v":"1"}`, with the field data or spec.
func (e *env) all() []string {
	e.t.Helper()
	out := []string{}
	for _, resource := range []namespace.ResourceType{configmaps, widgets} {
		list, err := e.content(resource).List(e.ctx, space, registry.ListOptions{})
		require.NoError(e.t, err)
		for _, o := range list.Items {
			out = append(out, fmt.Sprintf("%s/%s %s%s", resource, o.Name, o.Fields["data"], o.Fields["spec"]))
		}
	}
	return out
}

func (e *env) get(resource namespace.ResourceType, name string) registry.Object {
	e.t.Helper()
	o, err := e.content(resource).Get(e.ctx, space, name)
	require.NoError(e.t, err)
	return o
}

func (e *env) syncer(src manifests.Source, o *manifests.Options) *manifests.Syncer {
	e.t.Helper()
	s, err := manifests.New(e.Registry, space, src, o)
	require.NoError(e.t, err)
	return s
}

// sync requires a sync without an error.
func (e *env) sync(s *manifests.Syncer) manifests.Result {
	e.t.Helper()
	result, err := s.Sync(e.ctx)
	require.NoError(e.t, err)
	return result
}

// folder is a directory of manifests.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) folder { return folder{t, t.TempDir()} }

// write writes a file with a modification time one hour ago.
func (f folder) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.path, name)
	require.NoError(f.t, os.WriteFile(path, []byte(text), 0o600))
	old := time.Now().Add(-time.Hour)
	require.NoError(f.t, os.Chtimes(path, old, old))
}

func (f folder) remove(name string) {
	f.t.Helper()
	require.NoError(f.t, os.Remove(filepath.Join(f.path, name)))
}

func (f folder) source() manifests.Source {
	f.t.Helper()
	s, err := manifests.Directory(f.path, nil)
	require.NoError(f.t, err)
	return s
}

// configmap returns a YAML document.
func configmap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {v: %q}\n", name, value)
}

func docs(texts ...string) string { return strings.Join(texts, "---\n") }

// fixed is a source with the files and error of set.
type fixed struct {
	mu    sync.Mutex
	files []manifests.File
	err   error
	reads []time.Time
}

func (f *fixed) Name() string { return "fixed" }

func (f *fixed) Read(context.Context) ([]manifests.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, time.Now())
	return f.files, f.err
}

func (f *fixed) set(err error, texts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files, f.err = nil, err
	for i, text := range texts {
		f.files = append(f.files, manifests.File{Name: fmt.Sprint("f", i, ".yaml"), Data: []byte(text)})
	}
}

func fixedOf(texts ...string) *fixed {
	f := &fixed{}
	f.set(nil, texts...)
	return f
}

// newHooked returns a registry over the store of e that calls the function before each read of
// configmaps/a.
func newHooked(e *env, before func()) *registry.Registry {
	faulty, err := storetest.Inject(e.store, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "get" && a.Key == "/registry/configmaps/"+space+"/a" {
			before()
		}
		return storetest.Fault{}
	})
	require.NoError(e.t, err)
	r, err := registry.New(faulty, &registry.Options{Types: types})
	require.NoError(e.t, err)
	return r
}
