package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
)

// New opens the store in a schema of the database that pool connects to. It creates the schema
// and its tables if they do not exist. The pool remains the caller's, who must close it after the
// store.
//
// A store uses up to three connections of the pool for its own work, one for each read in
// progress, and up to a quarter of the pool for deletions that wait for a hold (two in a pool of
// four to eleven). In a pool of fewer than four, one connection serves these deletions, and holds
// that always overlap may delay a deletion indefinitely. One more connection, outside of the
// pool, listens for notifications ([Options.NoListen]).
//
// The name of the schema has up to 63 lower-case letters, digits and underscores, and does not
// begin with a digit. The schema must be a store, be empty, or not exist; otherwise the error is
// [ErrForeign]. Other errors are [store.ErrInvalid], [ErrFormat], [ErrPrivilege], [ErrReadOnly],
// and errors of the server or the network.
func New(ctx context.Context, pool *pgxpool.Pool, schema string, options *Options) (*Store, error) {
	s, err := open(ctx, pool, schema, options)
	return s, store.Wrap("open", schema, err)
}

// Open is [New] with a pool of its own. It accepts the DSNs of [pgxpool.ParseConfig]: a URL, or
// words such as "host=... user=... pool_max_conns=10".
func Open(ctx context.Context, dsn, schema string, options *Options) (*Store, error) {
	s, err := openOwn(ctx, dsn, schema, options)
	return s, store.Wrap("open", schema, err)
}

func openOwn(ctx context.Context, dsn, schema string, options *Options) (*Store, error) {
	if dsn == "" {
		return nil, fmt.Errorf("%w: the DSN is empty", store.ErrInvalid)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: DSN: %s", store.ErrInvalid, dsnFault(err))
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = stallLimit / 2
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, pool, schema, options)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownPool = true
	return s, nil
}

// dsnFault returns the part of a DSN error that names the fault. The rest of the text, and the
// error itself, quote the DSN, which may contain a password.
func dsnFault(err error) string {
	text := err.Error()
	fault, _, _ := strings.Cut(text[strings.LastIndex(text, "`")+1:], " (")
	fault = strings.TrimPrefix(fault, ": ")
	if !faultText.MatchString(fault) {
		return "it cannot be parsed"
	}
	return fault
}

var faultText = regexp.MustCompile(`^(cannot|failed|invalid)( [a-zA-Z_/]+)+$`)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func open(ctx context.Context, pool *pgxpool.Pool, schema string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	switch {
	case pool == nil:
		return nil, fmt.Errorf("%w: the pool is nil", store.ErrInvalid)
	case !schemaName.MatchString(schema):
		return nil, fmt.Errorf("%w: schema %.80q: use up to 63 lower-case letters, digits and underscores, not beginning with a digit", store.ErrInvalid, schema)
	case len(schema) > 3 && schema[:3] == "pg_", schema == "information_schema":
		return nil, fmt.Errorf("%w: schema %q belongs to PostgreSQL", store.ErrInvalid, schema)
	}
	slots := waiters(pool.Config().MaxConns)
	s := &Store{
		pool:     pool,
		options:  o,
		sql:      newStatements(schema, o.times),
		queue:    groupcommit.New[*transaction](),
		slots:    make(chan struct{}, slots),
		long:     make(chan struct{}, slots-1),
		polling:  make(chan struct{}, 1),
		wake:     make(chan struct{}, 1),
		trimSoon: make(chan struct{}, 1),
	}
	h, err := s.migrate(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		return nil, refusal(err)
	}
	s.start(h)
	return s, nil
}

// waiters returns how many connections of a pool blocked deletions may use.
func waiters(conns int32) int32 {
	if conns < 4 {
		return 1
	}
	return max(2, conns/4)
}

// start starts the goroutines of the store.
func (s *Store) start(h head) {
	s.hub.Store(s.newHub(h))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.run)
	s.running.Go(s.follow)
	s.running.Go(s.trimLoop)
	if !s.options.NoListen {
		s.running.Go(s.listen)
	}
}

// openLimit bounds the time that an opening waits for other processes that open the store.
const openLimit = time.Minute
