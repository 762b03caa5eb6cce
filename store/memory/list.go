package memory

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/tidwall/btree"

	"github.com/nslifecycle/nslifecycle/store"
)

// scanAtOnce is how many entries a listing looks at while commits wait. One that
// needs more works on copies of the tables, which are made at once
// and share what is not written meanwhile.
const scanAtOnce = 2048

// List implements [store.Store]. A page costs its entries and, at an earlier
// revision, the keys in its range that came or went since.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	var page store.Page
	at, err := s.read(ctx, q, func() visitor {
		page = store.Page{}
		return filling(&page, q)
	})
	if err != nil {
		return store.Page{}, fail("list", q.Prefix, err)
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

// Count implements [store.Counter]. At the newest revision it takes a few steps,
// however many entries there are; at an earlier one it looks at each.
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
	if err != nil {
		return 0, fail("count", q.Prefix, err)
	}
	return n, nil
}

// countNow counts by the places of the keys in the tree. It is not done when q is
// about an earlier revision.
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

// visitor takes one entry after another, and tells whether it wants more.
type visitor func(*store.Entry) bool

// read shows what q selects, but for its limit, to a visitor, and returns the
// revision that it read. It may begin anew, with another visitor.
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

// checkQuery returns why q must not be answered, or nil.
func (s *Store) checkQuery(ctx context.Context, q store.Query) error {
	if err := check(ctx); err != nil {
		return err
	}
	if q.Limit < 0 {
		return fmt.Errorf("%w: the limit %d is negative", store.ErrInvalid, q.Limit)
	}
	return s.hub.Check(q.At)
}

// readInPlace reads while commits wait. It is not done when that takes too long.
func (s *Store) readInPlace(q store.Query, visit visitor) (r store.Revision, done bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, err := s.resolve(q.At)
	if err != nil {
		return 0, false, err
	}
	return at.revision, scanAll(newScan(s.tables, at, q), visit, func() bool { return false }), nil
}

// readCopy reads as much as there is while commits go on.
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

// snapshot is the revision a listing is read at. Now needs no look at history.
type snapshot struct {
	revision store.Revision
	now      bool
}

// resolve returns the snapshot at position, which the hub has checked. The
// caller holds the lock.
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

// scanAll shows the entries of a scan to a visitor. Whenever it has looked at
// scanAtOnce entries it asks goOn, and gives up, not done, when told to.
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

// scan merges the live entries and the history into the entries of one snapshot,
// in key order. A key is visible in at most one of the two: when its live entry
// is old enough, all its earlier versions ended before the snapshot. Neither
// side runs ahead of the other, so a page looks at its own range of keys only.
type scan struct {
	prefix  string
	at      store.Revision
	budget  int // entries to look at until it is refilled
	live    btree.MapIter[string, *store.Entry]
	history btree.IterG[version]
	alive   bool // live stands on an entry of the range
	past    bool // history does
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
		end = math.MaxInt64 // behind every version of that key
	}
	c.setPast(c.history.Seek(version{Entry: &store.Entry{Key: from}, end: end}))
	return c
}

// next returns the next entry of the snapshot; nil at its end, or when the
// budget is used up.
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

// nextLive returns the live entry and moves on; nil when it came after the
// snapshot.
func (c *scan) nextLive() *store.Entry {
	e := c.live.Value()
	c.setLive(c.live.Next())
	if e.Revision > c.at {
		return nil
	}
	return e
}

// nextPast returns the version that history stands on and moves to the next key;
// nil when the snapshot does not have that version.
func (c *scan) nextPast() *store.Entry {
	v := c.history.Item()
	if v.end <= c.at { // over before the snapshot: go to the first that was not, of this key or the next
		c.setPast(c.history.Seek(version{Entry: v.Entry, end: c.at + 1}))
		return nil
	}
	ok := c.history.Next()
	if ok && c.history.Item().Key == v.Key {
		ok = c.history.Seek(version{Entry: v.Entry, end: math.MaxInt64})
	}
	c.setPast(ok)
	if v.Revision > c.at { // the key came after the snapshot
		return nil
	}
	return v.Entry
}

func (c *scan) atEnd() bool { return !c.alive && !c.past }

func (c *scan) setLive(ok bool) { c.alive = ok && strings.HasPrefix(c.live.Key(), c.prefix) }

func (c *scan) setPast(ok bool) { c.past = ok && strings.HasPrefix(c.history.Item().Key, c.prefix) }
