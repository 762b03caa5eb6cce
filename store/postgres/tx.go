package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nslifecycle/nslifecycle/store"
)

const textOpen = "begin isolation level read committed read write"

// writeTx is one transaction of the server that decides and writes a batch, in two round trips.
// The first takes the writer lock and reads. The second writes and commits. Meanwhile no other
// transaction can change the entries that were read.
type writeTx struct {
	store     *Store
	conn      *pgx.Conn
	held      []string      // held keys to wait for before the writer lock is taken
	slice     time.Duration // how long to wait for them
	fit       int           // the number of requests that fit; the other ones would make the batch too large
	requests  []*request    // the requests of the batch; all of them if it fails before it is submitted
	batch     batch
	submitted bool // from now on a failure may leave the outcome unknown
}

func (s *Store) newWriteTx(conn *pgx.Conn, held []string) *writeTx {
	return &writeTx{store: s, conn: conn, held: held}
}

// run decides the requests and commits their writes. If it fails before submitted is set, nothing
// happened.
func (t *writeTx) run(ctx context.Context, requests []*request) error {
	t.requests = requests
	err := t.prepare(ctx, requests)
	if err != nil {
		t.abandon()
		return err
	}
	t.store.queue.Return(requests[t.fit:])
	t.requests = t.store.queue.Submit(requests[:t.fit])
	for _, r := range t.requests {
		t.batch.decide(r)
	}
	t.batch.retain(t.store.options)
	if !t.batch.dirty() {
		t.abandon()
		return nil
	}
	t.submitted = true
	if err := t.write(); err != nil {
		t.abandon()
		return err
	}
	return nil
}

// abandon rolls the transaction back if the connection still works. Otherwise the pool drops the
// connection.
func (t *writeTx) abandon() {
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.store.options.times.stall)
	defer cancel()
	_, _ = t.conn.Exec(ctx, "rollback")
}

// prepare takes the writer lock and reads the entries that the requests touch.
func (t *writeTx) prepare(ctx context.Context, requests []*request) error {
	if len(t.held) > 0 {
		if err := t.await(ctx, requests[0].Work); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, t.store.options.times.lock)
	defer cancel()
	err := t.read(limited, requests)
	if timedOut(err) {
		t.abandon()
		_, _ = t.conn.Exec(limited, t.store.sql.terminate) // a role without this privilege waits for a process with it
	}
	return late(ctx, limited, err)
}

// read is the first round trip.
func (t *writeTx) read(ctx context.Context, requests []*request) error {
	touched, puts, deletes := touchedBy(requests)
	sql := t.store.sql
	var b pgx.Batch
	if len(t.held) == 0 {
		b.Queue(textOpen)
	}
	b.Queue(sql.begin, milliseconds(t.store.options.times.stall)) // after this timeout prepare looks for a stopped holder
	b.Queue(sql.lock)
	t.batch.stored = make(map[string]*store.Entry, len(touched))
	t.batch.locked = make(map[string]bool, len(puts)+len(deletes))
	t.batch.deletable = make(map[string]bool, len(deletes))
	t.batch.now = map[string]*store.Entry{}
	if t.fit = len(requests); t.fit == 1 {
		b.Queue(sql.rows, touched).Query(t.readStored)
	} else {
		b.Queue(sql.rowsWithin, touched, int64(t.store.options.load)).Query(t.readStored)
	}
	if len(puts) > 0 {
		b.Queue(sql.lockPut, puts).Query(t.readLocked(t.batch.locked))
	}
	if len(deletes) > 0 {
		b.Queue(sql.lockDelete, deletes).Query(t.readLocked(t.batch.locked, t.batch.deletable))
	}
	if err := t.conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if t.tooLarge() {
		if err := t.shrink(ctx, requests, touched); err != nil {
			return err
		}
	}
	t.batch.before = t.batch.head
	return t.batch.head.known()
}

func (t *writeTx) readStored(rows pgx.Rows) (err error) {
	t.batch.head, err = readRows(rows, t.batch.stored)
	return err
}

// tooLarge reports whether the server left out the values, see textRowsWithin.
func (t *writeTx) tooLarge() bool {
	for _, e := range t.batch.stored {
		return e.Value == nil
	}
	return false
}

// shrink reduces the batch to the requests whose stored values fit, but at least one, and reads
// their entries.
func (t *writeTx) shrink(ctx context.Context, requests []*request, touched [][]byte) error {
	rows, err := t.conn.Query(ctx, t.store.sql.sizes, touched)
	if err != nil {
		return err
	}
	sizes := make(map[string]int, len(touched))
	var key []byte
	var size int
	if _, err := pgx.ForEachRow(rows, []any{&key, &size}, func() error {
		sizes[string(key)] = size
		return nil
	}); err != nil {
		return err
	}
	total := 0
	for t.fit = 0; t.fit < len(requests); t.fit++ {
		keys := map[string]struct{}{}
		requests[t.fit].Work.keys(keys)
		for key := range keys {
			total += sizes[key]
			delete(sizes, key) // count each key once
		}
		if t.fit > 0 && total > t.store.options.load {
			break
		}
	}
	touched, _, _ = touchedBy(requests[:t.fit])
	clear(t.batch.stored)
	if rows, err = t.conn.Query(ctx, t.store.sql.rows, touched); err != nil {
		return err
	}
	return t.readStored(rows)
}

