package postgres

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

// newHub returns a hub that starts at h.
func (s *Store) newHub(h head) *watch.Hub {
	return watch.New(epochLog{s, h.epoch}.read, store.Position{Epoch: h.epoch, Revision: h.revision}, watch.Options{})
}

// publishOwn publishes changes that this process has committed, if they are the next ones.
// Otherwise the poller reads them from the log.
func (s *Store) publishOwn(before head, changes []store.Change) {
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

// poll publishes everything that was committed before the call.
func (s *Store) poll(ctx context.Context) error {
	select {
	case s.polling <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.polling }()
	for {
		before := s.hub.Load().Position()
		c, err := s.readNews(ctx, before.Revision)
		if err != nil {
			return err
		}
		if done, err := s.publishChunk(before, c); done || err != nil {
			return err
		}
	}
}

// readNews reads a chunk of the log for the hub. Its time limit is for a connection that no
// longer answers, so that other pollers get their chance.
func (s *Store) readNews(ctx context.Context, after store.Revision) (chunk, error) {
	limited, cancel := context.WithTimeout(ctx, s.options.times.lock)
	defer cancel()
	c, err := s.replay(limited, "", after, math.MaxInt64)
	return c, late(ctx, limited, err)
}

// publishChunk publishes a chunk that was read after a position. It reports whether the chunk was
// the last.
func (s *Store) publishChunk(before store.Position, c chunk) (done bool, err error) {
	s.publish.Lock()
	defer s.publish.Unlock()
	h := s.hub.Load()
	switch {
	case c.head.epoch != before.Epoch, c.head.revision < before.Revision:
		// Another history: the database was restored, or lost acknowledged commits.
		s.replaceHub(c.head)
		return true, nil
	case c.head.compacted > h.Position().Revision: // the committer may have published meanwhile
		// The log no longer reaches back to the last revision that this process knows.
		s.replaceHub(c.head)
		return true, nil
	}
	last := h.Position().Revision // the committer may have published meanwhile
	for i, change := range c.changes {
		if change.Position.Revision > last {
			h.Publish(c.changes[i:]...)
			break
		}
	}
	return c.through >= c.head.revision, nil
}

// replaceHub ends all watches. They report that their position is gone.
func (s *Store) replaceHub(h head) { s.hub.Swap(s.newHub(h)).Close() }

// follow is the poller, which publishes the commits of other processes.
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

// listenRetry is the delay between two attempts to listen.
var listenRetry = backoff.Exponential{Min: 100 * time.Millisecond, Max: 10 * time.Second}

const listenTimeout = 30 * time.Second

// listen wakes the poller on notifications. It only saves time: the poller reads the log
// periodically in any case.
func (s *Store) listen() {
	for failures := 0; s.ctx.Err() == nil; failures++ {
		if s.listenOnce() {
			failures = 0
		}
		_ = backoff.Sleep(s.ctx, listenRetry.Delay(failures))
	}
}

// listenOnce listens until the connection ends. It reports whether there was a connection.
func (s *Store) listenOnce() bool {
	conn, err := s.listener()
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the connection is useless, so the error does not matter
	}()
	signal(s.wake) // notifications may have been missed
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
