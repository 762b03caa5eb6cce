package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/discovery"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Server is an [http.Handler] that serves the namespaces and content of a registry under /api
// and /apis, and beside them /openapi, /version, /healthz, /livez and /readyz. Use [New] to
// create one. All methods are safe for concurrent use.
//
// Use [Server.Serve], or make it the Handler of an [http.Server]. An [http.ServeMux] in front
// of it redirects unclean paths before the Server can reject them.
type Server struct {
	registry  *registry.Registry
	options   Options
	log       *slog.Logger
	codec     *codec.Codec
	patcher   *patch.Patcher
	schemas   *openapi.Documents
	discovery *discovery.Documents
	resources map[resourceKey]*resource
	pools     pools
	guard     *httpguard.Guard // nil: clients authenticate
	handler   http.Handler     // the whole chain
	pieces    sync.Pool        // of *[piece]byte: buffers for answers that are sent in pieces

	open  context.Context // ends with Close
	close context.CancelFunc

	readiness  singleflight.Group // guards the fields below
	notReady   error              // the last result
	readyUntil time.Time
}

// resourceKey identifies a resource in a path.
type resourceKey struct{ group, version, resource string }

// resource is a served kind.
type resource struct {
	kinds.Kind
	storage storage
	dry     storage // for requests with dryRun=All
}

// New returns a server of the namespaces of r, and of its content of the kinds of list. Each
// kind must be declared in r; kinds of r that are not in the list are not served. Nil options
// are the defaults.
func New(r *registry.Registry, list []kinds.Kind, o *Options) (*Server, error) {
	if r == nil {
		return nil, errors.New("apiserver: the registry is nil")
	}
	if o == nil {
		o = &Options{}
	}
	s := &Server{registry: r, options: o.withDefaults(), resources: make(map[resourceKey]*resource, len(list)+1)}
	s.log, s.pools = s.options.Logger, newPools(s.options.Limits)
	s.open, s.close = context.WithCancel(context.Background())
	err := s.options.Limits.validate()
	if err != nil {
		return nil, err
	}
	if s.options.Authenticate == nil || len(s.options.Hosts) > 0 {
		if s.guard, err = httpguard.New(s.options.Hosts...); err != nil {
			return nil, fmt.Errorf("apiserver: Options.Hosts: %w", err)
		}
	}
	if s.codec, err = codec.New(list); err != nil {
		return nil, err
	}
	if s.schemas, err = openapi.New(list); err != nil {
		return nil, err
	}
	if s.patcher, err = patch.New(list, s.codec, s.schemas); err != nil {
		return nil, err
	}
	s.discovery = discovery.New(list, s.options.Version)
	if err := s.declare(list); err != nil {
		return nil, err
	}
	s.handler = s.chain(http.HandlerFunc(s.dispatch))
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// declare fills s.resources with namespaces and the kinds of list, which has no duplicates.
func (s *Server) declare(list []kinds.Kind) error {
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
		case !slices.ContainsFunc(declared, func(t registry.Type) bool { return sameType(t, k.Type) }):
			return fmt.Errorf("apiserver: kind %q is not declared in the registry as it is here: name its Type in registry.Options.Types", name)
		case k.Resource == "watch", k.Resource == "list", k.Resource == subStatus, k.Resource == namespace.Resource:
			return fmt.Errorf("apiserver: kind %q: the name is taken by paths of the API", name)
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

func sameType(a, b registry.Type) bool {
	return a.Name() == b.Name() && a.Version == b.Version && a.Kind == b.Kind && a.Namespaced == b.Namespaced &&
		a.Status == b.Status && a.Ungenerated == b.Ungenerated && slices.Equal(a.Fields, b.Fields)
}
