package clients

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/limitrange"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// host is a service that uses the library, on its own port.
type host struct {
	address  string // http://127.0.0.1:port
	registry *registry.Registry
	server   *apiserver.Server
	stop     func() error // ends it gracefully; can be called repeatedly
}

// plan configures a host. The zero plan is a server with a memory store and a controller, on a
// free port, without authorization.
type plan struct {
	file         string // of a bolt store; empty: a memory store
	listen       string // default: a free port of loopback
	noController bool
	options      apiserver.Options
	removed      func(namespace.Ref) // called after the removal of a namespace; may be nil
}

// start starts a host, which ends with the test at the latest.
func (p plan) start(t testing.TB) *host {
	t.Helper()
	h, err := p.open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.stop()) })
	return h
}

func (p plan) open() (_ *host, err error) {
	s, err := p.store()
	if err != nil {
		return nil, err
	}
	list := served()
	var types []registry.Type
	for _, k := range list {
		types = append(types, k.Type)
	}
	admission, err := plugins()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	r, err := registry.New(s, &registry.Options{Types: types, Admission: admission})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	h := &host{registry: r}
	if err := h.serve(p, s, list); err != nil {
		return nil, errors.Join(err, r.Close(), s.Close())
	}
	return h, nil
}

// plugins are the limits, which set defaults that quotas count, and the quotas.
func plugins() ([]registry.Admission, error) {
	limited, err := limitrange.New(limitrange.Rule{Resource: widgets().Name(), Resources: "spec.resources", Type: "example.com/Widget"})
	if err != nil {
		return nil, err
	}
	counted, err := quota.New(quota.Rule{Resource: widgets().Name(), Sums: map[string]string{"requests.cpu": "spec.resources.requests.cpu"}})
	if err != nil {
		return nil, err
	}
	return []registry.Admission{limited, counted}, nil
}

func (p plan) store() (store.Store, error) {
	if p.file != "" {
		return bolt.Open(p.file, nil)
	}
	return memory.New(nil)
}

// serve starts the server and the controller.
func (h *host) serve(p plan, s store.Store, list []kinds.Kind) error {
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		var n namespace.Namespace
		n.Name = name
		if _, err := h.registry.Create(context.Background(), n); err != nil && !errors.Is(err, namespace.ErrExists) {
			return err
		}
	}
	server, err := apiserver.New(h.registry, list, &p.options)
	if err != nil {
		return err
	}
	h.server = server
	emptier, err := newController(h.registry, p.removed)
	if err != nil {
		return err
	}
	if p.listen == "" {
		p.listen = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", p.listen)
	if err != nil {
		return err
	}
	h.address = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, l) })
	group.Go(func() error { return quota.Run(ctx, h.registry, nil) })
	if !p.noController {
		group.Go(func() error { return emptier.Run(ctx) })
	}
	stopped := false
	h.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return errors.Join(group.Wait(), h.registry.Close(), s.Close())
	}
	return nil
}

func newController(r *registry.Registry, removed func(namespace.Ref)) (*controller.Controller, error) {
	d, err := r.Deleter(nil)
	if err != nil {
		return nil, err
	}
	return controller.New(r, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{{Removed: removed}}})
}

// config returns client-go's configuration for the host, with limits that do not slow a test.
func (h *host) config() *rest.Config {
	return &rest.Config{Host: h.address, QPS: -1}
}

// kubeconfig writes kubectl's configuration for the host.
func (h *host) kubeconfig(path string) error {
	k := api.NewConfig()
	k.Clusters["test"] = &api.Cluster{Server: h.address}
	k.Contexts["test"] = &api.Context{Cluster: "test"}
	k.CurrentContext = "test"
	return clientcmd.WriteToFile(*k, path)
}

// served are the types of content: all built-in ones and a custom one.
func served() []kinds.Kind {
	return []kinds.Kind{
		kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(), kinds.Events(),
		kinds.ResourceQuotas(), kinds.LimitRanges(), kinds.Leases(), widgets(),
	}
}

// widgets is a custom type with a schema.
func widgets() kinds.Kind {
	k := kinds.Custom(registry.Type{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true,
		Status: true, Fields: []string{"spec.colour"},
	})
	k.ShortNames = []string{"wd"}
	k.Categories = []string{"all"}
	k.Schema = widgetSchema
	k.Columns = []kinds.Column{
		{Name: "Size", Type: "integer", Description: "How large it is to be.", Value: field("spec", "size")},
		{Name: "Ready", Type: "boolean", Description: "Whether it is as large.", Value: field("status", "ready")},
		{Name: "Colour", Type: "string", Description: "What it looks like.", Priority: 1, Value: field("spec", "colour")},
		kinds.Age(),
	}
	return k
}

var widgetSchema = json.RawMessage(`{
	"type": "object",
	"description": "Widget is a thing that has a size.",
	"properties": {
		"spec": {
			"type": "object",
			"description": "What it is to be.",
			"properties": {
				"size": {"type": "integer", "minimum": 1, "description": "How large it is to be."},
				"colour": {"type": "string", "enum": ["red", "green", "blue"], "description": "What it looks like."},
				"resources": {
					"type": "object",
					"description": "What it takes.",
					"properties": {
						"requests": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
						"limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}}
					}
				}
			}
		},
		"status": {
			"type": "object",
			"description": "What it is.",
			"properties": {
				"ready": {"type": "boolean", "description": "Whether it is as large."},
				"conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
			}
		}
	}
}`)

func field(part, name string) func(registry.Object) any {
	return func(o registry.Object) any {
		var fields map[string]any
		if json.Unmarshal(o.Fields[part], &fields) != nil {
			return nil
		}
		if number, ok := fields[name].(float64); ok {
			return int64(number)
		}
		return fields[name]
	}
}

// requireServers makes a test fail, rather than skip, if a program that it needs is missing.
const requireServers = "NSLIFECYCLE_REQUIRE_SERVERS"

func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv(requireServers) != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
