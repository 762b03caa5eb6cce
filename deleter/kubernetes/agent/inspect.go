package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/plan"
)

// DryRun writes to w, for each terminating namespace that holds the finalizer, the objects that
// the agent would delete. It sends only GET requests and does not compete for the lease. It
// returns an error if any resource type could not be read.
func (a *Agent) DryRun(ctx context.Context, w io.Writer) error {
	names, err := a.terminating(ctx)
	if err != nil {
		return errors.New(describe(err))
	}
	fmt.Fprintln(w, "dry run: nothing is deleted or written")
	total, incomplete := 0, 0
	for _, name := range names {
		ns, err := a.cluster.Namespaces().Get(ctx, name)
		switch {
		case errors.Is(err, namespace.ErrNotFound):
			continue
		case err != nil:
			return errors.New(describe(err))
		case ns.DeletionTimestamp.IsZero() || !ns.Spec.Finalizers.Has(a.config.Finalizer):
			continue
		}
		p, err := plan.Of(ctx, a.cluster.Namespaces(), a.cluster.Deleter(), name, nil)
		switch {
		case errors.Is(err, namespace.ErrNotFound):
			continue
		case err != nil:
			return errors.New(describe(err))
		}
		total++
		if !p.Complete() {
			incomplete++
		}
		if _, err := fmt.Fprintf(w, "\n%s", p.Text()); err != nil {
			return err
		}
		for _, resource := range a.unknownTypes(p) {
			fmt.Fprintf(w, "note: there is no resource type %s\n", resource)
		}
	}
	if total == 0 {
		fmt.Fprintf(w, "no terminating namespace holds finalizer %s\n", a.config.Finalizer)
	}
	if incomplete > 0 {
		return fmt.Errorf("dry run: %d of %d namespaces could not be read completely", incomplete, total)
	}
	return nil
}

// terminating returns the sorted names of all terminating namespaces.
func (a *Agent) terminating(ctx context.Context) ([]string, error) {
	var names []string
	for event, err := range a.cluster.Namespaces().Terminating(ctx, "") {
		switch {
		case err != nil:
			return nil, err
		case event.Type == namespace.EventPresent:
			names = append(names, event.Name)
		case event.Type == namespace.EventSynced:
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
	return nil, errors.New("the list of namespaces ended early: try again")
}

// unknownTypes returns the selected types that discovery did not find: they may be misspelled.
func (a *Agent) unknownTypes(p plan.Plan) []namespace.ResourceType {
	return slices.DeleteFunc(slices.Clone(a.config.Content.Only), func(r namespace.ResourceType) bool {
		found := func(t plan.Type) bool { return t.Resource == r.String() }
		failed := func(f plan.Failure) bool { return f.Source == r.String() }
		return slices.Contains(a.config.Content.Except, r) || slices.ContainsFunc(p.Types, found) || slices.ContainsFunc(p.Failures, failed)
	})
}

// Report writes to w why a namespace still exists and what is in it. It sends only GET requests.
// An unknown namespace is an error.
func (a *Agent) Report(ctx context.Context, w io.Writer, name string) error {
	d, err := a.Explain(ctx, name)
	if err != nil {
		return errors.New(describe(err))
	}
	if _, err := io.WriteString(w, d.Text()); err != nil {
		return err
	}
	if d.Causes[0].Kind == explain.NotFound {
		return fmt.Errorf("namespace %q not found", name)
	}
	p, err := plan.Of(ctx, a.cluster.Namespaces(), a.cluster.Deleter(), name, &plan.Options{Unguarded: !a.guarded()})
	switch {
	case errors.Is(err, namespace.ErrNotFound): // removed since
		return nil
	case err != nil:
		return errors.New(describe(err))
	}
	_, err = fmt.Fprintf(w, "\n%s", p.Text())
	return err
}

// Explain implements [debug.Explainer]. While this replica leads, the explanation includes its
// passes. Otherwise another replica works, and only the namespace itself is current.
func (a *Agent) Explain(ctx context.Context, name string) (explain.Diagnosis, error) {
	o := explain.Options{Unguarded: !a.guarded()}
	if a.leading.Load() {
		o.Recorder = a.passes
	}
	return explain.New(a.cluster.Namespaces(), &o).Explain(ctx, name)
}

// guarded reports whether the API server is one of this library, which enforces protections and
// holds declared in annotations. A stock Kubernetes does not.
func (a *Agent) guarded() bool {
	version := a.version.Load()
	if version == nil {
		client, err := discovery.NewDiscoveryClientForConfig(a.connection)
		if err != nil {
			return false
		}
		info, err := client.ServerVersion()
		if err != nil {
			return false
		}
		version = &info.GitVersion
		a.version.Store(version)
	}
	return kubernetes.IsLifecycleServer(*version)
}
