package bolt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
)

// Commit implements [store.Store]. The package documentation describes what happens if the
// context ends meanwhile.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	r, err := s.submit(ctx, txn)
	return r, store.Wrap("commit", firstKey(txn), err)
}

// firstKey returns the key that an error of txn names if no condition failed.
func firstKey(txn store.Txn) string {
	switch {
	case len(txn.Do) > 0:
		return txn.Do[0].Key
	case len(txn.If) > 0:
		return txn.If[0].Key
	}
	return ""
}

func (s *Store) submit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := usable(ctx); err != nil {
		return 0, err
	}
	if err := txn.Check(limits); err != nil {
		return 0, err
	}
	return s.queue.Do(ctx, newTransaction(txn), sizeOf(txn))
}

// request is a transaction on its way through the queue.
type request = groupcommit.Request[*transaction]

// transaction is a copy of a [store.Txn], or a compaction.
type transaction struct {
	conditions []store.Condition
	operations []operation
	compact    store.Revision // if positive, compact to it and do nothing else
}

// operation is a [store.Operation] with a copy of its value.
type operation struct {
	key    string
	record []byte // see newRecord; nil means delete
}

// newTransaction copies txn. The caller may reuse its slices when Commit has returned, even if
// the committer still uses the transaction.
func newTransaction(txn store.Txn) *transaction {
	t := &transaction{conditions: slices.Clone(txn.If)}
	if len(txn.Do) > 0 {
		t.operations = make([]operation, len(txn.Do))
	}
	for i, op := range txn.Do {
		t.operations[i].key = op.Key
		if !op.Delete {
			t.operations[i].record = newRecord(op.Value)
		}
	}
	return t
}

func sizeOf(txn store.Txn) (bytes int) {
	for _, op := range txn.Do {
		bytes += len(op.Key) + len(op.Value)
	}
	return bytes
}

// Compact implements [store.Compactor]. The records are dropped gradually.
func (s *Store) Compact(ctx context.Context, revision store.Revision) error {
	err := usable(ctx)
	if err == nil && revision < 0 {
		err = fmt.Errorf("%w: revision %d is negative", store.ErrInvalid, revision)
	}
	if err == nil {
		_, err = s.queue.Do(ctx, &transaction{compact: revision}, 0)
	}
	return store.Wrap("compact", "", err)
}

// run is the committer. It commits batch after batch until the queue is closed.
func (s *Store) run() {
	defer close(s.stopped)
	for {
		idle := s.backlog && !s.failing // nothing to commit: drop old records meanwhile
		if !idle {
			<-s.queue.Ready()
		}
		requests, open := s.queue.Take(s.taken[:0])
		requests = s.queue.Submit(requests)
		s.taken = requests
		if len(requests) > 0 || idle && open {
			s.process(requests)
			clear(requests)
		}
		if !open {
			return
		}
	}
}

// process commits one batch and returns the results to the callers.
func (s *Store) process(requests []*request) {
	s.answers = s.answers[:0]
	err := s.write(requests)
	for i, r := range requests {
		if err != nil {
			r.Finish(0, err)
			continue
		}
		r.Finish(s.answers[i].revision, s.answers[i].err)
	}
	clear(s.answers)
}

// write applies the requests in one transaction of the engine, publishes the committed changes,
// and fills answers. If it fails, its error is the result of all requests, since each single
// result may rest on writes that are not in the file.
func (s *Store) write(requests []*request) error {
	s.failing = true
	if s.refusal != nil { // only this goroutine sets it while it runs
		return s.refusal
	}
	var b *batch
	tx, err := s.begin(true)
	if err != nil {
		return err
	}
	err = guard(func() (err error) {
		b, err = s.apply(tx, requests)
		return err
	})
	if err != nil || !b.dirty {
		s.failing = err != nil
		return errors.Join(err, s.engine(tx.Rollback))
	}
	err = s.sync.commit(tx.ID(), func() error {
		err := guard(func() error { return s.commitTx(tx) })
		if err == nil {
			s.hub.Publish(b.changes...)
		}
		return err
	})
	if errors.Is(err, ErrCorrupt) { // the transaction may still be open
		_ = s.engine(tx.Rollback)
	}
	if err != nil {
		return s.resolve(b, err)
	}
	s.failing, s.wrote = false, true
	return nil
}

// apply does everything for a batch except its commit.
func (s *Store) apply(tx *bbolt.Tx, requests []*request) (*batch, error) {
	b, err := newBatch(tx, s.epoch)
	if err != nil {
		return nil, err
	}
	for _, r := range requests {
		a, err := b.apply(r.Work)
		if err != nil {
			return nil, err
		}
		s.answers = append(s.answers, a)
	}
	backlog := s.backlog || b.head.compacted > b.before.compacted
	if s.backlog, err = b.prune(s.file.options.Retain, backlog); err != nil {
		return nil, err
	}
	if b.dirty {
		err = b.seal(s.writer)
	}
	return b, err
}

// resolve determines whether b is in the file after the engine failed to commit it. It reopens
// the file, because the view of the engine may be wrong. If b is in the file, resolve publishes
// its changes. It returns the error of all requests of the batch.
func (s *Store) resolve(b *batch, cause error) error {
	s.reads.Lock()
	defer s.reads.Unlock()
	s.backlog = true // the records that the batch dropped may be back
	applied, err := false, s.engine(s.db.Close)
	if !s.broken.Load() { // if the file can be reopened, an error of Close does not matter
		err = guard(func() (err error) {
			applied, err = s.reopen(b)
			return err
		})
	}
	if err != nil {
		s.refusal = fmt.Errorf("%w: a commit failed (%w), and then the file could not be reopened (%w); open the store again",
			store.ErrClosed, cause, err)
		s.hub.Close()
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
	}
	if !applied {
		return unwritten(cause)
	}
	s.hub.Publish(b.changes...)
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
}

// unwritten returns the error of a batch that is not in the file. It also compares texts, because
// the engine does not wrap some errors of the operating system.
func unwritten(cause error) error {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(cause, full) || strings.Contains(cause.Error(), full.Error()) {
			return fmt.Errorf("%w: %w", store.ErrFull, cause)
		}
	}
	return fmt.Errorf("nothing was written: %w", cause)
}

// reopen opens the file again and reports whether b is in it.
func (s *Store) reopen(b *batch) (applied bool, err error) {
	db, err := s.file.open(0)
	if err != nil {
		return false, err
	}
	s.db = db
	head, epoch, err := whereIs(db)
	if err != nil {
		return false, err
	}
	if epoch == s.epoch && head == b.before {
		return false, s.sync.opened(db) // the state that was synced before
	}
	if epoch != s.epoch || head != b.head { // equal only if this store wrote it
		return false, fmt.Errorf("%w: another process has changed the file", store.ErrInUse)
	}
	// The batch can be read, but its sync has failed. Only a later successful sync makes it
	// durable, so readers must wait for one.
	err = db.Update(func(tx *bbolt.Tx) error {
		return putMeta(tx.Bucket(bucketMeta), metaHead, head.append(nil))
	})
	if err != nil {
		return false, err
	}
	return true, s.sync.opened(db)
}
