// Package store defines the contract of a storage backend: a small revisioned key-value
// interface. Everything typed (namespaces, content, rules) is implemented above it, once, in
// package registry.
//
// The packages memory, bolt, etcd and postgres are drivers. Package storetest checks the contract
// as runnable cases: a custom backend is correct if storetest passes. Package watch implements
// Watch for custom drivers, and its example is a complete driver.
package store

import (
	"context"
	"fmt"
	"iter"
)

// Revision counts the commits of a store. Revisions grow with each commit, may have gaps, and
// are never reused, not even after deletes, restarts or compaction. Commits become visible in the
// order of their revisions. Zero is before every commit.
type Revision int64

// Position is a point in the history of one store: the snapshot of a listing, or the point where a
// watch resumes. Epoch names the history; a store restored from a backup has another one, and a
// position of another epoch answers [ErrGone]. Without an epoch only the revision is checked. That
// is safe only if a restore moves the revisions ahead and compacts the earlier ones, as bolt and
// postgres do by themselves, and etcd with the flags that its package names. The zero Position
// means now. With an epoch, revision zero is the beginning of the history: a watch after it misses
// nothing. A negative revision is [ErrInvalid].
type Position struct {
	Epoch    string
	Revision Revision
}

// Entry is a key with its value as of one revision.
//
// A Value is read-only: neither the store nor the caller may change it.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision // the commit that wrote this value
}

// Query selects one page of a listing.
type Query struct {
	Prefix string   // only keys that start with it; empty: all keys
	After  string   // only keys greater than it; empty: from the first
	Limit  int      // the maximum number of entries; zero: no limit; negative: [ErrInvalid]
	At     Position // the snapshot to read; zero: now

	// Bytes bounds the total size of the values of a page, so that the caller's memory does
	// not depend on the size of entries. The page ends before the entry whose value would
	// exceed Bytes, but has at least one entry. Zero or negative means no bound.
	Bytes int
}

// Check returns [ErrInvalid] if the limit or the revision of q is negative.
func (q Query) Check() error {
	if q.Limit < 0 {
		return fmt.Errorf("%w: limit %d is negative", ErrInvalid, q.Limit)
	}
	if q.At.Revision < 0 {
		return fmt.Errorf("%w: revision %d is negative", ErrInvalid, q.At.Revision)
	}
	return nil
}

// Full reports whether a page of n entries with values of size bytes in total has no room
// for another value of next bytes.
func (q Query) Full(n, size, next int) bool {
	return q.Limit > 0 && n >= q.Limit || q.Bytes > 0 && n > 0 && size+next > q.Bytes
}

// Page is a part of a listing, in key order.
type Page struct {
	Entries  []Entry
	Position Position // the snapshot that was read; pass it as Query.At for the next page
	More     bool     // entries of this snapshot follow after the last one
}

// Event is the change of one key.
type Event struct {
	Key     string
	Value   []byte // the value that was put; for a deletion nil
	Deleted bool
	Prev    *Entry // the entry before; nil when the key was absent
}

// Change is the effect of one commit on the keys that a watch follows: the events of one
// transaction, in the order of its operations, never split over two changes. A Change without
// events is a bookmark: everything up to its position has been delivered. Watches share the
// events, so they are read-only like values.
type Change struct {
	Position Position
	Events   []Event
}

// Bookmark reports whether c carries no events.
func (c Change) Bookmark() bool { return len(c.Events) == 0 }

