package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// decide calls the pure function in three situations. The host provides all observations and the
// time.
func decide(_ context.Context, w io.Writer) error {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ns := namespace.Namespace{
		Meta: namespace.Meta{Name: "acme", DeletionTimestamp: phase.At(now)},
		Spec: namespace.Spec{Finalizers: finalizer.NewSet(finalizer.Kubernetes)},
	}
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	for _, situation := range []struct {
		name string
		seen namespace.Observed
	}{
		{"documents are left", namespace.Observed{
			Observation: phase.Observation{Remaining: []phase.Remaining{{Resource: "documents", Count: 2}}},
			Estimate:    30 * time.Second,
		}},
		{"the database did not answer", namespace.Observed{
			Observation: phase.Observation{Content: []error{errors.New("documents: connection refused")}},
		}},
		{"nothing is left", namespace.Observed{}},
	} {
		d := namespace.Decide(ns, party, situation.seen, now)
		fmt.Fprintf(w, "   %s: finalize %v, remove %v, check again after %v\n", situation.name, d.Finalize, d.Remove, d.After)
	}
	return nil
}
