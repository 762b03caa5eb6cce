package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// dryRun tells for each namespace that is the agent's to empty what would be deleted.
// It reads, and that is all: not even the lease is asked for.
func (a *agent) dryRun(ctx context.Context, w io.Writer) error {
	names, err := a.deleted(ctx)
	if err != nil {
		return errors.New(explain(err))
	}
	fmt.Fprintln(w, "dry run: nothing is deleted, and nothing is written")
	looked, failed := 0, 0
	for _, name := range names {
		ns, err := a.cluster.Namespaces().Get(ctx, name)
		switch {
		case errors.Is(err, namespace.ErrNotFound):
			continue
		case err != nil:
			return errors.New(explain(err))
		case ns.DeletionTimestamp.IsZero() || !ns.Spec.Finalizers.Has(a.config.finalizer):
			continue
		}
		looked++
		report, err := a.cluster.Deleter().Inspect(ctx, deleter.Target{Namespace: name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time})
		if err != nil {
			failed++
		}
		fmt.Fprintf(w, "\n%q is terminating, its finalizers are %q\n", name, ns.Spec.Finalizers.Names())
		if err := plan(w, report, err); err != nil {
			return err
		}
		for _, r := range a.missing(report) {
			fmt.Fprintln(w, "  note: there is no type", r)
		}
	}
	if looked == 0 {
		fmt.Fprintf(w, "no terminating namespace has the finalizer %s\n", a.config.finalizer)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d namespaces could not be looked at in full, see above", failed, looked)
	}
	return nil
}

// missing returns the types of --only that were not found: they may be misspelt.
func (a *agent) missing(report deleter.Report) []namespace.ResourceType {
	return slices.DeleteFunc(slices.Clone(a.config.only), func(r namespace.ResourceType) bool {
		return slices.Contains(a.config.except, r) || slices.ContainsFunc(report.Results, func(one deleter.Result) bool { return one.Resource == r })
	})
}

// deleted returns the names of all namespaces that are terminating now, sorted.
func (a *agent) deleted(ctx context.Context) ([]string, error) {
	var names []string
	for event, err := range a.cluster.Namespaces().Terminating(ctx, "") {
		switch {
		case err != nil:
			return nil, err
		case event.Type == namespace.EventTerminating:
			names = append(names, event.Name)
		case event.Type == namespace.EventSynced:
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
	return nil, errors.New("the list of namespaces ended too soon: try again")
}

// plan writes what would be done to one namespace.
func plan(w io.Writer, report deleter.Report, failed error) error {
	types := 0
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range report.Results {
		if r.Remaining == 0 {
			continue
		}
		if types == 0 {
			fmt.Fprintln(t, "  TYPE\tOBJECTS\tNAMES\tHELD BY")
		}
		types++
		fmt.Fprintf(t, "  %s\t%d\t%s\t%s\n", r.Resource, r.Remaining, sample(r.Sample, r.Remaining), held(r))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	amount := count(report.Remaining(), "object") + " of " + count(types, "type")
	switch {
	case failed != nil:
		fmt.Fprintf(w, "  would delete %s, as far as can be seen; it would stay:\n", amount)
		for _, line := range unseen(report, failed) {
			fmt.Fprintln(w, "  failed:", line)
		}
	case types == 0:
		fmt.Fprintln(w, "  nothing is left: it would be finalized")
	default:
		fmt.Fprintf(w, "  would delete %s\n", amount)
	}
	return nil
}

// unseen tells what could not be looked at.
func unseen(report deleter.Report, failed error) []string {
	var lines []string
	for _, err := range slices.Concat(report.Discovery, report.Parsing) {
		lines = append(lines, explain(err))
	}
	for _, r := range report.Results {
		if r.Err != nil {
			lines = append(lines, explain(r.Err))
		}
	}
	if len(lines) == 0 {
		lines = append(lines, explain(failed))
	}
	return lines
}

// sample shows names, and that there are others.
func sample(names []string, of int) string {
	text := strings.Join(names, " ")
	if len(names) < of {
		text += " ..."
	}
	return text
}

// held shows the finalizers that would hold objects.
func held(r deleter.Result) string {
	var holders []string
	for _, h := range r.Holders {
		holders = append(holders, fmt.Sprintf("%s (%s)", h.Finalizer, sample(h.Sample, h.Objects)))
	}
	if len(holders) == 0 {
		return "-"
	}
	return strings.Join(holders, ", ")
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
