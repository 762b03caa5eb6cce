package memory

import (
	"context"
	"math"
	"sort"
	"strings"

	"github.com/tidwall/btree"

	"github.com/nslifecycle/nslifecycle/store"
)

// scanAtOnce bounds the entries that a listing reads under the lock, which blocks commits. A
// longer listing reads copies of the tables. Copying is immediate, because the copies share
// unmodified nodes.
const scanAtOnce = 2048

// List implements [store.Store]. A page costs its own entries and, at an earlier revision, the
// keys in its range that changed since.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	var page store.Page
	at, err := s.read(ctx, q, func() visitor {
		page = store.Page{}
		return filling(&page, q)
	})
	if err != nil {
		return store.Page{}, store.Wrap("list", q.Prefix, err)
	}
	page.Position = store.Position{Epoch: s.options.Epoch, Revision: at}
	return page, nil
}

func filling(page *store.Page, q store.Query) visitor {
	size := 0
	return func(e *store.Entry) bool {
		if q.Full(len(page.Entries), size, len(e.Value)) {
			page.More = true
			return false
		}
		size += len(e.Value)
		page.Entries = append(page.Entries, *e)
		return true
	}
}

// Count implements [store.Counter]. At the newest revision it takes a few steps, regardless of
// the number of entries. At an earlier one it visits each entry.
func (s *Store) Count(ctx context.Context, q store.Query) (int, error) {
	err := s.checkQuery(ctx, q)
	n, done := 0, false
	if err == nil {
		n, done, err = s.countNow(q)
	}
	if err == nil && !done {
		_, err = s.read(ctx, q, func() visitor {
			n = 0
			return func(*store.Entry) bool {
				n++
				return n != q.Limit
			}
		})
	}
	return n, store.Wrap("count", q.Prefix, err)
}

// countNow counts by the positions of keys in the tree. done is false if q asks for an earlier
// revision.
func (s *Store) countNow(q store.Query) (n int, done bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, err := s.resolve(q.At)
	if err != nil || !at.now {
		return 0, false, err
	}
	live := s.tables.live
	place := func(reached func(key string) bool) int {
		return sort.Search(live.Len(), func(i int) bool {
			key, _, _ := live.GetAt(i)
			return reached(key)
		})
	}
	first := place(func(key string) bool { return key >= q.Prefix && (q.After == "" || key > q.After) })
	end := place(func(key string) bool { return key > q.Prefix && !strings.HasPrefix(key, q.Prefix) })
	n = max(0, end-first)
	if q.Limit > 0 {
		n = min(n, q.Limit)
	}
	return n, true, nil
}

// visitor receives one entry after another and reports whether it wants more.
type visitor func(*store.Entry) bool

// read passes the entries that q selects, regardless of its limit, to a visitor and returns the
// revision of the snapshot. It may start again with a new visitor.
func (s *Store) read(ctx context.Context, q store.Query, begin func() visitor) (store.Revision, error) {
	if err := s.checkQuery(ctx, q); err != nil {
		return 0, err
	}
	at, done, err := s.readInPlace(q, begin())
	if !done && err == nil {
		at, err = s.readCopy(ctx, q, begin())
	}
	return at, err
}

// checkQuery returns the reason to refuse q, or nil.
func (s *Store) checkQuery(ctx context.Context, q store.Query) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := q.Check(); err != nil {
		return err
	}
	return s.hub.Check(q.At)
}

// readInPlace reads under the lock. done is false if the listing is too long for that.
func (s *Store) readInPlace(q store.Query, visit visitor) (r store.Revision, done bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, err := s.resolve(q.At)
	if err != nil {
		return 0, false, err
	}
	return at.revision, scanAll(newScan(s.tables, at, q), visit, func() bool { return false }), nil
}

// readCopy reads from copies of the tables, while commits continue.
func (s *Store) readCopy(ctx context.Context, q store.Query, visit visitor) (store.Revision, error) {
	t, at, err := s.copyTables(q.At)
	if err != nil {
		return 0, err
	}
	if !scanAll(newScan(t, at, q), visit, func() bool { return ctx.Err() == nil }) {
		return 0, context.Cause(ctx)
	}
	return at.revision, nil
}

