package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of one chunk of the log. A commit is never split, so a chunk may be one larger
// commit.
const (
	replayRevisions = 16384 // the range of one query if few keys have the prefix
	replayRows      = 1024
	replayBytes     = 4 << 20
)

// epochLog is the log of one epoch.
type epochLog struct {
	store *Store
	epoch string
}

func (p epochLog) gone() error {
	return fmt.Errorf("%w: the database was restored", store.ErrGone)
}

// read is the [watch.ReadFunc].
func (p epochLog) read(ctx context.Context, prefix string, after, upTo store.Revision) ([]store.Change, store.Revision, error) {
	var c chunk
	err := p.store.persist(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, p.store.options.times.lock)
		defer cancel()
		c, err = p.store.replay(ctx, prefix, after, upTo)
		switch {
		case err != nil:
			return err
		case c.head.epoch != p.epoch:
			return p.gone()
		}
		return c.head.check(store.Position{Revision: after})
	})
	if err != nil {
		return nil, 0, err
	}
	return c.changes, c.through, nil
}

// retry is the delay between two attempts of a watch to read.
var retry = backoff.Exponential{Min: 50 * time.Millisecond, Max: 5 * time.Second}

// persist repeats a read for a watch until it succeeds, can never succeed, or ctx or the store
// ends. Close does not wait for the pauses.
func (s *Store) persist(ctx context.Context, read func(context.Context) error) error {
	for failures := 0; ; failures++ {
		err := s.attempt(ctx, read)
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		if err := s.sleep(ctx, retry.Delay(failures)); err != nil {
			return err
		}
	}
}

// sleep waits for d. If ctx or the store ends first, it returns the cause.
func (s *Store) sleep(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(store.ErrClosed) })()
	return backoff.Sleep(ctx, d)
}

func (s *Store) attempt(ctx context.Context, read func(context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.leave()
	return s.cause(ctx, read(ctx))
}

// final reports whether a read that failed with err would fail again.
func final(err error) bool {
	for _, e := range []error{
		store.ErrGone, store.ErrFuture, store.ErrInvalid, store.ErrClosed, ErrCorrupt, ErrFormat, ErrPrivilege,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return strings.HasPrefix(code(err), "42") // the statement is invalid, as when a table does not exist
}

// chunk is a part of the log.
type chunk struct {
	head    head
	changes []store.Change
	through store.Revision // the chunk is complete up to here
}

// replay reads the changes after a revision, up to another.
func (s *Store) replay(ctx context.Context, prefix string, after, upTo store.Revision) (chunk, error) {
	c, whole, err := s.readLog(ctx, prefix, after, upTo, replayRows)
	if err == nil && !whole { // the first commit alone is larger than a chunk
		c, _, err = s.readLog(ctx, prefix, after, upTo, maxOperations+1)
	}
	return c, err
}

// readLog reads up to limit rows. whole is false if they do not hold a complete commit.
func (s *Store) readLog(ctx context.Context, prefix string, after, upTo store.Revision, limit int) (c chunk, whole bool, err error) {
	upTo = min(upTo, after+replayRevisions)
	rows, err := s.pool.Query(ctx, s.sql.replay, int64(after), int64(upTo), []byte(prefix), successor(prefix), int64(limit), int64(replayBytes))
	if err != nil {
		return c, false, err
	}
	defer rows.Close()
	var revision, prevRevision, last *int64
	var deleted *bool
	var key, prevValue, value []byte
	targets := c.head.targets(&revision, &key, &deleted, &prevRevision, &prevValue, &value, &last)
	n := 0
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return c, false, err
		}
		if revision == nil {
			continue
		}
		n++
		e := store.Event{Key: string(key), Deleted: *deleted}
		if prevRevision != nil {
			e.Prev = &store.Entry{Key: e.Key, Value: prevValue, Revision: store.Revision(*prevRevision)}
		}
		if !e.Deleted {
			if e.Value = value; value == nil && store.Revision(*revision) >= c.head.compacted {
				return c, false, fmt.Errorf("%w: the value of %q at revision %d is missing", ErrCorrupt, e.Key, *revision)
			}
		}
		prevValue, value = nil, nil
		c.add(store.Revision(*revision), e)
	}
	if err := rows.Err(); err != nil {
		return c, false, err
	}
	if err := c.head.known(); err != nil {
		return c, false, err
	}
	return c, c.end(after, upTo, n, limit, last), nil
}

// add appends an event to the change of its commit.
func (c *chunk) add(r store.Revision, e store.Event) {
	if n := len(c.changes); n > 0 && c.changes[n-1].Position.Revision == r {
		c.changes[n-1].Events = append(c.changes[n-1].Events, e)
		return
	}
	c.changes = append(c.changes, store.Change{Position: store.Position{Epoch: c.head.epoch, Revision: r}, Events: []store.Event{e}})
}

// end sets through. It reports whether the chunk holds a complete commit, or reaches the end.
func (c *chunk) end(after, upTo store.Revision, n, limit int, last *int64) bool {
	c.through = max(after, min(c.head.revision, upTo))
	if n == 0 {
		return true
	}
	newest := c.changes[len(c.changes)-1].Position.Revision
	switch {
	case n == limit: // the last commit may be incomplete
		c.changes = c.changes[:len(c.changes)-1]
		if len(c.changes) == 0 {
			return false
		}
		c.through = c.changes[len(c.changes)-1].Position.Revision
	case int64(newest) < *last: // cut by size
		c.through = newest
	}
	return true
}
