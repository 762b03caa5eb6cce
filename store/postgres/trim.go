package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// trimRows bounds the records that one statement drops.
const trimRows = 2000

// trimEvery is the interval, in units of [Options.Poll], of looking for old records that another
// process has left, that were locked, or that an error has left.
const trimEvery = 20

// trimLoop drops compacted records, a few at a time. It needs no writer lock, because no
// transaction reads them.
func (s *Store) trimLoop() {
	ticker := time.NewTicker(trimEvery * min(s.options.Poll, time.Minute))
	defer ticker.Stop()
	for {
		from, n, err := int64(-1), int64(trimRows), error(nil)
		for err == nil && n == trimRows {
			from, n, err = s.trim(from)
		}
		select {
		case <-s.trimSoon:
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// trim drops some records after a revision. It returns their number, and the revision after which
// there may be more. The statement reads the compacted revision from the database, because
// the one that this process remembers may belong to a history from before a restore.
func (s *Store) trim(from int64) (next, n int64, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.options.times.lock)
	defer cancel()
	var last int64
	var b pgx.Batch
	b.Queue(textOpen)
	b.Queue(s.sql.trim, from, int64(trimRows)).QueryRow(func(row pgx.Row) error { return row.Scan(&n, &last) })
	b.Queue("commit")
	err = s.pool.SendBatch(ctx, &b).Close()
	return max(from, last-1), n, err // the commit at last may have more records
}
