package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// model is the store as a list of full copies, one per revision.
type model struct {
	states  []map[string]store.Entry // by revision
	changes []store.Change           // changes[r-1] made revision r
}

func newModel() *model { return &model{states: []map[string]store.Entry{{}}} }

func (m *model) now() map[string]store.Entry { return m.states[len(m.states)-1] }

// commit returns the revision, or the first failed condition.
func (m *model) commit(txn store.Txn) (store.Revision, *store.Condition) {
	for _, c := range txn.If {
		var current *store.Entry
		if e, ok := m.now()[c.Key]; ok {
			current = &e
		}
		if !c.Holds(current) {
			return 0, &c
		}
	}
	next := store.Revision(len(m.states))
	state := map[string]store.Entry{}
	for k, e := range m.now() {
		state[k] = e
	}
	var events []store.Event
	for _, op := range txn.Do {
		event := store.Event{Key: op.Key, Value: op.Value, Deleted: op.Delete}
		if e, ok := state[op.Key]; ok {
			event.Prev = &e
		}
		if op.Delete {
			if event.Prev == nil {
				continue
			}
			delete(state, op.Key)
		} else {
			state[op.Key] = store.Entry{Key: op.Key, Value: op.Value, Revision: next}
		}
		events = append(events, event)
	}
	if len(events) == 0 {
		return next - 1, nil
	}
	m.states = append(m.states, state)
	m.changes = append(m.changes, store.Change{Position: store.Position{Epoch: "model", Revision: next}, Events: events})
	return next, nil
}

