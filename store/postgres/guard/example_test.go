package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store/postgres/guard"
)

// A host inserts into a table of its own while the tenant is Active, and only then.
// (The program examples/orders shows it with a server.)
func ExampleGuard_GuardTx() {
	insert := func(ctx context.Context, pool *pgxpool.Pool, g *guard.Guard, tenant, item string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := g.GuardTx(ctx, tx, tenant); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO orders (tenant, item) VALUES ($1, $2)", tenant, item)
			return err
		})
	}
	answer := func(err error) string {
		switch {
		case errors.Is(err, namespace.ErrTerminating):
			return "the tenant is being deleted"
		case errors.Is(err, namespace.ErrNotFound):
			return "there is no such tenant"
		case errors.Is(err, namespace.ErrConflict):
			return "try again"
		}
		return fmt.Sprint(err)
	}
	_ = insert
	fmt.Println(answer(&namespace.Error{Kind: namespace.ErrTerminating}))
	// Output: the tenant is being deleted
}
