package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/nslifecycle/nslifecycle/store"
)

// Model returns the store as a sequential machine, for histories of a [Recorder]. It needs the
// history to find the revisions of commits with an unknown outcome.
func Model(start store.Page, history []porcupine.Operation) porcupine.Model {
	m := model{revealed: reveal(history)}
	return porcupine.Model{
		Init: func() any { return state{start.Position.Revision, slices.Clone(start.Entries)} },
		Step: func(s, input, output any) (bool, any) {
			next, ok := m.step(s.(state), input.(Call), output.(Answer))
			return ok, next
		},
		Equal:             func(a, b any) bool { return a.(state).equal(b.(state)) },
		DescribeOperation: describe,
		DescribeState:     func(s any) string { return s.(state).String() },
	}
}

// state is the state of the store after some commits. It is immutable: a commit copies the few
// entries of a history.
type state struct {
	revision store.Revision // of the latest commit, or less if its outcome was unknown
	entries  []store.Entry  // in key order
}

func (s state) String() string {
	var all []string
	for _, e := range s.entries {
		all = append(all, fmt.Sprintf("%q=%.20q@%d", e.Key, e.Value, e.Revision))
	}
	return "{" + strings.Join(all, " ") + "}"
}

func (s state) equal(o state) bool {
	return s.revision == o.revision && slices.EqualFunc(s.entries, o.entries, sameEntry)
}

func sameEntry(a, b store.Entry) bool {
	return a.Revision == b.Revision && a.Key == b.Key && bytes.Equal(a.Value, b.Value)
}

func (s state) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s.entries, key, func(e store.Entry, key string) int { return cmp.Compare(e.Key, key) })
}

func (s state) get(key string) *store.Entry {
	if i, ok := s.find(key); ok {
		return &s.entries[i]
	}
	return nil
}

// apply returns s after do at revision, and reports whether anything changed.
func (s state) apply(do []store.Operation, revision store.Revision) (state, bool) {
	next := state{s.revision, slices.Clone(s.entries)}
	changed := false
	for _, op := range do {
		i, there := next.find(op.Key)
		e := store.Entry{Key: op.Key, Value: op.Value, Revision: revision}
		switch {
		case op.Delete && !there:
			continue
		case op.Delete:
			next.entries = slices.Delete(next.entries, i, i+1)
		case there:
			next.entries[i] = e
		default:
			next.entries = slices.Insert(next.entries, i, e)
		}
		changed = true
	}
	return next, changed
}

type model struct {
	revealed map[*store.Txn]store.Revision // of commits with an unknown outcome that a call has seen
}

// step returns the state after a call with this answer. It returns false if s cannot give the
// answer.
func (m model) step(s state, call Call, answer Answer) (state, bool) {
	switch {
	case call.Get != "":
		return s, sameOptional(s.get(call.Get), answer.Entry)
	case call.List != nil:
		return s.list(*call.List, answer.Page)
	case answer.Unknown:
		return m.unknown(s, call.Commit), true
	}
	return s.commit(*call.Commit, answer)
}

func sameOptional(a, b *store.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameEntry(*a, *b)
}

func (s state) list(q store.Query, p store.Page) (state, bool) {
	var want []store.Entry
	more := false
	for _, e := range s.entries {
		if !strings.HasPrefix(e.Key, q.Prefix) || e.Key <= q.After && q.After != "" {
			continue
		}
		if q.Limit > 0 && len(want) == q.Limit {
			more = true
			break
		}
		want = append(want, e)
	}
	ok := more == p.More && p.Position.Revision >= s.revision && slices.EqualFunc(want, p.Entries, sameEntry)
	return state{p.Position.Revision, s.entries}, ok
}

// failing returns the first condition that fails.
func (s state) failing(conditions []store.Condition) *store.Condition {
	for i, c := range conditions {
		if !c.Holds(s.get(c.Key)) {
			return &conditions[i]
		}
	}
	return nil
}

func (s state) commit(txn store.Txn, answer Answer) (state, bool) {
	failing := s.failing(txn.If)
	if failing != nil || answer.Conflict != nil {
		return s, failing != nil && answer.Conflict != nil && *failing == answer.Conflict.Condition &&
			sameOptional(s.get(failing.Key), answer.Conflict.Current)
	}
	next, changed := s.apply(txn.Do, answer.Revision)
	next.revision = answer.Revision
	if changed {
		return next, answer.Revision > s.revision
	}
	return next, answer.Revision >= s.revision
}

// unknown returns s after a commit with an unknown outcome, if it can have happened here. If it
// never happened, it is ordered behind all calls.
func (m model) unknown(s state, txn *store.Txn) state {
	if s.failing(txn.If) != nil {
		return s
	}
	revision, seen := m.revealed[txn]
	if seen && revision <= s.revision {
		return s
	}
	next, changed := s.apply(txn.Do, revision) // revision 0: no later call has seen it
	if !changed {
		return s
	}
	next.revision = max(s.revision+1, revision)
	return next
}

// reveal finds the revisions of commits with an unknown outcome by the values that other calls
// have seen.
func reveal(history []porcupine.Operation) map[*store.Txn]store.Revision {
	type written struct{ key, value string }
	by := map[written]*store.Txn{}
	for _, op := range history {
		if !op.Output.(Answer).Unknown {
			continue
		}
		txn := op.Input.(Call).Commit
		for _, do := range txn.Do {
			if !do.Delete {
				by[written{do.Key, string(do.Value)}] = txn
			}
		}
	}
	revealed := map[*store.Txn]store.Revision{}
	see := func(entries ...store.Entry) {
		for _, e := range entries {
			if txn := by[written{e.Key, string(e.Value)}]; txn != nil {
				revealed[txn] = e.Revision
			}
		}
	}
	for _, op := range history {
		answer := op.Output.(Answer)
		see(answer.Page.Entries...)
		if answer.Entry != nil {
			see(*answer.Entry)
		}
		if answer.Conflict != nil && answer.Conflict.Current != nil {
			see(*answer.Conflict.Current)
		}
	}
	return revealed
}