func (s *Store) copyTables(position store.Position) (tables, snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.resolve(position)
	if err != nil {
		return tables{}, snapshot{}, err
	}
	return tables{live: s.tables.live.Copy(), history: s.tables.history.Copy()}, at, nil
}

// snapshot is the revision of a listing. If now is set, the history is not needed.
type snapshot struct {
	revision store.Revision
	now      bool
}

// resolve returns the snapshot at position, which the hub has checked. The caller holds the lock.
func (s *Store) resolve(position store.Position) (snapshot, error) {
	switch {
	case s.closed:
		return snapshot{}, store.ErrClosed
	case position == store.Position{}:
		return snapshot{s.revision, true}, nil
	case position.Revision < s.compacted:
		return snapshot{}, gone(position.Revision, s.compacted)
	}
	return snapshot{position.Revision, position.Revision == s.revision}, nil
}

// scanAll passes the entries of a scan to a visitor. After every scanAtOnce entries it calls
// goOn, and stops with done false if that returns false.
func scanAll(scan *scan, visit visitor, goOn func() bool) (done bool) {
	for {
		scan.budget = scanAtOnce
		for e := scan.next(); e != nil; e = scan.next() {
			if !visit(e) {
				return true
			}
		}
		if scan.atEnd() {
			return true
		}
		if !goOn() {
			return false
		}
	}
}

// scan merges live entries and history into the entries of one snapshot, in key order. A key is
// visible in at most one of the two: if its live entry is old enough, all earlier versions ended
// before the snapshot. Neither side runs ahead of the other, so a page visits only its own range
// of keys.
type scan struct {
	prefix  string
	at      store.Revision
	budget  int // entries to visit before the next refill
	live    btree.MapIter[string, *store.Entry]
	history btree.IterG[version]
	alive   bool // live is at an entry of the range
	past    bool // history is at an entry of the range
}

func newScan(t tables, at snapshot, q store.Query) *scan {
	c := &scan{prefix: q.Prefix, at: at.revision, live: t.live.Iter()}
	from := max(q.Prefix, q.After)
	after := q.After != "" && from == q.After
	ok := c.live.Seek(from)
	if ok && after && c.live.Key() == from {
		ok = c.live.Next()
	}
	c.setLive(ok)
	if at.now {
		return c
	}
	c.history = t.history.Iter()
	end := store.Revision(0)
	if after {
		end = math.MaxInt64 // after every version of that key
	}
	c.setPast(c.history.Seek(version{Entry: &store.Entry{Key: from}, end: end}))
	return c
}

// next returns the next entry of the snapshot. It returns nil at the end, or if the budget is
// used up.
func (c *scan) next() *store.Entry {
	for c.budget > 0 && !c.atEnd() {
		c.budget--
		var e *store.Entry
		if c.alive && (!c.past || c.live.Key() <= c.history.Item().Key) {
			e = c.nextLive()
		} else {
			e = c.nextPast()
		}
		if e != nil {
			return e
		}
	}
	return nil
}

// nextLive returns the live entry and advances. It returns nil if the entry is newer than the
// snapshot.
func (c *scan) nextLive() *store.Entry {
	e := c.live.Value()
	c.setLive(c.live.Next())
	if e.Revision > c.at {
		return nil
	}
	return e
}

// nextPast returns the version at the history iterator and advances to the next key. It returns
// nil if the version is not part of the snapshot.
func (c *scan) nextPast() *store.Entry {
	v := c.history.Item()
	if v.end <= c.at { // ended before the snapshot: seek the first version of this key, or of the next, that did not
		c.setPast(c.history.Seek(version{Entry: v.Entry, end: c.at + 1}))
		return nil
	}
	ok := c.history.Next()
	if ok && c.history.Item().Key == v.Key {
		ok = c.history.Seek(version{Entry: v.Entry, end: math.MaxInt64})
	}
	c.setPast(ok)
	if v.Revision > c.at { // the key was created after the snapshot
		return nil
	}
	return v.Entry
}

func (c *scan) atEnd() bool { return !c.alive && !c.past }

func (c *scan) setLive(ok bool) { c.alive = ok && strings.HasPrefix(c.live.Key(), c.prefix) }

func (c *scan) setPast(ok bool) { c.past = ok && strings.HasPrefix(c.history.Item().Key, c.prefix) }
