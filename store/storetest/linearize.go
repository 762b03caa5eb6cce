package storetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nslifecycle/nslifecycle/store"
)

// The errors of [Recorder.Check].
var (
	ErrNotLinearizable = errors.New("the history is not linearizable")
	ErrUndecided       = errors.New("the history is too long to decide in the time given")
)

// check returns nil if the calls of history have an order that explains every answer and that
// keeps calls in order if one ended before the other began. The whole store is one object, because
// conditions span keys, so the history is not partitioned by key.
func check(start store.Page, history []porcupine.Operation, timeout time.Duration) error {
	m := model{revealed: reveal(history)}
	result, info := porcupine.CheckOperationsVerbose(porcupine.Model{
		Init: func() any { return state{start.Position.Revision, slices.Clone(start.Entries)} },
		Step: func(s, in, out any) (bool, any) {
			next, ok := m.step(s.(state), in.(input), out.(output))
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	}, history, timeout)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return fmt.Errorf("%w:\n%s", ErrNotLinearizable, explain(history, info))
	}
	return fmt.Errorf("%w: %d calls, %v", ErrUndecided, len(history), timeout)
}

// explain shows the end of the longest order found and the calls that cannot follow it.
func explain(history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[int64]bool{} // calls have distinct times
	for _, op := range longest {
		placed[op.Call] = true
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%d of %d calls fit; the last of them:\n", len(longest), len(history))
	for _, op := range longest[max(0, len(longest)-6):] {
		fmt.Fprintf(&s, "\tclient %d: %s\n", op.ClientId, describe(op))
	}
	s.WriteString("no order has room for all of the next:\n")
	left := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool { return placed[op.Call] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, op := range left[:min(6, len(left))] {
		fmt.Fprintf(&s, "\tclient %d: %s\n", op.ClientId, describe(op))
	}
	return s.String()
}

func describe(op porcupine.Operation) string {
	call, answer := op.Input.(input), op.Output.(output)
	switch {
	case call.Get != "":
		if answer.Entry == nil {
			return fmt.Sprintf("get %q: absent", call.Get)
		}
		return fmt.Sprintf("get %q: %.20q of revision %d", call.Get, answer.Entry.Value, answer.Entry.Revision)
	case call.List != nil:
		return fmt.Sprintf("list (%s): %s of revision %d", showQuery(*call.List), state{entries: answer.Page.Entries}, answer.Page.Position.Revision)
	case answer.Unknown:
		return fmt.Sprintf("commit (%s): unknown outcome", show(*call.Commit))
	case answer.Conflict != nil:
		return fmt.Sprintf("commit (%s): %v", show(*call.Commit), answer.Conflict)
	}
	return fmt.Sprintf("commit (%s): revision %d", show(*call.Commit), answer.Revision)
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

// model is the store as a sequential machine.
type model struct {
	revealed map[*store.Txn]store.Revision // of commits with an unknown outcome that a call has seen
}

// step returns the state after a call with this answer. It returns false if s cannot give the
// answer.
func (m model) step(s state, call input, answer output) (state, bool) {
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

func (s state) commit(txn store.Txn, answer output) (state, bool) {
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
		if !op.Output.(output).Unknown {
			continue
		}
		txn := op.Input.(input).Commit
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
		answer := op.Output.(output)
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
