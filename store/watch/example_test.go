package watch_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

// logStore is a complete driver: a log of changes in a slice, and the current entries in a map.
// A driver over a database would keep two tables instead.
type logStore struct {
	epoch  string
	retain int // changes in the log
	hub    *watch.Hub

	mu        sync.RWMutex
	closed    bool
	revision  store.Revision
	compacted store.Revision
	changes   []store.Change         // of the revisions compacted+1 to revision
	current   map[string]store.Entry // at revision
}

func openLog(epoch string, retain int) *logStore {
	s := &logStore{epoch: epoch, retain: retain, current: map[string]store.Entry{}}
	s.hub = watch.New(s.read, store.Position{Epoch: epoch}, watch.Options{})
	return s
}

// read gives the hub access to the log. It returns up to 100 changes at a time.
func (s *logStore) read(_ context.Context, _ string, after, upTo store.Revision) ([]store.Change, store.Revision, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.reaches(after); err != nil {
		return nil, 0, err
	}
	through := min(upTo, after+100)
	return slices.Clone(s.changes[after-s.compacted : through-s.compacted]), through, nil
}

func (s *logStore) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return s.hub.Watch(ctx, prefix, after)
}

func (s *logStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.commit(ctx, txn)
	return r, store.Wrap("commit", "", err)
}

func (s *logStore) commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := cmp.Or(s.usable(ctx), txn.Check(store.Limits{})); err != nil {
		return 0, err
	}
	for _, c := range txn.If {
		if current := s.entry(c.Key); !c.Holds(current) {
			return 0, &store.ConflictError{Condition: c, Current: current}
		}
	}
	next := s.revision + 1
	change := store.Change{Position: store.Position{Epoch: s.epoch, Revision: next}}
	for _, op := range txn.Do {
		before := s.entry(op.Key)
		if op.Delete {
			if before != nil {
				delete(s.current, op.Key)
				change.Events = append(change.Events, store.Event{Key: op.Key, Deleted: true, Prev: before})
			}
			continue
		}
		value := append([]byte{}, op.Value...)
		s.current[op.Key] = store.Entry{Key: op.Key, Value: value, Revision: next}
		change.Events = append(change.Events, store.Event{Key: op.Key, Value: value, Prev: before})
	}
	if len(change.Events) == 0 {
		return s.revision, nil
	}
	s.revision = next
	s.changes = append(s.changes, change)
	s.drop(next - store.Revision(s.retain))
	s.hub.Advance(next)
	return next, nil
}

// Compact implements the optional [store.Compactor].
func (s *logStore) Compact(ctx context.Context, revision store.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := cmp.Or(s.usable(ctx), s.hub.Check(store.Position{Revision: revision}))
	if err == nil {
		s.drop(revision)
	}
	return store.Wrap("compact", "", err)
}

// drop drops the changes up to revision.
func (s *logStore) drop(revision store.Revision) {
	if n := revision - s.compacted; n > 0 {
		s.compacted = revision
		s.changes = slices.Delete(s.changes, 0, int(n))
	}
}

func (s *logStore) Get(ctx context.Context, key string) (store.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err := cmp.Or(s.usable(ctx), store.CheckKey(key, store.Limits{}))
	e, found := s.current[key]
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return e, store.Wrap("get", key, err)
}

func (s *logStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	page, err := s.list(ctx, q)
	return page, store.Wrap("list", q.Prefix, err)
}

func (s *logStore) list(ctx context.Context, q store.Query) (page store.Page, err error) {
	if err := cmp.Or(s.usable(ctx), q.Check(), s.hub.Check(q.At)); err != nil {
		return page, err
	}
	at := s.revision
	if q.At != (store.Position{}) {
		at = q.At.Revision
	}
	if err := s.reaches(at); err != nil {
		return page, err
	}
	page.Position = store.Position{Epoch: s.epoch, Revision: at}
	entries := s.at(at)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if !strings.HasPrefix(key, q.Prefix) || key <= q.After {
			continue
		}
		e := entries[key]
		if page.More = q.Full(len(page.Entries), size, len(e.Value)); page.More {
			break
		}
		size += len(e.Value)
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// at returns the entries at revision: the current ones with the later changes undone.
func (s *logStore) at(revision store.Revision) map[string]store.Entry {
	if revision == s.revision {
		return s.current
	}
	entries := maps.Clone(s.current)
	for _, c := range slices.Backward(s.changes[revision-s.compacted:]) {
		for _, e := range c.Events {
			if e.Prev != nil {
				entries[e.Key] = *e.Prev
			} else {
				delete(entries, e.Key)
			}
		}
	}
	return entries
}

func (s *logStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.hub.Close()
	return nil
}

func (s *logStore) entry(key string) *store.Entry {
	if e, found := s.current[key]; found {
		return &e
	}
	return nil
}

func (s *logStore) reaches(r store.Revision) error {
	if r < s.compacted {
		return fmt.Errorf("%w: revision %d, the log starts at %d", store.ErrGone, r, s.compacted)
	}
	return nil
}

func (s *logStore) usable(ctx context.Context) error {
	if s.closed {
		return store.ErrClosed
	}
	return context.Cause(ctx)
}

// A complete driver in under 200 lines: the hub implements Watch from one function that reads
// the log. TestConformance runs the published suite on it.
func Example() {
	ctx := context.Background()
	s := openLog("example", 1000)
	defer s.Close()
	if _, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("a", []byte("1"))}}); err != nil {
		log.Fatal(err)
	}
	for c, err := range s.Watch(ctx, "", store.Position{Epoch: "example"}) {
		if err != nil {
			log.Fatal(err)
		}
		if c.Bookmark() {
			fmt.Println("caught up at revision", c.Position.Revision)
			break
		}
		fmt.Printf("revision %d: %s=%s\n", c.Position.Revision, c.Events[0].Key, c.Events[0].Value)
	}
	// Output:
	// revision 1: a=1
	// caught up at revision 1
}
