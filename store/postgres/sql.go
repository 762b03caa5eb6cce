package postgres

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// statements holds the SQL statements for one schema.
type statements struct {
	schema  string // unquoted
	channel string // of notifications

	begin, lock, terminate, head, rows, rowsWithin, sizes, lockPut, lockDelete string
	insert, update, remove, log, compact                                       string
	get, list, listAt, count, countAt, replay                                  string
	waitPut, waitDelete, queueHold, hold, trim                                 string
}

func newStatements(schema string, t times) *statements {
	s := &statements{
		schema:  schema,
		channel: fmt.Sprintf("nslifecycle_%016x", uint64(hash64("channel", schema))),
	}
	named := strings.NewReplacer(
		"{schema}", pgx.Identifier{schema}.Sanitize(),
		"{head}", headColumns,
		"{from}", headTables,
		"{stall}", milliseconds(t.stall),
		"{commit}", milliseconds(t.commit),
	).Replace
	for text, target := range map[string]*string{
		textBegin: &s.begin, textHead: &s.head, textLock: &s.lock, textTerminate: &s.terminate, textRows: &s.rows, textRowsWithin: &s.rowsWithin, textSizes: &s.sizes, textLockPut: &s.lockPut, textLockDelete: &s.lockDelete,
		textInsert: &s.insert, textUpdate: &s.update, textRemove: &s.remove, textLog: &s.log, textCompact: &s.compact,
		textGet: &s.get, textList: &s.list, textListAt: &s.listAt, textCount: &s.count, textCountAt: &s.countAt, textReplay: &s.replay,
		textWaitPut: &s.waitPut, textWaitDelete: &s.waitDelete, textQueueHold: &s.queueHold, textHold: &s.hold, textTrim: &s.trim,
	} {
		*target = named(named(text)) // {from} contains {schema}
	}
	return s
}

// The head describes the current state of the store. Its revision is the revision of the last row
// of the log, or the compacted one if the log is empty. The log only grows at its end, so a
// reader finds the row with one step in an index. Old versions of a counter row would pile up
// while a long transaction of another program keeps them alive.
const (
	headColumns = `m.format, m.epoch, m.compacted, greatest(m.compacted, (SELECT l.revision FROM {schema}.log l ORDER BY l.revision DESC LIMIT 1))`
	headTables  = `{schema}.meta m`
)

