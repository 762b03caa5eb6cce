package postgres

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

// newHub returns the hub of the history that h is of.
func (s *Store) newHub(h head) *watch.Hub {
	return watch.New(replayer{s, h.epoch}.read, store.Position{Epoch: h.epoch, Revision: h.revision}, watch.Options{})
}

// advance publishes changes that this process has committed itself, when they are
// the next ones; else the log is read.
func (s *Store) advance(before head, changes []store.Change) {
	if len(changes) == 0 {
		return
	}
	s.publish.Lock()
	defer s.publish.Unlock()
	h := s.hub.Load()
	if (h.Position() == store.Position{Epoch: before.epoch, Revision: before.revision}) {
		h.Publish(changes...)
		return
	}
	signal(s.wake)
}

// poll publishes everything that was committed before it was called.
func (s *Store) poll(ctx context.Context) error {
	select {
	case s.polling <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.polling }()
	for {
		before := s.hub.Load().Position()
		c, err := s.replayInTime(ctx, before.Revision)
		if err != nil {
			return err
		}
		if done, err := s.take(before, c); done || err != nil {
			return err
		}
	}
}

// replayInTime reads a chunk of the log for the hub. Its limit is for a connection
// that fell silent, which must not keep the right to read from everybody.
func (s *Store) replayInTime(ctx context.Context, after store.Revision) (chunk, error) {
	limited, cancel := context.WithTimeout(ctx, s.options.times.turn)
	defer cancel()
	c, err := s.replay(limited, "", after, math.MaxInt64)
	return c, late(ctx, limited, err)
}

// take publishes a chunk that was read after a position, and reports whether it was
// the last.
func (s *Store) take(before store.Position, c chunk) (done bool, err error) {
	s.publish.Lock()
	defer s.publish.Unlock()
	h := s.hub.Load()
	switch {
	case c.head.epoch != before.Epoch, c.head.revision < before.Revision:
		// Another history: the database was restored, or lost what it had acknowledged.
		s.replaceHub(c.head)
		return true, nil
	case c.head.compacted > h.Position().Revision: // now, as the committer may have been here
		// This process was away for so long that the log has been dropped.
		s.replaceHub(c.head)
		return true, nil
	}
	last := h.Position().Revision // the committer may have been here
	for i, change := range c.changes {
		if change.Position.Revision > last {
			h.Publish(c.changes[i:]...)
			break
		}
	}
	return c.through >= c.head.revision, nil
}

// replaceHub ends all watches, which are told that their position is gone.
func (s *Store) replaceHub(h head) { s.hub.Swap(s.newHub(h)).Close() }

// follow is the poller: it publishes what other processes commit.
func (s *Store) follow() {
	ticker := time.NewTicker(s.options.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-s.wake:
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		if err := s.poll(s.ctx); err != nil { // the next round tries again
			select {
			case <-ticker.C:
				signal(s.wake)
			case <-s.ctx.Done():
				return
			}
		}
	}
}

// The bounds of the time between two attempts to listen.
const (
	listenAgain   = 100 * time.Millisecond
	listenSeldom  = 10 * time.Second
	listenTimeout = 30 * time.Second
)

// listen keeps a connection of its own that wakes the poller up. It is a
// convenience: without it the poller looks by itself.
func (s *Store) listen() {
	pause := listenAgain
	for s.ctx.Err() == nil {
		if s.hear() {
			pause = listenAgain
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
		pause = min(2*pause, listenSeldom)
	}
}

// hear listens until the connection ends, and reports whether there was one.
func (s *Store) hear() bool {
	conn, err := s.listener()
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it is of no use any more, however it ends
	}()
	signal(s.wake) // what was committed meanwhile was not heard
	for {
		n, err := conn.WaitForNotification(s.ctx)
		if err != nil {
			return true
		}
		if r, err := strconv.ParseInt(n.Payload, 10, 64); err != nil || store.Revision(r) > s.hub.Load().Position().Revision {
			signal(s.wake)
		}
	}
}

func (s *Store) listener() (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, listenTimeout)
	defer cancel()
	pool := s.pool.Config()
	config := pool.ConnConfig.Copy()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+s.sql.channel); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// trimRows is how many old records are dropped in one statement.
const trimRows = 2000

// sweepAfter is how many times [Options.Poll] passes until old records are looked
// for without a compaction of this process: those that another one left, or that
// somebody had locked, or that could not be dropped because of an error.
const sweepAfter = 20

// sweep drops compacted records, a few at a time. It needs no turn: nobody reads
// them any more.
func (s *Store) sweep() {
	ticker := time.NewTicker(sweepAfter * min(s.options.Poll, time.Minute))
	defer ticker.Stop()
	for {
		from, n, err := int64(-1), int64(trimRows), error(nil)
		for err == nil && n == trimRows {
			from, n, err = s.trim(from)
		}
		select {
		case <-s.janitor:
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// trim drops some of the records after a revision, and returns how many, and after
// which revision there may be more. Up to where they are old only the database
// knows: this process may have known another history of it.
func (s *Store) trim(from int64) (next, n int64, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.options.times.turn)
	defer cancel()
	var last int64
	var b pgx.Batch
	b.Queue(textOpen)
	b.Queue(s.sql.trim, from, int64(trimRows)).QueryRow(func(row pgx.Row) error { return row.Scan(&n, &last) })
	b.Queue("commit")
	err = s.pool.SendBatch(ctx, &b).Close()
	return max(from, last-1), n, err // the commit at last may have more
}
