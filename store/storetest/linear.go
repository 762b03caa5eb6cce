package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func linearCases() []testcase {
	return []testcase{{
		name: "linearizable",
		want: "gets, listings and transactions with conditions on several keys, by several clients and handles, some cancelled, have one order that explains all answers",
		why:  "the rules are proved for sequential steps; linearizability extends the proof to concurrent steps",
		run:  linearizable,
	}}
}

// linearizable records many short histories. They find more faults than a long one, and each is
// decided in milliseconds.
func linearizable(t *trial) {
	const clients = 5
	handles := []store.Store{t.store}
	if t.b.Second != nil {
		handles = append(handles, t.other(needSecond, t.b.Second))
	}
	for round := range t.n(12) {
		recorder := &Recorder{Start: t.list(store.Query{})}
		t.doing("running %d clients, history %d", clients, round)
		t.all(clients, func(i int) error {
			c := newClient(recorder.Store(i, handles[i%len(handles)]), round, i)
			for range 25 {
				if err := c.act(t.ctx); err != nil {
					return err
				}
			}
			return nil
		})
		_, err := recorder.Store(clients, t.store).List(t.ctx, store.Query{})
		require.NoError(t, err)
		t.doing("deciding history %d of %d calls", round, recorder.Len())
		err = recorder.Check(t.b.deadline() / 2)
		if errors.Is(err, ErrUndecided) {
			continue // it changes nothing
		}
		require.NoError(t, err, "history %d", round)
	}
}

// client acts at random on a few keys and remembers the revisions that it saw.
type client struct {
	store  store.Store
	name   string
	writes int
	usual  time.Duration // of a commit
	seen   map[string]store.Revision
	r      *rand.Rand
}

func newClient(s store.Store, round, i int) *client {
	return &client{
		store: s,
		name:  fmt.Sprintf("%d/%d", round, i),
		seen:  map[string]store.Revision{},
		r:     rand.New(rand.NewPCG(uint64(round), uint64(i))),
	}
}

func (c *client) key() string { return string(rune('a' + c.r.IntN(4))) }

func (c *client) act(ctx context.Context) error {
	var err error
	switch c.r.IntN(8) {
	case 0, 1:
		key := c.key()
		var e store.Entry
		if e, err = c.store.Get(ctx, key); err == nil {
			c.seen[key] = e.Revision
		}
	case 2:
		var p store.Page
		p, err = c.store.List(ctx, store.Query{Limit: c.r.IntN(4)})
		for _, e := range p.Entries {
			c.seen[e.Key] = e.Revision
		}
	case 3:
		err = c.cancelled(ctx)
	default:
		err = c.commit(ctx)
	}
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.Current != nil {
		c.seen[conflict.Current.Key] = conflict.Current.Revision
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknownOutcome) {
		return nil
	}
	return err
}

// txn has up to two conditions and one to three operations, on any keys.
func (c *client) txn() store.Txn {
	var txn store.Txn
	for range c.r.IntN(3) {
		key := c.key()
		switch revision, ok := c.seen[key]; {
		case ok && c.r.IntN(4) > 0:
			txn.If = append(txn.If, store.At(key, revision))
		case c.r.IntN(2) == 0:
			txn.If = append(txn.If, store.Exists(key))
		default:
			txn.If = append(txn.If, store.Absent(key))
		}
	}
	for _, k := range c.r.Perm(4)[:c.r.IntN(4)] {
		key := string(rune('a' + k))
		if c.r.IntN(3) == 0 {
			txn.Do = append(txn.Do, store.Delete(key))
			continue
		}
		c.writes++
		txn.Do = append(txn.Do, store.Put(key, fmt.Appendf(nil, "%s/%d", c.name, c.writes)))
	}
	return txn
}

func (c *client) commit(ctx context.Context) error {
	txn := c.txn()
	r, err := c.store.Commit(ctx, txn)
	if err == nil && r > 0 { // zero: deletions of absent keys in the empty store
		for _, op := range txn.Do {
			c.seen[op.Key] = r
		}
	}
	return err
}

// cancelled commits while its context ends. The store may return an unknown outcome.
func (c *client) cancelled(parent context.Context) error {
	ctx, end := ending(parent, c.usual, c.r.IntN(16))
	begun := time.Now()
	err := c.commit(ctx)
	end()
	if err == nil {
		c.usual = time.Since(begun)
	}
	if parent.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}
