package bolt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// model is the store as a list of full copies, one per revision.
type model struct {
	states    map[store.Revision]map[string]store.Entry
	changes   []store.Change
	revision  store.Revision
	compacted store.Revision
	epoch     string
}

func (m *model) apply(txn store.Txn) (store.Revision, error) {
	now := m.states[m.revision]
	for _, c := range txn.If {
		e, ok := now[c.Key]
		if current := pointer(e, ok); !c.Holds(current) {
			return 0, &store.ConflictError{Condition: c, Current: current}
		}
	}
	next := maps.Clone(now)
	r := m.revision + 1
	change := store.Change{Position: store.Position{Epoch: m.epoch, Revision: r}}
	for _, op := range txn.Do {
		e, ok := now[op.Key]
		if op.Delete {
			if ok {
				delete(next, op.Key)
				change.Events = append(change.Events, store.Event{Key: op.Key, Deleted: true, Prev: &e})
			}
			continue
		}
		next[op.Key] = store.Entry{Key: op.Key, Value: op.Value, Revision: r}
		change.Events = append(change.Events, store.Event{Key: op.Key, Value: op.Value, Prev: pointer(e, ok)})
	}
	if change.Bookmark() {
		return m.revision, nil
	}
	m.revision, m.states[r], m.changes = r, next, append(m.changes, change)
	return r, nil
}

func pointer(e store.Entry, ok bool) *store.Entry {
	if !ok {
		return nil
	}
	return &e
}

// page is the expected answer of List.
func (m *model) page(q store.Query) []store.Entry {
	state := m.states[q.At.Revision]
	var entries []store.Entry
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if strings.HasPrefix(key, q.Prefix) && key > q.After {
			entries = append(entries, state[key])
		}
	}
	return entries
}

var modelKeys = []string{
	"\x00", "\x00\x00", "\x00\xFF", "a", "a\x00", "a\x00\x00", "a\x00b", "a\x00\xFF", "a/", "a/b", "a/c", "a0", "b", "\xFF", "\xFF\x00", "\xFF\xFF",
}

func randomTxn(rng *rand.Rand, m *model) store.Txn {
	var txn store.Txn
	keys := slices.Clone(modelKeys)
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:rng.IntN(3)] {
		e := m.states[m.revision][key]
		switch rng.IntN(4) {
		case 0:
			txn.If = append(txn.If, store.Exists(key))
		case 1:
			txn.If = append(txn.If, store.Absent(key))
		default:
			txn.If = append(txn.If, store.At(key, max(e.Revision, 1)))
		}
	}
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:rng.IntN(5)] {
		if rng.IntN(3) == 0 {
			txn.Do = append(txn.Do, store.Delete(key))
		} else {
			txn.Do = append(txn.Do, store.Put(key, []byte(fmt.Sprint(rng.Uint32()))[:rng.IntN(4)]))
		}
	}
	return txn
}

// Random transactions, compactions and reopenings have the same results as in the model, including
// every page at every retained revision, and every watch from there.
func TestModel(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	path := filepath.Join(t.TempDir(), "model.db")
	s := openAt(t, path, nil)
	at := listAt(t, s, store.Position{}).Position
	m := &model{states: map[store.Revision]map[string]store.Entry{at.Revision: {}}, revision: at.Revision, epoch: at.Epoch, compacted: at.Revision}
	for range 6 {
		for range 60 {
			txn := randomTxn(rng, m)
			want, wantErr := m.apply(txn)
			got, err := s.Commit(t.Context(), txn)
			requireSameResult(t, txn, want, wantErr, got, err)
		}
		verifyModel(t, rng, s, m)
		m.compacted += store.Revision(rng.Int64N(int64(m.revision-m.compacted) + 1))
		require.NoError(t, s.Compact(t.Context(), m.compacted))
		verifyModel(t, rng, s, m)
		require.NoError(t, s.Close())
		s = openAt(t, path, nil)
		verifyModel(t, rng, s, m)
	}
}