// Store is the interface that a custom backend implements. Any number of goroutines may call all
// methods concurrently. Errors match the sentinels of this package with [errors.Is] and carry the
// operation and the key ([Error]). If the engine cannot be reached, reads and writes fail with
// [ErrUnavailable].
//
// Invalid input ([ErrInvalid], [ErrTooLarge]) changes nothing. A call with a context that has
// ended fails with the context's cause and changes nothing.
type Store interface {
	// Get returns the entry at key, or [ErrNotFound]. The answer reflects every commit
	// acknowledged before the call, including commits through other handles.
	Get(ctx context.Context, key string) (Entry, error)

	// List returns one page. A zero Query.At reads now: the answer reflects every commit
	// acknowledged before the call. Otherwise the page shows exactly the entries at
	// Query.At.Revision. If that revision was compacted, or belongs to another epoch, the call
	// fails with [ErrGone]. If it lies ahead of the store, the call fails with [ErrFuture].
	List(ctx context.Context, q Query) (Page, error)

	// Commit applies txn at one new revision, all or nothing, and returns that revision. The
	// first failed condition, in the order of Txn.If, fails it with a [*ConflictError]. A
	// transaction that changes nothing (no operations, or only deletions of absent keys) is a
	// checked read: it returns the current revision, and watchers see nothing.
	//
	// If the context ends after submission, or the engine fails in the middle of the write, the
	// outcome may be unknown. Then, and only then, the error is [ErrUnknownOutcome]. A store
	// never retries such a write; the caller reads back. If the engine certainly wrote nothing,
	// the error is [ErrUnavailable] or [ErrFull] instead. The store copies the values of txn.
	Commit(ctx context.Context, txn Txn) (Revision, error)

	// Watch yields every change after a position to keys that start with prefix: ordered,
	// gap-free, each exactly once, in the caller's goroutine. It ends when the caller breaks the
	// loop, when ctx ends (the last error is ctx's cause), or when the store is closed
	// ([ErrClosed]). A zero position means now. Each loop over the returned value is a watch of
	// its own.
	//
	// The watch yields a bookmark as soon as it has delivered everything up to the revision that
	// was current when the loop began. After that it yields bookmarks at least every few seconds
	// while other keys change, so that a quiet prefix advances too. A watch from now therefore
	// begins with a bookmark that carries its position.
	//
	// The watch ends with [ErrGone] if the position, or a value that an event needs, was
	// compacted, if the position belongs to another epoch, or if the caller fell too far behind:
	// its memory is bounded, and it never delays commits or other watches. The caller then lists
	// again. A position ahead of the store ends it with [ErrFuture].
	Watch(ctx context.Context, prefix string, after Position) iter.Seq2[Change, error]

	// Close ends all watches and refuses further calls with [ErrClosed]. It waits for calls in
	// progress. A second Close does nothing and returns nil.
	Close() error
}

// Compactor is an optional interface of a [Store] that drops history on request. Stores bound
// their history by themselves too.
//
// Until it is compacted, a replaced or deleted value can be read from older positions. Compaction
// does not erase the bytes: each driver documents how long they remain in files.
type Compactor interface {
	// Compact drops the history before revision. Earlier positions are then gone; revision itself
	// can still be listed and watched from. Compacting to an older revision than before does
	// nothing. A revision ahead of the store is [ErrFuture].
	Compact(ctx context.Context, revision Revision) error
}

// Counter is an optional interface of a [Store] that counts entries without reading them.
type Counter interface {
	// Count returns the number of entries that a List with q would have: with q.Prefix, after
	// q.After, as of q.At, and at most q.Limit unless that is zero. It ignores q.Bytes. It fails
	// with the errors of List.
	Count(ctx context.Context, q Query) (int, error)
}

// Limits bounds what one call may carry. Zero means no bound.
type Limits struct {
	Key        int // bytes in a key
	Value      int // bytes in a value
	Operations int // operations in a transaction, and conditions in a transaction
	Bytes      int // bytes of keys and values in a transaction
}

// Limiter is an optional interface of a [Store] that declares its limits, so that callers can
// split their batches. A call that exceeds a limit fails with [ErrTooLarge].
type Limiter interface {
	Limits() Limits
}

// LimitsOf returns the limits that s declares, or none.
func LimitsOf(s Store) Limits {
	if l, ok := s.(Limiter); ok {
		return l.Limits()
	}
	return Limits{}
}
