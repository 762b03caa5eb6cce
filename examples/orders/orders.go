package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store/postgres/guard"
)

var ordersType = namespace.ResourceType{Group: "shop.example.com", Name: "orders"}

// orders is the service's own table.
type orders struct {
	pool  *pgxpool.Pool
	guard *guard.Guard
	table string // quoted
}

// newOrders makes the table when it is not there.
func newOrders(ctx context.Context, pool *pgxpool.Pool, g *guard.Guard, schema string) (*orders, error) {
	quoted := pgx.Identifier{schema}.Sanitize()
	o := &orders{pool: pool, guard: g, table: pgx.Identifier{schema, "orders"}.Sanitize()}
	for _, text := range []string{
		"CREATE SCHEMA IF NOT EXISTS " + quoted,
		"CREATE TABLE IF NOT EXISTS " + o.table + " (tenant text, id bigint GENERATED ALWAYS AS IDENTITY, item text NOT NULL, PRIMARY KEY (tenant, id))",
	} {
		if _, err := pool.Exec(ctx, text); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// create creates an order of an Active tenant: the check and the row are one
// transaction, so that none is left behind when the tenant is deleted.
func (o *orders) create(ctx context.Context, level pgx.TxIsoLevel, tenant, item string) error {
	for {
		err := pgx.BeginTxFunc(ctx, o.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			if err := o.guard.GuardTx(ctx, tx, tenant); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO "+o.table+" (tenant, item) VALUES ($1, $2)", tenant, item)
			return err
		})
		if !again(err) {
			return err
		}
	}
}

// again reports whether a transaction has to be tried once more: the tenant was
// changing at that moment, or the server could not put it in order with others.
func again(err error) bool {
	var server interface{ SQLState() string }
	return errors.Is(err, namespace.ErrConflict) || errors.As(err, &server) && server.SQLState() == "40001"
}

// count returns how many orders a tenant has.
func (o *orders) count(ctx context.Context, tenant string) (n int, err error) {
	err = o.pool.QueryRow(ctx, "SELECT count(*) FROM "+o.table+" WHERE tenant = $1", tenant).Scan(&n)
	return n, err
}

// batch is how many orders one transaction deletes: short ones hold up nobody.
const batch = 500

// empty deletes the orders of a tenant, batch by batch, and returns how many are
// left. No batch touches the orders of a later tenant of the same name.
func (o *orders) empty(ctx context.Context, target deleter.Target) (remaining int, err error) {
	for {
		deleted := 0
		err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
			if err := o.guard.DeletingTx(ctx, tx, target); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, fmt.Sprintf(
				"DELETE FROM %[1]s WHERE (tenant, id) IN (SELECT tenant, id FROM %[1]s WHERE tenant = $1 ORDER BY id LIMIT $2)", o.table), target.Namespace, batch)
			deleted = int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return 0, err
		}
		if deleted < batch {
			return o.count(ctx, target.Namespace)
		}
	}
}
