package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// Audit records of removed namespaces are kept for remembered.
const (
	remembered  = 30 * 24 * time.Hour
	forgetEvery = time.Hour
)

// forget removes old audit records of removed namespaces until ctx ends.
func forget(ctx context.Context, s store.Store, r *registry.Registry, log *slog.Logger) error {
	records, err := audit.New(s, nil)
	if err != nil {
		return err
	}
	for ticker := time.NewTicker(forgetEvery); ; {
		if err := forgetOnce(ctx, records, r, time.Now().Add(-remembered)); err != nil && ctx.Err() == nil {
			log.Warn("old audit records are kept, will try again", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return nil
		}
	}
}

// forgetOnce removes records of removed namespaces that are older than before.
func forgetOnce(ctx context.Context, records *audit.Log, r *registry.Registry, before time.Time) error {
	for name, err := range records.Names(ctx) {
		if err != nil {
			return err
		}
		if name == audit.Types {
			continue
		}
		if _, err := r.Get(ctx, name); !errors.Is(err, namespace.ErrNotFound) {
			continue // the namespace exists, or its state is unknown
		}
		if _, err := records.Forget(ctx, name, before); err != nil {
			return fmt.Errorf("forget the records of %s: %w", name, err)
		}
	}
	return nil
}
