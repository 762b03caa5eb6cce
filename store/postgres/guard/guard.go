// Package guard lets a host that keeps content in tables of its own, in the same
// PostgreSQL database as the store, create it only in Active namespaces (rule R6):
// the check and the host's own statements are one transaction.
//
//	tx, err := pool.Begin(ctx)
//	...
//	if err := g.GuardTx(ctx, tx, "acme"); err != nil {
//		return err // namespace.ErrTerminating or namespace.ErrNotFound
//	}
//	_, err = tx.Exec(ctx, "INSERT INTO orders ...")
//	...
//	err = tx.Commit(ctx)
//
// Termination of the namespace waits for such transactions, and only that: other
// namespaces go on. When it has been committed, every row that was created under
// a guard can be seen, and none is created any more, so that deletion starts at
// once and a listing that is empty stays empty.
package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// Guard holds namespaces of one registry Active. Make one with [New]. Any number
// of goroutines may use it at once.
type Guard struct {
	store  *postgres.Store
	prefix string
}

// New returns a guard for the registry that keeps its keys in s below prefix
// ([registry.Options]; empty: the default). A nil store, or a prefix that no
// registry can have, is [namespace.ErrInvalid].
func New(s *postgres.Store, prefix string) (*Guard, error) {
	if s == nil {
		return nil, &namespace.Error{Kind: namespace.ErrInvalid, Message: "guard: the store is nil"}
	}
	if _, _, err := registry.GateKeys(prefix, "any"); err != nil {
		return nil, err
	}
	return &Guard{store: s, prefix: prefix}, nil
}

// GuardTx holds the namespace Active until tx ends: what tx creates in it by then
// is seen by its deletion. Call it before the first statement that creates content;
// it costs one round trip.
//
// The refusals are [*namespace.Error] values: [namespace.ErrTerminating] (also
// [namespace.ErrForbidden]) and [namespace.ErrNotFound]; tx can go on after them.
// [namespace.ErrConflict] is a namespace that is being terminated, or whose gate was
// rewritten (as by a new quota), while tx runs at REPEATABLE READ or SERIALIZABLE: the
// server has refused it (SQLSTATE 40001, or 40P01 for a deadlock with another guarded
// transaction); roll back and try again from the start. At these levels a namespace that was created after the snapshot of
// tx is not found.
//
// It waits while a termination of the namespace waits for other guarded
// transactions, which is as long as these are open; ctx bounds the wait. Keep
// guarded transactions short.
func (g *Guard) GuardTx(ctx context.Context, tx pgx.Tx, name string) error {
	gate, terminating, err := registry.GateKeys(g.prefix, name)
	if err != nil {
		return err
	}
	err = g.store.HoldTx(ctx, tx, gate)
	if errors.Is(err, store.ErrNotFound) {
		return g.absent(ctx, tx, terminating, name)
	}
	return failed(name, err)
}

// absent tells why there is no gate.
func (g *Guard) absent(ctx context.Context, tx pgx.Tx, terminating, name string) error {
	_, err := g.store.GetTx(ctx, tx, terminating)
	switch {
	case err == nil:
		return &namespace.Error{
			Kind: namespace.ErrTerminating, Resource: namespace.Resource, Name: name, Err: namespace.ErrForbidden,
			Message: fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", name),
			Causes: []namespace.Violation{{
				Type: "NamespaceTerminating", Field: "metadata.namespace", Message: fmt.Sprintf("namespace %s is being terminated", name),
			}},
		}
	case errors.Is(err, store.ErrNotFound):
		return &namespace.Error{
			Kind: namespace.ErrNotFound, Resource: namespace.Resource, Name: name,
			Message: fmt.Sprintf("%s %q not found", namespace.Resource, name),
		}
	}
	return failed(name, err)
}

// failed is an error of the store, seen from above.
func failed(name string, err error) error {
	var server interface{ SQLState() string }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrInvalid):
		return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: namespace.Resource, Name: name, Message: err.Error(), Err: err}
	case errors.As(err, &server) && (server.SQLState() == "40001" || server.SQLState() == "40P01"):
		return &namespace.Error{
			Kind: namespace.ErrConflict, Resource: namespace.Resource, Name: name, Err: err,
			Message: fmt.Sprintf("namespace %q changes at this moment: roll back and try again: %v", name, err),
		}
	}
	return fmt.Errorf("guard: namespace %q: %w", name, err)
}
