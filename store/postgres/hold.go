package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/store"
)

// HoldTx prevents the deletion of the entry at key until tx, a transaction of the host on the
// same database, ends. The entry may still get another value. If there is no such entry, the
// error is [store.ErrNotFound], and tx can continue.
//
// A waiting deletion has priority over later holds of the same entry, which wait for it, so that
// overlapping holds cannot delay it forever. At REPEATABLE READ and SERIALIZABLE the server
// refuses a hold that comes too late with the code 40001. The host then rolls back and tries
// again.
//
// HoldTx requires USAGE on the schema, and SELECT and UPDATE on the table state. It costs one
// round trip on the connection of tx, and uses no other connection.
func (s *Store) HoldTx(ctx context.Context, tx pgx.Tx, key string) error {
	err := s.enterTx(ctx, tx)
	if err == nil {
		defer s.calls.leave()
		err = s.hold(ctx, tx, key)
	}
	return store.Wrap("hold", key, err)
}

// enterTx begins a call on tx.
func (s *Store) enterTx(ctx context.Context, tx pgx.Tx) error {
	if tx == nil {
		return fmt.Errorf("%w: the transaction is nil", store.ErrInvalid)
	}
	return s.enter(ctx)
}

func (s *Store) hold(ctx context.Context, tx pgx.Tx, key string) error {
	if err := store.CheckKey(key, limits); err != nil {
		return err
	}
	mark := s.sql.holdMark(key)
	var b pgx.Batch
	b.Queue("savepoint nslifecycle_hold")
	b.Queue(s.sql.queueHold, []byte(key), mark) // waits behind a waiting deletion
	b.Queue("rollback to savepoint nslifecycle_hold")
	b.Queue("release savepoint nslifecycle_hold")
	waiting, cancel := context.WithCancel(ctx) // the wait may be long, so Close must end it
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	b.Queue(s.sql.hold, []byte(key), mark).QueryRow(func(row pgx.Row) error {
		var there int
		var held string
		return row.Scan(&there, &held)
	})
	err := tx.SendBatch(waiting, &b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNotFound
	}
	return s.cause(ctx, err)
}

// GetTx is [Store.Get] in the snapshot of a transaction of the host.
func (s *Store) GetTx(ctx context.Context, tx pgx.Tx, key string) (store.Entry, error) {
	err := s.enterTx(ctx, tx)
	var e store.Entry
	if err == nil {
		defer s.calls.leave()
		if e, err = s.getFrom(ctx, tx, key); err != nil {
			err = s.cause(ctx, err)
		}
	}
	return e, store.Wrap("get", key, err)
}