// touchedBy returns all keys of the requests, and the keys that they put and delete. A key may be
// both put and deleted; a put needs only the weaker lock.
func touchedBy(requests []*request) (touched, puts, deletes [][]byte) {
	all := map[string]struct{}{}
	type use struct {
		key    string
		delete bool
	}
	seen := map[use]bool{}
	for _, r := range requests {
		r.Work.keys(all)
		for i := range r.Work.operations {
			op := &r.Work.operations[i]
			u := use{op.Key, op.Delete}
			switch {
			case seen[u]:
			case op.Delete:
				deletes = append(deletes, []byte(op.Key))
			default:
				puts = append(puts, []byte(op.Key))
			}
			seen[u] = true
		}
	}
	for key := range all {
		touched = append(touched, []byte(key))
	}
	return touched, puts, deletes
}

// readLocked adds the keys of the result to sets.
func (t *writeTx) readLocked(sets ...map[string]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var key []byte
			if err := rows.Scan(&key); err != nil {
				return err
			}
			for _, set := range sets {
				set[string(key)] = true
			}
		}
		return rows.Err()
	}
}

// await begins the transaction and waits until no transaction of a host holds the keys against r.
// It does so before it takes the writer lock, so that other writers go on.
func (t *writeTx) await(ctx context.Context, r *transaction) error {
	sql := t.store.sql
	var b pgx.Batch
	b.Queue(textOpen)
	b.Queue(sql.begin, milliseconds(t.slice))
	all := make([][]byte, len(t.held))
	held := make(map[string]bool, len(t.held))
	for i, key := range t.held {
		all[i], held[key] = []byte(key), true
	}
	deleted := make([][]byte, 0, len(t.held))
	for i := range r.operations {
		if op := &r.operations[i]; op.Delete && held[op.Key] {
			deleted = append(deleted, []byte(op.Key))
		}
	}
	// Both statements lock in key order, to avoid deadlocks. The first makes later holds wait for
	// this transaction. The second waits for earlier holds.
	b.Queue(sql.waitPut, all)
	if len(deleted) > 0 {
		b.Queue(sql.waitDelete, deleted)
	}
	// The server ends the wait. This limit is for a server that no longer answers.
	limited, cancel := context.WithTimeout(ctx, time.Duration(b.Len())*t.slice+t.store.options.times.lock)
	defer cancel()
	return late(ctx, limited, t.conn.SendBatch(limited, &b).Close())
}

// write writes the batch and commits it. It has a time limit of its own instead of a caller's
// context, since nothing may interrupt a commit.
func (t *writeTx) write() error {
	ctx, cancel := context.WithTimeout(context.Background(), t.store.options.times.commit)
	defer cancel()
	sql := t.store.sql
	w := t.batch.rows()
	var b pgx.Batch
	if c := &w.inserted; len(c.keys) > 0 {
		b.Queue(sql.insert, c.keys, c.values, c.revisions)
	}
	if c := &w.updated; len(c.keys) > 0 {
		b.Queue(sql.update, c.keys, c.values, c.revisions)
	}
	if len(w.removed) > 0 {
		b.Queue(sql.remove, w.removed)
	}
	for l := range w.log.slices(t.store.options.load) {
		b.Queue(sql.log, l.revisions, l.seqs, l.keys, l.deleted, l.prevRevisions, l.prevValues,
			sql.channel, fmt.Sprint(int64(t.batch.head.revision)))
	}
	if t.batch.head.compacted != t.batch.before.compacted {
		b.Queue(sql.compact, int64(t.batch.head.compacted))
	}
	b.Queue("commit")
	results := t.conn.SendBatch(ctx, &b)
	err := committed(results, b.Len())
	if closeErr := results.Close(); err == nil && closeErr != nil && t.conn.IsClosed() {
		return nil // the answer to COMMIT arrived before the connection broke
	}
	if pgconn.SafeToRetry(err) {
		return err
	}
	return late(context.Background(), ctx, err)
}

// committed reads the results of n statements, of which the last is COMMIT.
func committed(results pgx.BatchResults, n int) error {
	for i := range n {
		tag, err := results.Exec()
		if err != nil && i < n-1 {
			return &uncommittedError{err}
		}
		if err != nil {
			return err
		}
		if i == n-1 && tag.String() != "COMMIT" {
			return fmt.Errorf("%w: the server answered %q to COMMIT", errRolledBack, tag)
		}
	}
	return nil
}

// uncommittedError is the failure of a statement before COMMIT.
type uncommittedError struct{ error }

func (e *uncommittedError) Unwrap() error { return e.error }

// errRolledBack reports that the server answered COMMIT with a rollback.
var errRolledBack = errors.New("the transaction was rolled back")
