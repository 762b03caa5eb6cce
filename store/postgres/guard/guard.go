// Package guard lets a host that keeps content in its own tables, in the same PostgreSQL database
// as the store, create it only in Active namespaces (rule R6): the check and the host's
// statements are one transaction.
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
// Termination of the namespace waits for such transactions; other namespaces are not affected.
// Once the termination is committed, every row that was created under a guard is visible, and no
// further row can be created. So deletion starts at once, and an empty listing stays empty.
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

// Guard keeps namespaces of one registry Active. Make one with [New]. Any number of goroutines
// may use it at once.
type Guard struct {
	store  *postgres.Store
	prefix string
}

// New returns a guard for the registry with keys in s below prefix ([registry.Options]; empty:
// the default). A nil store, or a prefix that no registry can have, is [namespace.ErrInvalid].
func New(s *postgres.Store, prefix string) (*Guard, error) {
	if s == nil {
		return nil, &namespace.Error{Kind: namespace.ErrInvalid, Message: "guard: the store is nil"}
	}
	if _, _, err := registry.GateKeys(prefix, "any"); err != nil {
		return nil, err
	}
	return &Guard{store: s, prefix: prefix}, nil
}

// GuardTx keeps the namespace Active until tx ends, so that its deletion sees all content that tx
// creates. Call it before the first statement that creates content. It costs one round trip.
//
// It refuses with [*namespace.Error] values: [namespace.ErrTerminating] (also
// [namespace.ErrForbidden]) and [namespace.ErrNotFound]. After these, tx can continue.
// [namespace.ErrConflict] occurs at REPEATABLE READ and SERIALIZABLE, if the namespace is being
// terminated or its gate was rewritten (as by a new quota) while tx runs: the server has refused
// the statement (SQLSTATE 40001, or 40P01 for a deadlock with another guarded transaction). Roll
// back and try again from the start. At these levels a namespace created after the snapshot of tx
// is not found.
//
// While a termination of the namespace waits for other guarded transactions, GuardTx waits too,
// until they end or ctx ends. Keep guarded transactions short.
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

// absent returns the reason for a missing gate.
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

// failed translates an error of the store.
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