func requireSameResult(t *testing.T, txn store.Txn, want store.Revision, wantErr error, got store.Revision, err error) {
	t.Helper()
	require.Equal(t, want, got, "%+v", txn)
	if wantErr == nil {
		require.NoError(t, err, "%+v", txn)
		return
	}
	var conflict, wantConflict *store.ConflictError
	require.ErrorAs(t, wantErr, &wantConflict)
	require.ErrorAs(t, err, &conflict, "%+v", txn)
	require.Empty(t, cmp.Diff(wantConflict, conflict))
}

func verifyModel(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	checkFile(t, s)
	prefixes := append([]string{"", "a\x00\x00\x00", "zz"}, modelKeys...)
	for r := m.compacted; r <= m.revision; r++ {
		at := store.Position{Epoch: m.epoch, Revision: r}
		prefix, after := prefixes[rng.IntN(len(prefixes))], ""
		if rng.IntN(2) == 0 {
			after = prefixes[rng.IntN(len(prefixes))]
		}
		q := store.Query{Prefix: prefix, After: after, Limit: rng.IntN(4), At: at}
		require.Empty(t, cmp.Diff(m.page(q), allPages(t, s, q)), "%+v", q)

		var want []store.Change
		for _, c := range m.changes {
			if c.Position.Revision > r {
				want = appendFiltered(want, c, prefix)
			}
		}
		got, upTo := changesUntil(t, s, prefix, at)
		require.Empty(t, cmp.Diff(want, got), "watching %q after %d", prefix, r)
		require.Equal(t, m.revision, upTo.Revision)
	}
	if m.compacted > 0 {
		before := store.Position{Epoch: m.epoch, Revision: m.compacted - 1}
		if before.Revision > firstRevision {
			require.ErrorIs(t, watchError(t, s, before), store.ErrGone)
			_, err := s.List(t.Context(), store.Query{At: before})
			require.ErrorIs(t, err, store.ErrGone)
		}
	}
}

func appendFiltered(changes []store.Change, c store.Change, prefix string) []store.Change {
	kept := store.Change{Position: c.Position}
	for _, e := range c.Events {
		if strings.HasPrefix(e.Key, prefix) {
			kept.Events = append(kept.Events, e)
		}
	}
	if kept.Bookmark() {
		return changes
	}
	return append(changes, kept)
}

// allPages follows the pages of q.
func allPages(t *testing.T, s store.Store, q store.Query) (entries []store.Entry) {
	t.Helper()
	for {
		p, err := s.List(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, q.At, p.Position)
		entries = append(entries, p.Entries...)
		if !p.More {
			return entries
		}
		require.Len(t, p.Entries, q.Limit)
		q.After = p.Entries[len(p.Entries)-1].Key
	}
}

// Retention drops the oldest changes, keeps Options.Retain of them, and leaves no other record
// in the history.
func TestRetention(t *testing.T) {
	t.Parallel()
	const retain = 100
	s := openNew(t, &Options{Retain: retain})
	first := listAt(t, s, store.Position{}).Position
	var positions []store.Revision
	for i := range 3 * pruneChunk {
		positions = append(positions, put(t, s, fmt.Sprint("key", i%10), fmt.Sprint(i)))
	}
	checkFile(t, s)
	require.ErrorIs(t, watchError(t, s, first), store.ErrGone)
	changes, _ := changesUntil(t, s, "", store.Position{Revision: positions[len(positions)-1-retain]})
	require.Len(t, changes, retain)
	within := func(least, most int64) {
		t.Helper()
		require.NoError(t, s.view(t.Context(), viewHead(func(h head) {
			require.GreaterOrEqual(t, h.changes, least)
			require.LessOrEqual(t, h.changes, most)
		})))
	}
	within(retain, retain+pruneChunk)

	// A transaction with more changes than are retained remains whole.
	large := make([]store.Operation, retain+pruneChunk)
	for i := range large {
		large[i] = store.Put(fmt.Sprint("large", i), nil)
	}
	at := listAt(t, s, store.Position{}).Position
	commit(t, s, large...)
	within(int64(len(large)), int64(len(large)))
	changes, _ = changesUntil(t, s, "", at)
	require.Len(t, changes, 1)
	require.Len(t, changes[0].Events, len(large))
	put(t, s, "a", "") // the next change allows to drop it
	within(retain, int64(len(large))+1)
	checkFile(t, s)
}

