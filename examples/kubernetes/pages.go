package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	why "github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	preview "github.com/nslifecycle/nslifecycle/namespace/operate/plan"
)

// pagesPath is where the debug pages are.
const pagesPath = "/debug/namespaces/"

// newPages makes the debug pages. What they read is asked of the API server, and counts
// for --qps; so they are modest.
func (a *agent) newPages() (*debug.Handler, error) {
	return debug.New(a.cluster.Namespaces(), a, &debug.Options{
		Hosts:    a.config.reach.Hosts(a.config.listen),
		Title:    "Namespaces that " + string(a.config.finalizer) + " holds",
		Interval: 5 * time.Second,
		Rows:     50,
	})
}

// Explain implements [debug.Explainer]: by what this replica sees while it leads, else by
// what the namespace itself tells, since another replica works then.
func (a *agent) Explain(ctx context.Context, name string) (why.Diagnosis, error) {
	known := why.Options{Unguarded: !a.guarded()}
	if a.leading.Load() {
		known.Recorder = a.passes
	}
	return why.New(a.cluster.Namespaces(), &known).Explain(ctx, name)
}

// guarded reports whether the API server is one of this library, which heeds what
// annotations declare; a stock Kubernetes does not. It is asked once.
func (a *agent) guarded() bool {
	if known := a.version.Load(); known != nil {
		return strings.HasSuffix(*known, "+nslifecycle")
	}
	client, err := discovery.NewDiscoveryClientForConfig(a.connection)
	if err != nil {
		return false
	}
	version, err := client.ServerVersion()
	if err != nil {
		return false
	}
	a.version.Store(&version.GitVersion)
	return strings.HasSuffix(version.GitVersion, "+nslifecycle")
}

// tell explains one namespace: what keeps it, and what is in it. It reads, and that is all.
func (a *agent) tell(ctx context.Context, w io.Writer) error {
	d, err := a.Explain(ctx, a.config.explain)
	if err != nil {
		return errors.New(explain(err))
	}
	if _, err := io.WriteString(w, d.Text()); err != nil {
		return err
	}
	if d.Causes[0].Kind == why.NotFound {
		return fmt.Errorf("--explain: there is no namespace %q", a.config.explain)
	}
	p, err := preview.Of(ctx, a.cluster.Namespaces(), a.cluster.Deleter(), a.config.explain, &preview.Options{Unguarded: !a.guarded()})
	switch {
	case errors.Is(err, namespace.ErrNotFound): // it was removed since
		return nil
	case err != nil:
		return errors.New(explain(err))
	}
	_, err = fmt.Fprintf(w, "\n%s", p.Text())
	return err
}
