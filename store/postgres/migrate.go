package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/store"
)

// format is the version of the tables. Each step of migrations leads to the next.
const format = int32(len(migrations))

// migrations[i] leads from format i to i+1. A released step is never changed.
var migrations = [...]string{`
CREATE TABLE {schema}.meta (
	one       bool PRIMARY KEY DEFAULT true CHECK (one),
	magic     text NOT NULL,
	format    int4 NOT NULL,
	epoch     text NOT NULL,
	compacted int8 NOT NULL
);
COMMENT ON TABLE {schema}.meta IS 'nslifecycle: the identity of this store, and the revision up to which its history was compacted';
INSERT INTO {schema}.meta (magic, format, epoch, compacted) VALUES ('` + magic + `', 0, '{epoch}', 0);

CREATE TABLE {schema}.state (
	key      bytea PRIMARY KEY,
	value    bytea NOT NULL,
	revision int8  NOT NULL
) WITH (fillfactor = 85);
COMMENT ON TABLE {schema}.state IS 'nslifecycle: the current entries. Reading them is safe; write only through the library';

CREATE TABLE {schema}.log (
	revision      int8  NOT NULL,
	seq           int4  NOT NULL,
	key           bytea NOT NULL,
	deleted       bool  NOT NULL,
	prev_revision int8,
	prev_value    bytea,
	PRIMARY KEY (revision, seq)
);
CREATE INDEX log_key ON {schema}.log (key, revision);
COMMENT ON TABLE {schema}.log IS 'nslifecycle: the changes, each with the entry before it';
` + views}

// views are for people who use SQL. The functions return NULL for bytes that are not text, JSON
// or a time, so that no entry makes a SELECT fail. They must not run in parallel workers, because
// catching an error takes a subtransaction.
const views = `
CREATE FUNCTION {schema}.try_text(bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS
$body$ BEGIN RETURN convert_from($1, 'UTF8'); EXCEPTION WHEN OTHERS THEN RETURN NULL; END $body$;
CREATE FUNCTION {schema}.try_json(bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS
$body$ BEGIN RETURN convert_from($1, 'UTF8')::jsonb; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $body$;
CREATE FUNCTION {schema}.try_time(text) RETURNS timestamptz LANGUAGE plpgsql STABLE STRICT AS
$body$ BEGIN RETURN CASE WHEN isfinite($1::timestamptz) THEN $1::timestamptz END; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $body$;

CREATE VIEW {schema}.namespaces AS
SELECT n.prefix, n.name, n.phase, n.finalizers, n.created, date_trunc('second', now() - n.created) AS age,
	n.deleted, n.conditions, n.labels, n.uid, n.revision, n.document
FROM (
	SELECT substring(k.key FROM '^/(.*)/namespaces/[^/]+$') AS prefix, substring(k.key FROM '[^/]+$') AS name,
		d.document #>> '{status,phase}' AS phase,
		d.document #> '{spec,finalizers}' AS finalizers,
		{schema}.try_time(d.document #>> '{metadata,creationTimestamp}') AS created,
		{schema}.try_time(d.document #>> '{metadata,deletionTimestamp}') AS deleted,
		d.document #> '{status,conditions}' AS conditions,
		d.document #> '{metadata,labels}' AS labels,
		d.document #>> '{metadata,uid}' AS uid,
		s.revision, d.document
	FROM {schema}.state s
	CROSS JOIN LATERAL (SELECT {schema}.try_text(s.key) AS key) k
	CROSS JOIN LATERAL (SELECT {schema}.try_json(s.value) AS document) d
	WHERE position('\x2f6e616d657370616365732f'::bytea IN s.key) > 0
) n
WHERE n.prefix IS NOT NULL AND jsonb_typeof(n.document) = 'object' AND EXISTS (
	SELECT FROM {schema}.state mark WHERE mark.key IN (
		convert_to('/' || n.prefix || '/.gate/' || n.name, 'UTF8'), convert_to('/' || n.prefix || '/.terminating/' || n.name, 'UTF8')));
COMMENT ON VIEW {schema}.namespaces IS 'nslifecycle: the namespaces of all registries in this store';
`

const magic = "nslifecycle"

// migrate brings the schema up to date and returns the head. It is one transaction, and processes
// run it one after another. If there is nothing to do, it writes nothing and needs no privilege
// to create.
func (s *Store) migrate(ctx context.Context) (h head, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, errors.New("the database did not answer in time"))
	defer cancel()
	if err := s.oldServer(ctx); err != nil {
		return h, err
	}
	if known, err := s.formatOf(ctx, s.pool); err != nil {
		return h, err
	} else if known == format && !s.options.NewEpoch {
		return s.inspect(ctx, s.pool)
	}
	for attempt := 1; ; attempt++ {
		h, err = s.change(ctx)
		switch code(err) {
		case codeDuplicateSchema, codeDuplicateTable, codeDuplicateFunction, codeUnique: // created concurrently by another process
			if attempt < attempts {
				continue
			}
		}
		return h, err
	}
}

// change creates or upgrades the schema, and begins a new epoch if required. The writer lock
// excludes writers. Before the lock exists, name conflicts in the catalog exclude other
// processes.
func (s *Store) change(ctx context.Context) (h head, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql.begin, "0"); err != nil {
			return err
		}
		if known, err := s.formatOf(ctx, tx); err != nil {
			return err
		} else if known > 0 {
			if _, err := tx.Exec(ctx, s.sql.lock); err != nil {
				return err
			}
		}
		if err := s.upgrade(ctx, tx); err != nil {
			return err
		}
		h, err = s.inspect(ctx, tx)
		if err == nil && s.options.NewEpoch {
			h, err = s.startEpoch(ctx, tx, h)
		}
		return err
	})
	return h, err
}

