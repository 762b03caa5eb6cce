// Apiserver serves namespaces and their content to kubectl and client-go: built-in and custom
// types, quotas and limit ranges, and a controller that deletes the content of terminating
// namespaces.
//
//	go run ./examples/apiserver --write-kubeconfig ~/.kube/nslifecycle.yaml
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml create namespace development
//
// Without --tokens every client that reaches the port may do everything, in plain HTTP.
// Therefore the program listens on loopback unless --insecure-listen is given, and rejects
// requests of web pages in browsers. With --tokens it serves HTTPS, since clients send tokens
// only over HTTPS, and --grants defines permissions.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/limitrange"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/refusals"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

var program = command.Program{Name: "apiserver", About: `
Apiserver serves namespaces and their content to kubectl and client-go, and deletes the
content of deleted namespaces. It keeps everything in a file, in memory or in PostgreSQL.

    go run ./examples/apiserver --write-kubeconfig ~/.kube/nslifecycle.yaml
    go run ./examples/apiserver --manifests /etc/manifests --manifests https://example.com/node-7.yaml --node node-7
    kubectl --kubeconfig ~/.kube/nslifecycle.yaml create namespace development
`}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, os.Stderr, args) })
}

// run serves until ctx ends. It writes how to reach the server to w, and a log to log.
func run(ctx context.Context, w, log io.Writer, args []string) (err error) {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	a, err := c.access()
	if err != nil {
		return err
	}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	logger := slog.New(slog.NewTextHandler(log, nil))
	b, err := c.backend(s, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.service.Close()) }()
	for _, name := range namespace.DefaultImmortal() { // DELETE of these names is refused
		if _, err := b.service.Create(ctx, name); err != nil && !errors.Is(err, namespace.ErrExists) {
			return err
		}
	}
	api, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer api.Close() // the server may have closed it
	var pages net.Listener
	if c.debug != "" {
		if pages, err = net.Listen("tcp", c.debug); err != nil {
			return fmt.Errorf("--debug-listen: %w", err)
		}
		defer pages.Close()
	}
	if err := c.announce(w, api, pages, a); err != nil {
		return err
	}
	requests := logger
	if !c.verbose {
		requests = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return c.serve(ctx, b, a, api, pages, requests, logger)
}

func (c config) open(ctx context.Context) (store.Store, error) {
	switch c.store {
	case kindMemory:
		return memory.New(nil)
	case kindPostgres:
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		s, err := postgres.Open(ctx, c.dsn, schema, nil)
		if err != nil {
			return nil, fmt.Errorf("--dsn: %w", err)
		}
		return s, nil
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	s, err := bolt.Open(filepath.Join(c.data, "namespaces.db"), &bolt.Options{Wait: c.wait})
	switch {
	case errors.Is(err, store.ErrInUse):
		return nil, fmt.Errorf("--data: another process has %s open: stop it, or wait for it with --wait", c.data)
	case err != nil:
		return nil, fmt.Errorf("--data: %w", err)
	}
	return s, nil
}

// backend is the namespaces and the types of content.
type backend struct {
	service *lifecycle.Service
	kinds   []kinds.Kind
}

// backend declares the types, and the admission plugins. Limit ranges come first, since they set
// defaults that quotas count.
func (c config) backend(s store.Store, log *slog.Logger) (backend, error) {
	list := served(c.types)
	var types []registry.Type
	for _, k := range list {
		types = append(types, k.Type)
	}
	limits, err := limitrange.New(limitrange.Rule{Resource: widgets().Name(), Resources: "spec.resources", Type: "example.com/Widget"})
	if err != nil {
		return backend{}, err
	}
	quotas, err := quota.New(
		quota.Rule{Resource: widgets().Name(), Sums: map[string]string{"requests.cpu": "spec.resources.requests.cpu"}},
		quota.Rule{Resource: kinds.Events().Name(), Uncounted: refusals.Options{}.Reserves},
	)
	if err != nil {
		return backend{}, err
	}
	service, err := lifecycle.New(s, types, &lifecycle.Options{
		Registry: registry.Options{Admission: []registry.Admission{limits, quotas}},
		Pages:    debug.Options{Hosts: c.clientHosts(c.debug)},
		Logger:   log,
	})
	return backend{service, list}, err
}

// announce writes how to reach the server.
func (c config) announce(w io.Writer, api, pages net.Listener, a access) error {
	address := "http://" + api.Addr().String()
	if a.server != nil {
		address = "https://" + api.Addr().String()
	}
	fmt.Fprintln(w, "serving on", address)
	if pages != nil {
		fmt.Fprintf(w, "debug pages on http://%s%s\n", pages.Addr(), debugPath)
	}
	switch {
	case c.kubeconfig != "":
		if err := writeKubeconfig(c.kubeconfig, address, a); err != nil {
			return fmt.Errorf("--write-kubeconfig: %w", err)
		}
		fmt.Fprintf(w, "kubectl --kubeconfig %s get namespaces\n", c.kubeconfig)
	case a.server != nil:
		fmt.Fprintf(w, "kubectl --server %s --insecure-skip-tls-verify --token TOKEN get namespaces\n", address)
	default:
		fmt.Fprintf(w, "kubectl --server %s get namespaces\n", address)
	}
	return nil
}

// serve runs the server and its background work until ctx ends.
func (c config) serve(ctx context.Context, b backend, a access, api, pages net.Listener, requests, log *slog.Logger) error {
	r := b.service.Registry()
	syncers, err := c.manifests.syncers(b, log)
	if err != nil {
		return err
	}
	events, err := refusals.New(r, nil) // records forbidden requests as events
	if err != nil {
		return err
	}
	options := apiserver.Options{Authorizer: a.authorize, Hooks: apiserver.Hooks{Refused: events.Record}, Logger: requests}
	if a.server == nil {
		options.Hosts = c.clientHosts(c.listen)
	} else {
		options.Authenticate = a.authenticate
		api = tls.NewListener(api, a.server)
	}
	server, err := apiserver.New(r, b.kinds, &options)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, api) })
	group.Go(func() error { return quota.Run(ctx, r, nil) })
	group.Go(func() error {
		if err := events.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	for _, s := range syncers {
		group.Go(func() error { return s.Run(ctx) })
	}
	if c.controller {
		group.Go(func() error { return b.service.Run(ctx) })
	} else {
		group.Go(func() error { return hold.Run(ctx, r, &hold.Options{Logger: log}) })
	}
	if pages != nil {
		group.Go(func() error { return serveUntil(ctx, b.service.Handler(), pages) })
	}
	return group.Wait()
}

const debugPath = "/debug/namespaces/"

// serveUntil serves the debug pages until ctx ends.
func serveUntil(ctx context.Context, pages http.Handler, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(debugPath, pages)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // Serve returns
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
