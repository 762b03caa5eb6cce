package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// DeletingTx is the counterpart of [Guard.GuardTx] for deleters: until tx ends, the namespace of
// target stays Terminating, in the incarnation of target. So tx cannot delete content of a later
// namespace with the same name (rule R8). The error is [deleter.ErrIncarnation] for any other
// incarnation and for a namespace that is not terminating, and [deleter.ErrInvalid] for an
// incomplete target.
func (g *Guard) DeletingTx(ctx context.Context, tx pgx.Tx, target deleter.Target) error {
	if err := target.Validate(); err != nil {
		return err
	}
	_, terminating, err := registry.GateKeys(g.prefix, target.Namespace)
	if err != nil {
		return fmt.Errorf("%w target %s: %w", deleter.ErrInvalid, target.Namespace, err)
	}
	err = g.store.HoldTx(ctx, tx, terminating)
	var e store.Entry
	if err == nil {
		e, err = g.store.GetTx(ctx, tx, terminating)
	}
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && string(e.Value) != target.UID:
		return fmt.Errorf("%w: %s %q of uid %q is not being deleted", deleter.ErrIncarnation, namespace.Resource, target.Namespace, target.UID)
	case err != nil:
		return failed(target.Namespace, err)
	}
	return nil
}
