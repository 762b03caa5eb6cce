package postgres

import (
	"iter"

	"github.com/nslifecycle/nslifecycle/store"
)

// batch decides requests one after another, each on top of the ones before it, and collects the
// writes.
type batch struct {
	before    head
	head      head
	stored    map[string]*store.Entry // the entries on the server at the touched keys
	locked    map[string]bool         // the keys that this transaction may write
	deletable map[string]bool         // the keys that it may delete
	now       map[string]*store.Entry // the entries that the batch changes; nil means deleted

	changes []store.Change
	answers []answer
	decided []*request
	waiting []blocked // requests that hosts' holds block
}

// answer is the result of one request.
type answer struct {
	revision store.Revision
	err      error
}

// blocked is a request whose keys are held by transactions of hosts.
type blocked struct {
	request *request
	keys    []string
}

func (b *batch) current(key string) *store.Entry {
	if e, ok := b.now[key]; ok {
		return e
	}
	return b.stored[key]
}

// decide computes the result of r, or sets r aside if it is blocked.
func (b *batch) decide(r *request) {
	a, held := b.apply(r.Work)
	if held != nil {
		b.waiting = append(b.waiting, blocked{r, held})
		return
	}
	b.decided = append(b.decided, r)
	b.answers = append(b.answers, a)
}

func (b *batch) apply(r *transaction) (a answer, held []string) {
	if r.compact {
		return b.compact(r.revision), nil
	}
	for _, c := range r.conditions {
		if current := b.current(c.Key); !c.Holds(current) {
			return answer{err: &store.ConflictError{Condition: c, Current: current}}, nil
		}
	}
	events := make([]store.Event, 0, len(r.operations))
	for i := range r.operations {
		op := &r.operations[i]
		prev := b.current(op.Key)
		if op.Delete && prev == nil {
			continue
		}
		free := b.locked
		if op.Delete {
			free = b.deletable
		}
		if b.stored[op.Key] != nil && !free[op.Key] {
			held = append(held, op.Key)
			continue
		}
		events = append(events, store.Event{Key: op.Key, Value: op.Value, Deleted: op.Delete, Prev: prev})
	}
	if held != nil {
		return answer{}, held
	}
	if len(events) > 0 {
		b.write(events)
	}
	return answer{revision: b.head.revision}, nil
}

func (b *batch) write(events []store.Event) {
	b.head.revision++
	for i := range events {
		e := &events[i]
		b.now[e.Key] = nil
		if !e.Deleted {
			b.now[e.Key] = &store.Entry{Key: e.Key, Value: e.Value, Revision: b.head.revision}
		}
	}
	b.changes = append(b.changes, store.Change{Position: store.Position{Epoch: b.head.epoch, Revision: b.head.revision}, Events: events})
}

func (b *batch) compact(r store.Revision) answer {
	if r > b.head.revision {
		return answer{err: &store.FutureError{Asked: r, Current: b.head.revision}}
	}
	b.head.compacted = max(b.head.compacted, r)
	return answer{revision: b.head.revision}
}

// retain compacts the history beyond Options.Retain.
func (b *batch) retain(o Options) {
	keep := store.Revision(o.Retain)
	if b.head.revision-b.head.compacted > keep+o.slack() {
		b.head.compacted = b.head.revision - keep
	}
}

// dirty reports whether there is anything to write.
func (b *batch) dirty() bool { return len(b.changes) > 0 || b.head.compacted != b.before.compacted }

// rows are the arguments of the statements that write a batch.
type rows struct {
	inserted, updated columns
	removed           [][]byte
	log               logColumns
}

type columns struct {
	keys, values [][]byte
	revisions    []int64
}

func (c *columns) add(e *store.Entry) {
	c.keys = append(c.keys, []byte(e.Key))
	c.values = append(c.values, e.Value)
	c.revisions = append(c.revisions, int64(e.Revision))
}

type logColumns struct {
	revisions     []int64
	seqs          []int32
	keys          [][]byte
	deleted       []bool
	prevRevisions []*int64
	prevValues    [][]byte
}

// slices splits l into parts with values of up to the given size, or of one row. A message to the
// server is limited in size.
func (l *logColumns) slices(bytes int) iter.Seq[*logColumns] {
	return func(yield func(*logColumns) bool) {
		for from, to := 0, 0; from < len(l.keys); from = to {
			for size := 0; to < len(l.keys); to++ {
				if size += len(l.prevValues[to]); to > from && size > bytes {
					break
				}
			}
			if !yield(&logColumns{l.revisions[from:to], l.seqs[from:to], l.keys[from:to],
				l.deleted[from:to], l.prevRevisions[from:to], l.prevValues[from:to]}) {
				return
			}
		}
	}
}

// rows returns the rows that the batch writes.
func (b *batch) rows() rows {
	var w rows
	for key, e := range b.now {
		was := b.stored[key]
		switch {
		case e == nil && was != nil:
			w.removed = append(w.removed, []byte(key))
		case e != nil && was != nil:
			w.updated.add(e)
		case e != nil:
			w.inserted.add(e)
		}
	}
	l := &w.log
	for _, c := range b.changes {
		for i := range c.Events {
			e := &c.Events[i]
			l.revisions = append(l.revisions, int64(c.Position.Revision))
			l.seqs = append(l.seqs, int32(i))
			l.keys = append(l.keys, []byte(e.Key))
			l.deleted = append(l.deleted, e.Deleted)
			var revision *int64
			var value []byte
			if e.Prev != nil {
				r := int64(e.Prev.Revision)
				revision, value = &r, e.Prev.Value
			}
			l.prevRevisions = append(l.prevRevisions, revision)
			l.prevValues = append(l.prevValues, value)
		}
	}
	return w
}
