package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/store"
)

// HoldTx holds the entry at key in place until tx, a transaction of the host on
// the same database, ends: no commit deletes it before. It may still be given
// another value. When there is no such entry it is [store.ErrNotFound], and tx
// goes on.
//
// A deletion that waits goes before later holds of the same entry, so that it is
// not put off for ever; these then wait for it. At REPEATABLE READ and
// SERIALIZABLE a hold that came too late is refused by the server with the code
// 40001: the host rolls back and tries again, as with any other such error.
//
// It needs USAGE on the schema, and SELECT and UPDATE on the table state. It costs
// one round trip. Nothing else of the store is used, no other connection above all.
func (s *Store) HoldTx(ctx context.Context, tx pgx.Tx, key string) error {
	err := s.usableTx(ctx, tx)
	if err == nil {
		defer s.calls.leave()
		err = s.hold(ctx, tx, key)
	}
	return store.Wrap("hold", key, err)
}

// usableTx begins a call like enter, when tx can be used.
func (s *Store) usableTx(ctx context.Context, tx pgx.Tx) error {
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
	b.Queue(s.sql.pass, []byte(key), mark) // queues behind a waiting deletion
	b.Queue("rollback to savepoint nslifecycle_hold")
	b.Queue("release savepoint nslifecycle_hold")
	waiting, cancel := context.WithCancel(ctx) // it may wait for long: Close ends that
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
	return s.because(ctx, err)
}

// GetTx is [Store.Get] inside a transaction of the host, of the snapshot that the
// transaction sees.
func (s *Store) GetTx(ctx context.Context, tx pgx.Tx, key string) (store.Entry, error) {
	err := s.usableTx(ctx, tx)
	var e store.Entry
	if err == nil {
		defer s.calls.leave()
		if e, err = s.getFrom(ctx, tx, key); err != nil {
			err = s.because(ctx, err)
		}
	}
	return e, store.Wrap("get", key, err)
}