func (m *model) list(q store.Query, at store.Revision) store.Page {
	page := store.Page{Position: store.Position{Epoch: "model", Revision: at}}
	for _, e := range m.states[at] {
		if strings.HasPrefix(e.Key, q.Prefix) && e.Key > q.After {
			page.Entries = append(page.Entries, e)
		}
	}
	slices.SortFunc(page.Entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	if q.Limit > 0 && len(page.Entries) > q.Limit {
		page.Entries, page.More = page.Entries[:q.Limit], true
	}
	return page
}

// watch returns the changes to prefix after a revision.
func (m *model) watch(prefix string, after store.Revision) []store.Change {
	var out []store.Change
	for _, c := range m.changes[after:] {
		kept := store.Change{Position: c.Position}
		for _, e := range c.Events {
			if strings.HasPrefix(e.Key, prefix) {
				kept.Events = append(kept.Events, e)
			}
		}
		if len(kept.Events) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

var modelKeys = []string{"a", "a/", "a/b", "a/b/c", "a0", "b", "b\x00", "b\xff", "c"}

// play turns bytes into operations on a store and the model. It compares every result, and then
// everything that is retained.
type play struct {
	t     *testing.T
	input []byte
	store *Store
	model *model
}

// byte returns the next byte of the input, modulo n, or zero at the end of the input.
func (p *play) byte(n int) int {
	if len(p.input) == 0 {
		return 0
	}
	b := p.input[0]
	p.input = p.input[1:]
	return int(b) % n
}

func (p *play) key() string { return modelKeys[p.byte(len(modelKeys))] }

func (p *play) run() {
	for step := 0; len(p.input) > 0; step++ {
		switch p.byte(8) {
		case 0:
			p.compact()
		case 1:
			p.list(store.Revision(p.byte(len(p.model.states))))
		default:
			p.commit(step)
		}
	}
	p.everything()
}

func (p *play) commit(step int) {
	var txn store.Txn
	for range p.byte(3) {
		key := p.key()
		revision := p.model.now()[key].Revision
		switch p.byte(6) {
		case 0:
			txn.If = append(txn.If, store.Absent(key))
		case 1:
			txn.If = append(txn.If, store.Exists(key))
		case 2:
			txn.If = append(txn.If, store.At(key, revision+1))
		default:
			if revision > 0 {
				txn.If = append(txn.If, store.At(key, revision))
			}
		}
	}
	for range p.byte(4) {
		op := store.Put(p.key(), []byte{})
		switch p.byte(5) {
		case 0, 1:
			op = store.Delete(op.Key)
		case 2, 3:
			op.Value = fmt.Appendf(nil, "step %d", step)
		}
		if !slices.ContainsFunc(txn.Do, func(o store.Operation) bool { return o.Key == op.Key }) {
			txn.Do = append(txn.Do, op)
		}
	}
	want, failed := p.model.commit(txn)
	got, err := p.store.Commit(context.Background(), txn)
	if failed == nil {
		require.NoError(p.t, err)
		require.Equal(p.t, want, got)
		return
	}
	var conflict *store.ConflictError
	require.ErrorAs(p.t, err, &conflict)
	require.Equal(p.t, *failed, conflict.Condition)
	current, ok := p.model.now()[failed.Key]
	require.Equal(p.t, ok, conflict.Current != nil)
	if ok {
		require.Equal(p.t, current, *conflict.Current)
	}
}

func (p *play) compact() {
	revision := store.Revision(p.byte(len(p.model.states) + 2))
	err := p.store.Compact(context.Background(), revision)
	if int(revision) >= len(p.model.states) {
		require.ErrorIs(p.t, err, store.ErrFuture)
		return
	}
	require.NoError(p.t, err)
	require.GreaterOrEqual(p.t, p.store.compacted, revision)
}

// list compares one page at revision.
func (p *play) list(revision store.Revision) {
	q := store.Query{Limit: p.byte(5), At: store.Position{Epoch: "model", Revision: revision}}
	if p.byte(2) == 0 {
		q.Prefix = p.key()
	}
	if p.byte(2) == 0 {
		q.After = p.key()
	}
	p.compare(q, revision)
}

func (p *play) compare(q store.Query, revision store.Revision) store.Page {
	got, err := p.store.List(context.Background(), q)
	if revision < p.store.compacted {
		require.ErrorIs(p.t, err, store.ErrGone)
		return store.Page{}
	}
	require.NoError(p.t, err)
	if diff := cmp.Diff(p.model.list(q, revision), got); diff != "" {
		p.t.Fatalf("list %+v (-want +got):\n%s", q, diff)
	}
	// The algorithm of long listings has the same result.
	got = store.Page{}
	if got.Position.Revision, err = p.store.readCopy(context.Background(), q, filling(&got, q)); err != nil {
		p.t.Fatal(err)
	}
	got.Position.Epoch = "model"
	if diff := cmp.Diff(p.model.list(q, revision), got); diff != "" {
		p.t.Fatalf("list a copy %+v (-want +got):\n%s", q, diff)
	}
	n, err := p.store.Count(context.Background(), q)
	require.NoError(p.t, err)
	require.Equal(p.t, len(got.Entries), n, "count %+v", q)
	return got
}

// everything lists each revision in pages of all sizes, watches from each, and checks that the
// store retains exactly the required history.
func (p *play) everything() {
	prefixes := append([]string{""}, modelKeys...)
	for r := range p.model.states {
		revision := store.Revision(r)
		at := store.Position{Epoch: "model", Revision: revision}
		for limit := range 4 {
			for q := (store.Query{Limit: limit, At: at}); ; {
				page := p.compare(q, revision)
				if !page.More {
					break
				}
				q.After = page.Entries[len(page.Entries)-1].Key
			}
		}
		for _, prefix := range prefixes {
			p.compare(store.Query{Prefix: prefix, At: at}, revision)
			p.watch(prefix, at)
		}
	}
	p.accounts()
}

// watch compares the changes of a watch from a position up to its first bookmark.
func (p *play) watch(prefix string, after store.Position) {
	var got []store.Change
	for c, err := range p.store.Watch(context.Background(), prefix, after) {
		if after.Revision < p.store.compacted {
			require.ErrorIs(p.t, err, store.ErrGone)
			return
		}
		require.NoError(p.t, err)
		if c.Bookmark() {
			require.Equal(p.t, p.store.revision, c.Position.Revision)
			break
		}
		got = append(got, c)
	}
	if diff := cmp.Diff(p.model.watch(prefix, after.Revision), got); diff != "" {
		p.t.Fatalf("watch %q after %d (-want +got):\n%s", prefix, after.Revision, diff)
	}
}

// accounts checks the sizes that bound the memory of the store.
func (p *play) accounts() {
	s := p.store
	versions, bytes := 0, 0
	for i := range s.log.len() {
		c := s.log.at(i)
		require.Equal(p.t, s.compacted+store.Revision(i)+1, c.Position.Revision)
		bytes += historic(c)
		for _, e := range c.Events {
			if e.Prev != nil {
				versions++
			}
		}
	}
	require.Equal(p.t, int(s.revision-s.compacted), s.log.len())
	require.LessOrEqual(p.t, s.log.len(), s.options.Retain)
	require.Equal(p.t, bytes, s.bytes)
	require.Equal(p.t, versions, s.tables.history.Len())
	require.Equal(p.t, len(p.model.now()), s.tables.live.Len())
}

func playOn(t *testing.T, input []byte, options Options) {
	options.Epoch = "model"
	s, err := New(&options)
	require.NoError(t, err)
	defer s.Close()
	(&play{t: t, input: input, store: s, model: newModel()}).run()
}

// TestModel runs random operations with histories of several lengths. It includes watches after
// repeated compactions: no change comes twice, and no compacted change comes back.
func TestModel(t *testing.T) {
	for _, history := range []int{1, 2, 7, 1000} {
		t.Run(fmt.Sprintf("history=%d", history), func(t *testing.T) {
			for seed := range uint64(8) {
				input := make([]byte, 220)
				random := rand.New(rand.NewPCG(seed, uint64(history)))
				for i := range input {
					input[i] = byte(random.Uint32())
				}
				if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { playOn(t, input, Options{Retain: history}) }) {
					return
				}
			}
		})
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte{2, 0, 1, 2, 3, 1, 0, 2, 2, 0, 1, 2, 3}, uint8(3))
	f.Add([]byte("a store is a map with a memory"), uint8(1))
	f.Fuzz(func(t *testing.T, input []byte, history uint8) {
		if len(input) > 400 {
			t.Skip("the model is quadratic")
		}
		playOn(t, input, Options{Retain: int(history)})
	})
}
