package apiserver

import (
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/discovery"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Server is an [http.Handler] that serves namespaces and content of a registry
// under /api and /apis, and beside them /openapi, /version, /healthz, /livez and
// /readyz. Make one with [New]. All methods are safe for concurrent use.
//
// Use [Server.Serve], or make it the Handler of an [http.Server]. An
// [http.ServeMux] in front of it redirects paths that it would clean, before the
// Server can refuse them.
type Server struct {
	registry  *registry.Registry
	options   Options
	log       *slog.Logger
	codec     *codec.Codec
	patcher   *patch.Patcher
	schemas   *openapi.Documents
	discovery *discovery.Documents
	resources map[resourceKey]*resource
	traffic   *traffic
	ready     *readiness
	guard     *httpguard.Guard // nil: clients authenticate
	handler   http.Handler     // the whole chain
	pieces    sync.Pool        // of *[piece]byte: buffers for answers that are sent in pieces
}

// resourceKey is how a path names a resource.
type resourceKey struct{ group, version, resource string }

// resource is one kind that is served.
type resource struct {
	kinds.Kind
	storage storage
	dry     storage // of requests with dryRun=All
}

// New returns a server of what r keeps: namespaces, and content of the kinds of
// list, each of which must be declared in r (a kind of r that is not in the list
// is not served). Nil options are all defaults. Options and kinds that make no
// sense are refused with [namespace.ErrInvalid].
func New(r *registry.Registry, list []kinds.Kind, o *Options) (*Server, error) {
	if r == nil {
		return nil, invalidOption("the registry is nil")
	}
	s := &Server{registry: r, resources: make(map[resourceKey]*resource, len(list)+1)}
	if o != nil {
		s.options = *o
	}
	var err error
	if s.options.Limits, err = s.options.Limits.withDefaults(); err != nil {
		return nil, err
	}
	if s.options.Authenticate == nil || len(s.options.Hosts) > 0 {
		if s.guard, err = httpguard.New(s.options.Hosts...); err != nil {
			return nil, invalidOption("option Hosts: %v", err)
		}
	}
	orElse(&s.options.Version, version.Info{
		Major: "1", Minor: "36", GitVersion: "v1.36.0+nslifecycle",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
	if s.log = s.options.Logger; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.describe(list); err != nil {
		return nil, err
	}
	if err := s.serve(list); err != nil {
		return nil, err
	}
	s.traffic = newTraffic(s.options.Limits)
	s.ready = &readiness{ask: s.isReady, timeout: s.options.Limits.Timeout}
	s.handler = s.chain(http.HandlerFunc(s.dispatch))
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// describe makes what knows about all kinds.
func (s *Server) describe(list []kinds.Kind) (err error) {
	if s.codec, err = codec.New(list); err != nil {
		return err
	}
	if s.schemas, err = openapi.New(list); err != nil {
		return err
	}
	if s.patcher, err = patch.New(list, s.codec, s.schemas); err != nil {
		return err
	}
	s.discovery = discovery.New(list, s.options.Version)
	return nil
}

// serve takes up the kinds; the codec has seen that none is declared twice.
func (s *Server) serve(list []kinds.Kind) error {
	s.resources[resourceKey{version: "v1", resource: namespace.Resource}] = &resource{
		Kind:    kinds.Namespaces(),
		storage: namespaces{s.registry}, dry: namespaces{s.registry.DryRun()},
	}
	declared := s.registry.Types()
	for _, k := range list {
		name := k.Name()
		if k.Group == "" && k.Resource == namespace.Resource {
			continue // always served
		}
		switch {
		case !slices.ContainsFunc(declared, func(t registry.ResourceType) bool { return sameType(t, k.ResourceType) }):
			return invalidOption("kind %q is not declared in the registry as it is here: name its ResourceType in registry.Options.Types", name)
		case k.Resource == "watch", k.Resource == "list", k.Resource == subStatus, k.Resource == namespace.Resource:
			return invalidOption("kind %q: the name is taken by paths of the API", name)
		}
		c, err := s.registry.Content(name)
		if err != nil {
			return err
		}
		dry, err := s.registry.DryRun().Content(name)
		if err != nil {
			return err
		}
		s.resources[resourceKey{k.Group, k.Version, k.Resource}] = &resource{Kind: k, storage: content{c}, dry: content{dry}}
	}
	return nil
}

func sameType(a, b registry.ResourceType) bool {
	return a.Name() == b.Name() && a.Version == b.Version && a.Kind == b.Kind && a.Namespaced == b.Namespaced &&
		a.Status == b.Status && a.Ungenerated == b.Ungenerated && slices.Equal(a.Fields, b.Fields)
}
