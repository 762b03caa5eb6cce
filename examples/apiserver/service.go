package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/limitrange"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/refusals"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// backend is where everything is kept, and what is.
type backend struct {
	store    store.Store
	registry *registry.Registry
	kinds    []kinds.Kind
}

// run serves until ctx ends. What to do next is said on w, the log goes to log.
func run(ctx context.Context, w, log io.Writer, args []string) (err error) {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	hidden := command.Redact(append([]string{c.dsn, c.endpoints}, c.manifests.from...)...)
	defer func() { err = hidden.Error(err) }()
	w, log = hidden.Writer(w), hidden.Writer(log)
	a, err := c.access()
	if err != nil {
		return err
	}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list := served(c.types)
	r, err := newRegistry(s, list)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := prepare(ctx, r); err != nil {
		return err
	}
	at, err := c.listeners()
	if err != nil {
		return err
	}
	defer at.close()
	if err := c.announce(w, at, a); err != nil {
		return err
	}
	return c.serve(ctx, at, backend{s, r, list}, a, slog.New(slog.NewTextHandler(log, nil)))
}

// listeners are where the program is reached.
type listeners struct {
	api   net.Listener
	debug net.Listener // nil: nowhere
}

// listeners begins to listen.
func (c config) listeners() (at listeners, err error) {
	if at.api, err = net.Listen("tcp", c.listen); err != nil {
		return listeners{}, fmt.Errorf("--listen: %w", err)
	}
	if c.debug == "" {
		return at, nil
	}
	if at.debug, err = net.Listen("tcp", c.debug); err != nil {
		_ = at.api.Close() // nobody has come yet
		return listeners{}, fmt.Errorf("--debug-listen: %w", err)
	}
	return at, nil
}

// close closes what was not served, or not to the end: the servers close what they serve.
func (at listeners) close() {
	_ = at.api.Close()
	if at.debug != nil {
		_ = at.debug.Close()
	}
}

// newRegistry declares the types, and what is asked about every write: the limits
// first, since they set defaults that quotas count.
func newRegistry(s store.Store, list []kinds.Kind) (*registry.Registry, error) {
	var types []registry.ResourceType
	for _, k := range list {
		types = append(types, k.ResourceType)
	}
	limited, err := limitrange.New(limitrange.Rule{Resource: widgets().Name(), Resources: "spec.resources", Type: "example.com/Widget"})
	if err != nil {
		return nil, err
	}
	counted, err := quota.New(
		quota.Rule{Resource: widgets().Name(), Sums: map[string]string{"requests.cpu": "spec.resources.requests.cpu"}},
		quota.Rule{Resource: kinds.Events().Name(), Uncounted: refusals.Options{}.Reserves},
	)
	if err != nil {
		return nil, err
	}
	return registry.New(s, &registry.Options{Types: types, Admission: []registry.Admission{limited, counted}})
}

// prepare creates the namespaces that are always there. Their names are immortal by
// default.
func prepare(ctx context.Context, r *registry.Registry) error {
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		var n namespace.Namespace
		n.Name = name
		if _, err := r.Create(ctx, n); err != nil && !errors.Is(err, namespace.ErrExists) {
			return err
		}
	}
	return nil
}

// announce says how to reach the server.
func (c config) announce(w io.Writer, at listeners, a access) error {
	address := "http://" + at.api.Addr().String()
	if a.server != nil {
		address = "https://" + at.api.Addr().String()
	}
	fmt.Fprintln(w, "serving on", address)
	if at.debug != nil {
		fmt.Fprintf(w, "debug pages on http://%s%s\n", at.debug.Addr(), debugPath)
	}
	if c.kubeconfig != "" {
		if err := writeKubeconfig(c.kubeconfig, address, a); err != nil {
			return fmt.Errorf("--write-kubeconfig: %w", err)
		}
		fmt.Fprintf(w, "kubectl --kubeconfig %s get namespaces\n", c.kubeconfig)
		return nil
	}
	if a.server != nil {
		fmt.Fprintf(w, "kubectl --server %s --insecure-skip-tls-verify --token TOKEN get namespaces\n", address)
		return nil
	}
	fmt.Fprintf(w, "kubectl --server %s get namespaces\n", address)
	return nil
}

// requests returns the logger of the API. It logs failures of the server, and with --verbose
// every request.
func (c config) requests(log *slog.Logger) *slog.Logger {
	if c.verbose {
		return log
	}
	return slog.New(atLeast{log.Handler(), slog.LevelWarn})
}

// atLeast drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// serve runs the server, and what belongs to it, until ctx ends.
func (c config) serve(ctx context.Context, at listeners, b backend, a access, log *slog.Logger) error {
	l, r, list := at.api, b.registry, b.kinds
	syncers, err := c.manifests.syncers(b, log)
	if err != nil {
		return err
	}
	recorder, err := refusals.New(r, nil) // what somebody may not do is told in the namespace concerned
	if err != nil {
		return err
	}
	options := apiserver.Options{Authorizer: a.authorize, Hooks: apiserver.Hooks{Refused: recorder.Record}}
	if a.server == nil {
		options.Hosts = c.reach.Hosts(c.listen)
	} else {
		options.Authenticate = a.authenticate
		l = tls.NewListener(l, a.server)
	}
	options.Logger = c.requests(log)
	server, err := apiserver.New(r, list, &options)
	if err != nil {
		return err
	}
	emptier, err := newController(r, log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, l) })
	group.Go(func() error { return quota.Run(ctx, r, nil) })
	group.Go(func() error { return forget(ctx, b.store, r, log) })
	group.Go(func() error { return hold.Run(ctx, r, &hold.Options{Logger: log}) })
	group.Go(func() error {
		if err := recorder.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	for _, s := range syncers {
		group.Go(func() error { return s.Run(ctx) })
	}
	if c.controller {
		group.Go(func() error { return emptier.Run(ctx) })
		group.Go(func() error { return present(ctx, b.store, b.registry.Party().Finalizer, log) })
	}
	if at.debug != nil {
		group.Go(func() error { return b.debug(ctx, at.debug, c.reach.Hosts(c.debug), emptier.recorder) })
	}
	return group.Wait()
}
