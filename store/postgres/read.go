package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/store"
)

// head is the current state of the store.
type head struct {
	format              int32
	epoch               string
	compacted, revision store.Revision
}

// targets returns the scan targets for a head.
func (h *head) targets(more ...any) []any {
	return append([]any{&h.format, &h.epoch, &h.compacted, &h.revision}, more...)
}

// check returns the reason why position cannot be read, or nil.
func (h *head) check(p store.Position) error {
	switch {
	case p.Epoch != "" && p.Epoch != h.epoch:
		return fmt.Errorf("%w: the position has epoch %.64q, the store has %q", store.ErrGone, p.Epoch, h.epoch)
	case p.Revision > h.revision:
		return &store.FutureError{Asked: p.Revision, Current: h.revision}
	case p.Revision < h.compacted:
		return fmt.Errorf("%w: revision %d, the history starts at %d", store.ErrGone, p.Revision, h.compacted)
	}
	return nil
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.get(ctx, key)
	return e, store.Wrap("get", key, err)
}

func (s *Store) get(ctx context.Context, key string) (store.Entry, error) {
	if err := s.enter(ctx); err != nil {
		return store.Entry{}, err
	}
	defer s.calls.leave()
	e, err := s.getFrom(ctx, s.pool, key)
	return e, s.cause(ctx, err)
}

// querier is a pool, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *Store) getFrom(ctx context.Context, q querier, key string) (store.Entry, error) {
	if err := store.CheckKey(key, limits); err != nil {
		return store.Entry{}, err
	}
	e := store.Entry{Key: key}
	err := q.QueryRow(ctx, s.sql.get, []byte(key)).Scan(&e.Value, &e.Revision)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Entry{}, store.ErrNotFound
	}
	return e, err
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := s.list(ctx, q)
	return p, store.Wrap("list", q.Prefix, err)
}

func (s *Store) list(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	defer s.calls.leave()
	if err := q.Check(); err != nil {
		return store.Page{}, err
	}
	page, err := s.page(ctx, q)
	return page, s.cause(ctx, err)
}

// keyRange returns the first key that q selects, and a key after the last.
func keyRange(q store.Query) (from, end []byte) {
	from = []byte(q.Prefix)
	if q.After >= q.Prefix {
		from = append([]byte(q.After), 0) // the next greater key
	}
	return from, successor(q.Prefix)
}

// page reads a page and the head in one statement, that is in one snapshot.
func (s *Store) page(ctx context.Context, q store.Query) (page store.Page, err error) {
	var limit *int64 // NULL means none
	if q.Limit > 0 && q.Limit < math.MaxInt {
		one := int64(q.Limit) + 1 // one more tells whether entries follow
		limit = &one
	}
	from, end := keyRange(q)
	text, args := s.sql.list, []any{from, end, limit}
	now := q.At == store.Position{}
	if !now {
		text, args = s.sql.listAt, append(args, int64(q.At.Revision))
	}
	rows, err := s.pool.Query(ctx, text, args...)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	var h head
	var key, value []byte
	var revision *int64
	size := 0
	targets := h.targets(&key, &value, &revision)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return page, err
		}
		if revision != nil {
			if page.More = q.Full(len(page.Entries), size, len(value)); page.More {
				break
			}
			size += len(value)
			page.Entries = append(page.Entries, store.Entry{Key: string(key), Value: value, Revision: store.Revision(*revision)})
			value = nil
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return store.Page{}, err
	}
	if err := h.known(); err != nil {
		return store.Page{}, err
	}
	page.Position = store.Position{Epoch: h.epoch, Revision: h.revision}
	if !now {
		if err := h.check(q.At); err != nil {
			return store.Page{}, err
		}
		page.Position.Revision = q.At.Revision
	}
	return page, nil
}

// Count implements [store.Counter]. The server visits each entry that it counts, and at an
// earlier revision also the keys that changed since.
func (s *Store) Count(ctx context.Context, q store.Query) (int, error) {
	n, err := s.count(ctx, q)
	return n, store.Wrap("count", q.Prefix, err)
}

func (s *Store) count(ctx context.Context, q store.Query) (int, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.leave()
	if err := q.Check(); err != nil {
		return 0, err
	}
	var limit *int64 // NULL means none
	if q.Limit > 0 {
		some := int64(q.Limit)
		limit = &some
	}
	from, end := keyRange(q)
	text, args := s.sql.count, []any{from, end, limit}
	now := q.At == store.Position{}
	if !now {
		text, args = s.sql.countAt, append(args, int64(q.At.Revision))
	}
	var h head
	var n int
	err := s.pool.QueryRow(ctx, text, args...).Scan(h.targets(&n)...)
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		err = h.known()
	}
	if err == nil && !now {
		err = h.check(q.At)
	}
	if err != nil {
		return 0, s.cause(ctx, err)
	}
	return n, nil
}

// known returns an error if this driver cannot use the store any more.
func (h *head) known() error {
	if h.epoch == "" {
		return fmt.Errorf("%w: table meta has no row", ErrCorrupt)
	}
	if h.format != format {
		return fmt.Errorf("%w: the schema now has format %d, this driver supports %d", ErrFormat, h.format, format)
	}
	return nil
}

// checkedRead evaluates the conditions of a transaction without operations. They and the revision
// are of one snapshot, so it needs no writer lock.
func (s *Store) checkedRead(ctx context.Context, conditions []store.Condition) (store.Revision, error) {
	keys := make([][]byte, len(conditions))
	for i, c := range conditions {
		keys[i] = []byte(c.Key)
	}
	rows, err := s.pool.Query(ctx, s.sql.rows, keys)
	if err != nil {
		return 0, err
	}
	found := map[string]*store.Entry{}
	h, err := readRows(rows, found)
	if err == nil {
		err = h.known()
	}
	if err != nil {
		return 0, err
	}
	for _, c := range conditions {
		if !c.Holds(found[c.Key]) {
			return 0, &store.ConflictError{Condition: c, Current: found[c.Key]}
		}
	}
	return h.revision, nil
}

// readRows reads a head, and adds the requested entries to found.
func readRows(rows pgx.Rows, found map[string]*store.Entry) (h head, err error) {
	defer rows.Close()
	var key, value []byte
	var revision *int64
	targets := h.targets(&key, &value, &revision)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return h, err
		}
		if revision != nil {
			found[string(key)] = &store.Entry{Key: string(key), Value: value, Revision: store.Revision(*revision)}
			value = nil
		}
	}
	return h, rows.Err()
}

// successor returns the smallest key that is greater than every key with prefix. Keys have at
// most maxKey bytes, so maxKey+1 bytes of 0xff are greater than all.
func successor(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return bytes.Repeat([]byte{0xff}, maxKey+1)
}