// A compaction of more than one chunk is completed without further commits, also after the
// file was closed and opened.
func TestCompactFinishesInTheBackground(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openAt(t, path, nil)
	var ops []store.Operation
	for i := range 50 {
		ops = append(ops, store.Put(fmt.Sprint(i), nil))
	}
	for range 40 {
		commit(t, s, ops...)
	}
	at := listAt(t, s, store.Position{}).Position
	require.NoError(t, s.Compact(t.Context(), at.Revision))
	require.NoError(t, s.Close()) // probably before the end of the compaction
	s = openAt(t, path, nil)
	for done := false; !done; { // the committer continues without further commits
		require.NoError(t, s.view(t.Context(), viewHead(func(h head) { done = h.changes == 0 })))
		require.NoError(t, t.Context().Err())
	}
	checkFile(t, s)
	require.Equal(t, at, listAt(t, s, at).Position)
	require.ErrorIs(t, s.Compact(t.Context(), at.Revision+1), store.ErrFuture)
	require.NoError(t, s.Compact(t.Context(), 1), "compacting less than before does nothing")
}

// Readers at old revisions, watches and writers run concurrently while history is dropped. Every
// page is one snapshot or gone, every watch is complete or gone.
func TestPagesAndWatchesUnderPruning(t *testing.T) {
	t.Parallel()
	s := openNew(t, &Options{Retain: 50})
	const keys = 20
	var ops []store.Operation
	for i := range keys {
		ops = append(ops, store.Put(fmt.Sprintf("k%02d", i), []byte("0")))
	}
	commit(t, s, ops...)
	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan error, 2)
	go func() { finished <- readPages(ctx, s, keys) }()
	go func() { finished <- followChanges(ctx, s, keys) }()
	for round := range 100 {
		for i := range ops {
			ops[i].Value = []byte(fmt.Sprint(round))
		}
		commit(t, s, ops...)
	}
	stop()
	require.NoError(t, <-finished)
	require.NoError(t, <-finished)
	checkFile(t, s)
}

func readPages(ctx context.Context, s store.Store, keys int) error {
	for {
		q := store.Query{Limit: 7}
		seen := map[string]bool{}
		total := 0
		for {
			p, err := s.List(ctx, q)
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, store.ErrGone) {
				break
			}
			if err != nil {
				return err
			}
			for _, e := range p.Entries {
				seen[string(e.Value)] = true
				total++
			}
			if !p.More {
				if len(seen) != 1 || total != keys {
					return fmt.Errorf("the pages mix snapshots: values %v, %d entries", seen, total)
				}
				break
			}
			q.At, q.After = p.Position, p.Entries[len(p.Entries)-1].Key
		}
	}
}

func followChanges(ctx context.Context, s store.Store, keys int) error {
	for ctx.Err() == nil {
		var last store.Revision
		for c, err := range s.Watch(ctx, "", store.Position{}) {
			if errors.Is(err, store.ErrGone) || ctx.Err() != nil {
				break
			}
			if err != nil {
				return err
			}
			if c.Bookmark() {
				last = c.Position.Revision
				continue
			}
			if len(c.Events) != keys || c.Position.Revision != last+1 {
				return fmt.Errorf("after revision %d came %d with %d events", last, c.Position.Revision, len(c.Events))
			}
			last = c.Position.Revision
		}
	}
	return nil
}