const (
	// Settings of this transaction that override those of the role: the lock timeout ($1), and a
	// timeout that ends the transaction of a process that stops in the middle.
	textBegin = `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true),
	set_config('idle_in_transaction_session_timeout', '{stall}', true),
	set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') END, true)`

	// The writer lock. Only roles that may write to the store may lock the row. The next
	// statement sees the writes of the previous holder.
	textLock = `SELECT FROM {schema}.meta FOR NO KEY UPDATE`

	// The idle timeout of the server does not run while a message, or a batch of messages, is
	// incomplete: a process that stops there would keep the writer lock. So a waiting writer ends
	// its connection after the limit of commits. By then that process takes the outcome as unknown.
	textTerminate = `SELECT pg_terminate_backend(a.pid) FROM {schema}.meta m JOIN pg_stat_activity a ON a.backend_xid = m.xmax
	WHERE a.datname = current_database() AND a.state = 'active'
	AND a.wait_event IN ('ClientRead', 'ClientWrite') AND a.query_start < clock_timestamp() - interval '{commit}'`

	textHead = `SELECT {head} FROM {from}`

	// Head and entries in one snapshot.
	textRows = `SELECT {head}, s.key, s.value, s.revision FROM {from} LEFT JOIN {schema}.state s ON s.key = ANY($1::bytea[])`

	// The same, but with NULL for all values if they exceed a size together.
	textRowsWithin = `SELECT {head}, s.key, CASE WHEN s.total <= $2::int8 THEN s.value END, s.revision FROM {from} LEFT JOIN (
	SELECT key, value, revision, sum(octet_length(value)) OVER () AS total FROM {schema}.state WHERE key = ANY($1::bytea[])
) s ON true`
	textSizes = `SELECT key, octet_length(value) FROM {schema}.state WHERE key = ANY($1::bytea[])`

	textLockPut    = `SELECT key FROM {schema}.state WHERE key = ANY($1::bytea[]) FOR NO KEY UPDATE SKIP LOCKED`
	textLockDelete = `SELECT key FROM {schema}.state WHERE key = ANY($1::bytea[]) FOR UPDATE SKIP LOCKED`

	textInsert = `INSERT INTO {schema}.state (key, value, revision) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::int8[])`
	textUpdate = `UPDATE {schema}.state s SET value = u.value, revision = u.revision
	FROM unnest($1::bytea[], $2::bytea[], $3::int8[]) AS u(key, value, revision) WHERE s.key = u.key`
	textRemove = `DELETE FROM {schema}.state WHERE key = ANY($1::bytea[])`
	textLog    = `WITH written AS (INSERT INTO {schema}.log (revision, seq, key, deleted, prev_revision, prev_value)
	SELECT * FROM unnest($1::int8[], $2::int4[], $3::bytea[], $4::bool[], $5::int8[], $6::bytea[]))
	SELECT pg_notify($7, $8)`
	textCompact = `UPDATE {schema}.meta SET compacted = greatest(compacted, $1::int8)`

	textGet = `SELECT value, revision FROM {schema}.state WHERE key = $1::bytea`

	textList = `SELECT {head}, s.key, s.value, s.revision FROM {from} LEFT JOIN LATERAL (
	SELECT key, value, revision FROM {schema}.state WHERE key >= $1::bytea AND key < $2::bytea ORDER BY key LIMIT $3::int8
) s ON true ORDER BY s.key`

	// At an earlier revision: unchanged entries are in state. For a changed key, its first change
	// since has the entry before.
	textListAt = `SELECT {head}, s.key, s.value, s.revision FROM {from} LEFT JOIN LATERAL (
	(SELECT key, value, revision FROM {schema}.state
		WHERE key >= $1::bytea AND key < $2::bytea AND revision <= $4::int8 ORDER BY key LIMIT $3::int8)
	UNION ALL
	(SELECT key, prev_value, prev_revision FROM (
		SELECT DISTINCT ON (key) key, prev_value, prev_revision FROM {schema}.log
		WHERE key >= $1::bytea AND key < $2::bytea AND revision > $4::int8 ORDER BY key, revision
	) since WHERE prev_revision IS NOT NULL ORDER BY key LIMIT $3::int8)
	ORDER BY key LIMIT $3::int8
) s ON true ORDER BY s.key`

	// The same, counted only.
	textCount = `SELECT {head}, (SELECT count(*) FROM (
	SELECT FROM {schema}.state WHERE key >= $1::bytea AND key < $2::bytea LIMIT $3::int8
) s) FROM {from}`
	textCountAt = `SELECT {head}, (SELECT count(*) FROM (
	SELECT FROM {schema}.state WHERE key >= $1::bytea AND key < $2::bytea AND revision <= $4::int8
	UNION ALL
	SELECT FROM (
		SELECT DISTINCT ON (key) prev_revision FROM {schema}.log
		WHERE key >= $1::bytea AND key < $2::bytea AND revision > $4::int8 ORDER BY key, revision
	) since WHERE prev_revision IS NOT NULL
	LIMIT $3::int8
) s) FROM {from}`

	// The log has the entry before each change. The value that the change wrote is in state, or
	// is the entry before the next change of the key.
	textReplay = `SELECT {head}, c.revision, c.key, c.deleted, c.prev_revision, c.prev_value, c.value, c.last FROM {from} LEFT JOIN LATERAL (
	SELECT l.revision, l.seq, l.key, l.deleted, l.prev_revision, l.prev_value, coalesce(s.value, n.prev_value) AS value,
		sum(octet_length(l.key) + coalesce(octet_length(l.prev_value), 0) + coalesce(octet_length(s.value), octet_length(n.prev_value), 0))
			OVER (ORDER BY l.revision) AS size, min(l.revision) OVER () AS first, max(l.revision) OVER () AS last
	FROM (SELECT * FROM {schema}.log WHERE revision > $1::int8 AND revision <= $2::int8
		AND key >= $3::bytea AND key < $4::bytea ORDER BY revision, seq LIMIT $5::int8) l
	LEFT JOIN {schema}.state s ON NOT l.deleted AND s.key = l.key AND s.revision = l.revision
	LEFT JOIN LATERAL (SELECT prev_value FROM {schema}.log WHERE key = l.key AND revision > l.revision AND NOT l.deleted AND s.key IS NULL
		ORDER BY key, revision LIMIT 1) n ON true
) c ON c.size <= $6::int8 OR c.revision = c.first ORDER BY c.revision, c.seq`

	textWaitPut    = `SELECT FROM {schema}.state WHERE key = ANY($1::bytea[]) ORDER BY key FOR NO KEY UPDATE`
	textWaitDelete = `SELECT FROM {schema}.state WHERE key = ANY($1::bytea[]) ORDER BY key FOR UPDATE`

	// A hold waits behind a waiting deletion, which has locked the row FOR NO KEY UPDATE. A
	// transaction that holds the entry already does not wait, because the deletion waits for it.
	textQueueHold = `SELECT FROM {schema}.state WHERE key = $1::bytea
	AND position($2::text IN coalesce(current_setting('nslifecycle.held', true), '')) = 0 FOR SHARE`
	textHold = `SELECT 1, set_config('nslifecycle.held', concat(current_setting('nslifecycle.held', true), ' ', $2::text), true)
	FROM {schema}.state WHERE key = $1::bytea FOR KEY SHARE`

	textTrim = `WITH old AS (
	SELECT revision, seq FROM {schema}.log WHERE revision > $1::int8 AND revision <= (SELECT compacted FROM {schema}.meta)
	ORDER BY revision, seq LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), gone AS (DELETE FROM {schema}.log l USING old WHERE l.revision = old.revision AND l.seq = old.seq RETURNING l.revision)
SELECT count(*), coalesce(max(revision), 0) FROM gone`
)

// milliseconds formats d for the server.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// hash64 never changes, so that processes of all versions use the same channel.
func hash64(kind, text string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("nslifecycle/" + kind + "/" + text)) // never fails
	return int64(h.Sum64())
}

// holdMark returns the mark of an entry in the setting that lists the entries held by a
// transaction.
func (s *statements) holdMark(key string) string {
	return fmt.Sprintf("%016x", uint64(hash64(s.schema, key)))
}
