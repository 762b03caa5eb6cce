package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	why "github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// agent is the party.
type agent struct {
	config     config
	connection *rest.Config
	cluster    *kubernetes.Cluster
	controller *controller.Controller
	metrics    *metrics
	ledger     *ledger
	passes     *why.Recorder
	pages      *debug.Handler // nil: they are not served
	leading    atomic.Bool
	version    atomic.Pointer[string] // of the API server, once it told
	ready      readiness
	log        *slog.Logger
	said       said
}

func newAgent(c config, w io.Writer, log *slog.Logger) (*agent, error) {
	connection, err := c.connection()
	if err != nil {
		return nil, err
	}
	a := &agent{config: c, connection: connection, passes: why.NewRecorder(nil), log: log, said: said{w: w}}
	a.ledger = newLedger(a.say)
	if a.metrics, err = newMetrics(c.finalizer, a.ledger); err != nil {
		return nil, err
	}
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, a.metrics.asked} })
	a.cluster, err = kubernetes.ForConfig(connection, &kubernetes.Options{
		Only:         c.only,
		Except:       c.except,
		ExceptGroups: c.exceptGroups,
		OneByOne:     c.oneByOne,
		Wait:         c.wait,
		QuietTwice:   c.quietTwice,
	})
	if err != nil {
		return nil, err
	}
	party := namespace.Party{Finalizer: c.finalizer}
	a.controller, err = controller.New(watched{a.cluster.Namespaces(), a}, a.cluster.Deleter(), party, &controller.Options{
		Workers: c.workers,
		Hooks:   a.hooks(),
		Logger:  log,
	})
	if err != nil {
		return nil, err
	}
	if c.pages {
		a.pages, err = a.newPages()
	}
	return a, err
}

// run works until ctx ends; nothing that it started runs on.
func (a *agent) run(ctx context.Context) error {
	a.say("finalizing namespaces for %s at %s", a.config.finalizer, a.connection.Host)
	group, ctx := errgroup.WithContext(ctx)
	if a.config.listen != "" {
		serve, err := a.endpoints(ctx)
		if err != nil {
			return err
		}
		group.Go(serve)
	}
	group.Go(func() error {
		if a.config.lease.elect {
			return a.elected(ctx)
		}
		return a.lead(ctx)
	})
	err := group.Wait()
	a.say("stopped")
	return err
}

// lead works until ctx ends, with no regard to other replicas.
func (a *agent) lead(ctx context.Context) error {
	a.metrics.leader.Set(1)
	a.leading.Store(true)
	a.ready.set("namespaces are not watched yet")
	defer func() {
		a.leading.Store(false)
		a.metrics.leader.Set(0)
		a.metrics.watching.Set(0)
		a.metrics.controller.Clear()
		a.ledger.clear()
	}()
	return a.controller.Run(ctx)
}

// hooks tell the metrics, the debug pages and the ledger what happens.
func (a *agent) hooks() []controller.Hooks {
	return []controller.Hooks{a.metrics.controller.Hooks(), a.passes.HooksOf(a.config.finalizer), {
		PassEnded: func(_ context.Context, ref namespace.Ref, result pass.Result, err error, _ time.Duration) {
			a.ledger.passed(ref, result, err)
		},
		Removed: a.ledger.removed,
	}}
}

// said is where lines go.
type said struct {
	mu sync.Mutex
	w  io.Writer
}

func (a *agent) say(format string, args ...any) {
	a.said.mu.Lock()
	defer a.said.mu.Unlock()
	fmt.Fprintf(a.said.w, format+"\n", args...)
}