// database is a pool or a transaction.
type database interface {
	querier
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const leastServer = 150000

// oldServer refuses a server that is too old, and a standby.
func (s *Store) oldServer(ctx context.Context) error {
	var version string
	var standby bool
	if err := s.pool.QueryRow(ctx, "SELECT current_setting('server_version_num'), pg_is_in_recovery()").Scan(&version, &standby); err != nil {
		return err
	}
	if standby {
		return fmt.Errorf("%w: the server is a standby, connect to the primary", ErrReadOnly)
	}
	return checkServer(version)
}

func checkServer(version string) error {
	if n, err := strconv.Atoi(version); err != nil || n < leastServer {
		return fmt.Errorf("%w: the server has version %q, use PostgreSQL 15 (150000) or later", ErrFormat, version)
	}
	return nil
}

// formatOf returns the format of the schema. It is zero if the schema is empty or does not exist.
func (s *Store) formatOf(ctx context.Context, db database) (int32, error) {
	var others, ours int
	err := db.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)
			+ (SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1),
		(SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relname = 'meta' AND c.relkind = 'r' AND a.attname IN ('magic', 'format', 'epoch', 'compacted'))`,
		s.sql.schema).Scan(&others, &ours)
	if err != nil || others == 0 {
		return 0, err
	}
	if ours != 4 {
		return 0, fmt.Errorf("%w: schema %q has objects of another program, choose an empty schema", ErrForeign, s.sql.schema)
	}
	var mark string
	var found int32
	err = db.QueryRow(ctx, "SELECT magic, format FROM "+pgx.Identifier{s.sql.schema, "meta"}.Sanitize()).Scan(&mark, &found)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("%w: table meta of schema %q has no row", ErrCorrupt, s.sql.schema)
	case err != nil:
		return 0, err
	case mark != magic:
		return 0, fmt.Errorf("%w: schema %q has objects of another program, choose an empty schema", ErrForeign, s.sql.schema)
	case found > format:
		return 0, fmt.Errorf("%w: schema %q has format %d, this driver supports up to %d: use a newer driver", ErrFormat, s.sql.schema, found, format)
	case found < 1:
		return 0, fmt.Errorf("%w: schema %q has the invalid format %d", ErrCorrupt, s.sql.schema, found)
	}
	return found, nil
}

// upgrade runs the missing steps.
func (s *Store) upgrade(ctx context.Context, tx pgx.Tx) error {
	from, err := s.formatOf(ctx, tx) // again, under the lock
	if err != nil || from == format {
		return err
	}
	quoted := pgx.Identifier{s.sql.schema}.Sanitize()
	if from == 0 {
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", s.sql.schema).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
				return create(err, "CREATE on the database, or create the schema")
			}
		}
	}
	named := strings.NewReplacer("{schema}", quoted, "{epoch}", rand.Text())
	for _, step := range migrations[from:] {
		for _, statement := range strings.SplitAfter(named.Replace(step), ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.Exec(ctx, statement); err != nil {
				return create(err, "CREATE on the schema")
			}
		}
	}
	_, err = tx.Exec(ctx, "UPDATE "+quoted+".meta SET format = $1::int4", format)
	return err
}

// create explains an error of a statement that creates something.
func create(err error, grant string) error {
	if code(err) == codePrivilege {
		return fmt.Errorf("%w: the store must create its tables, grant %s: %w", ErrPrivilege, grant, err)
	}
	return err
}

// inspect checks the privileges of the role and reads the head.
func (s *Store) inspect(ctx context.Context, db database) (h head, err error) {
	var usage bool
	if err := db.QueryRow(ctx, "SELECT has_schema_privilege($1, 'USAGE')", s.sql.schema).Scan(&usage); err != nil {
		return h, err
	}
	if !usage {
		return h, fmt.Errorf("%w: grant USAGE on schema %q", ErrPrivilege, s.sql.schema)
	}
	for _, need := range []struct{ table, rights string }{
		{"meta", "SELECT,UPDATE"}, {"state", "SELECT,INSERT,UPDATE,DELETE"}, {"log", "SELECT,INSERT,UPDATE,DELETE"},
	} {
		for right := range strings.SplitSeq(need.rights, ",") {
			var granted bool
			table := pgx.Identifier{s.sql.schema, need.table}.Sanitize()
			if err := db.QueryRow(ctx, "SELECT has_table_privilege($1, $2)", table, right).Scan(&granted); err != nil {
				return h, err
			}
			if !granted {
				return h, fmt.Errorf("%w: grant %s on table %s", ErrPrivilege, right, table)
			}
		}
	}
	if err := db.QueryRow(ctx, s.sql.head).Scan(h.targets()...); err != nil {
		return h, err
	}
	return h, h.known()
}

// startEpoch begins a new history. Its revisions are far from those of the lost history and of
// other restores of the same backup. There is room for at least 4,000 restores.
func (s *Store) startEpoch(ctx context.Context, tx pgx.Tx, h head) (head, error) {
	if h.revision > lastEpoch {
		return h, fmt.Errorf("%w: revision %d leaves no room for another history, copy the entries to a new store", store.ErrTooLarge, h.revision)
	}
	h.epoch = rand.Text()
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	h.revision += epochJump + store.Revision(binary.BigEndian.Uint64(random[:])%epochSpread)
	h.compacted = h.revision
	_, err := tx.Exec(ctx, "UPDATE "+pgx.Identifier{s.sql.schema, "meta"}.Sanitize()+" SET epoch = $1::text, compacted = $2::int8", h.epoch, int64(h.compacted))
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_notify($1, $2)", s.sql.channel, strconv.FormatInt(int64(h.revision), 10))
	}
	return h, err
}
