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

// turn is one transaction of the server that decides and writes a batch, in two
// round trips: one takes the writer lock and reads, the other writes and
// commits. Between them nothing can change what was read.
type turn struct {
	store     *Store
	conn      *pgx.Conn
	held      []string      // keys to wait for before the lock is taken
	slice     time.Duration // and for how long
	fit       int           // how many of the requests it takes; the others would make it too large
	requests  []*request    // that it is about, all those that were given when it failed before submitted
	batch     batch
	submitted bool // from here on a failure may leave the outcome unknown
}

func (s *Store) newTurn(conn *pgx.Conn, held []string) *turn {
	return &turn{store: s, conn: conn, held: held}
}

// run decides the requests and commits what they write. When it fails before
// submitted is set, nothing happened.
func (t *turn) run(ctx context.Context, requests []*request) error {
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

// abandon ends the transaction without a commit, if the connection still works;
// the pool drops one that does not.
func (t *turn) abandon() {
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.store.options.times.stall)
	defer cancel()
	_, _ = t.conn.Exec(ctx, "rollback")
}

// prepare takes the lock and reads what the requests touch.
func (t *turn) prepare(ctx context.Context, requests []*request) error {
	if len(t.held) > 0 {
		if err := t.await(ctx, requests[0].Work); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, t.store.options.times.turn)
	defer cancel()
	err := t.read(limited, requests)
	if timedOut(err) {
		t.abandon()
		_, _ = t.conn.Exec(limited, t.store.sql.eject) // who may not, waits for one who may
	}
	return late(ctx, limited, err)
}

// read is the first round trip.
func (t *turn) read(ctx context.Context, requests []*request) error {
	touched, puts, deletes := touchedBy(requests)
	sql := t.store.sql
	var b pgx.Batch
	if len(t.held) == 0 {
		b.Queue(textOpen)
	}
	b.Queue(sql.begin, milliseconds(t.store.options.times.stall)) // after this timeout it looks for a stopped holder
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

func (t *turn) readStored(rows pgx.Rows) (err error) {
	t.batch.head, err = readRows(rows, t.batch.stored)
	return err
}

// tooLarge reports whether the server kept the values to itself, see textRowsWithin.
func (t *turn) tooLarge() bool {
	for _, e := range t.batch.stored {
		return e.Value == nil
	}
	return false
}

// shrink makes the turn one of as many requests as have values of the bounded size,
// but at least of one, and reads these.
func (t *turn) shrink(ctx context.Context, requests []*request, touched [][]byte) error {
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
			delete(sizes, key) // it counts once
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

// touchedBy returns the keys that requests ask of, put and delete. A key that one
// puts and another deletes is among both: a put needs the weaker lock only.
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

// readLocked reads keys into sets.
func (t *turn) readLocked(sets ...map[string]bool) func(pgx.Rows) error {
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

// await begins the transaction and waits until nobody holds the keys against what
// r does to them. It does so before it takes the writer lock, so that they
// go on meanwhile.
func (t *turn) await(ctx context.Context, r *transaction) error {
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
	// Both lock in the order of keys, to avoid deadlocks. The first queues later holds behind
	// this transaction; the second waits for earlier holds.
	b.Queue(sql.waitPut, all)
	if len(deleted) > 0 {
		b.Queue(sql.waitDelete, deleted)
	}
	// The server ends the wait; this limit is for one that fell silent.
	limited, cancel := context.WithTimeout(ctx, time.Duration(b.Len())*t.slice+t.store.options.times.turn)
	defer cancel()
	return late(ctx, limited, t.conn.SendBatch(limited, &b).Close())
}

// write writes the batch and commits it. It has a time limit of its own and
// nobody's context: a commit must not be cut off.
func (t *turn) write() error {
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
		return nil // the answer to COMMIT came before the connection went
	}
	if pgconn.SafeToRetry(err) {
		return err
	}
	return late(context.Background(), ctx, err)
}

// committed reads the results of n statements, the last of which is COMMIT.
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

// errRolledBack is a commit that the server turned into a rollback.
var errRolledBack = errors.New("the transaction was rolled back")
