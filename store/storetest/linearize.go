package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nslifecycle/nslifecycle/store"
)

// The errors of [CheckLinearizable].
var (
	ErrNotLinearizable = errors.New("the history is not linearizable")
	ErrUndecided       = errors.New("the history is too long to decide in the time given")
)

// CheckLinearizable returns nil if the calls of history have an order that explains every answer
// and that keeps calls in order if one ended before the other began. The whole store is one
// object, because conditions span keys, so the history is not partitioned by key.
//
// A commit with an unknown outcome never returns: it may have taken effect at any moment after
// its call, or (ordered behind all other calls) not at all. To find its revision if another call
// has seen it, its values must differ from those of all other commits. Use few such commits and
// some hundreds of calls, because the check is exponential in the number of concurrent calls.
//
// The error is [ErrNotLinearizable] with the calls that fit no order, [ErrUndecided] after
// timeout (zero: none), or [store.ErrInvalid] for a history that no [Recorder] has made.
func CheckLinearizable(start store.Page, history []porcupine.Operation, timeout time.Duration) error {
	for i, op := range history {
		call, ok := op.Input.(Call)
		_, ok2 := op.Output.(Answer)
		if !ok || !ok2 || call == (Call{}) {
			return fmt.Errorf("%w: operation %d of the history was not recorded by a Recorder", store.ErrInvalid, i)
		}
	}
	result, info := porcupine.CheckOperationsVerbose(Model(start, history), history, timeout)
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
		fmt.Fprintf(&s, "\tclient %d: %s\n", op.ClientId, describe(op.Input, op.Output))
	}
	s.WriteString("no order has room for all of the next:\n")
	left := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool { return placed[op.Call] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, op := range left[:min(6, len(left))] {
		fmt.Fprintf(&s, "\tclient %d: %s\n", op.ClientId, describe(op.Input, op.Output))
	}
	return s.String()
}

func describe(input, output any) string {
	call, answer := input.(Call), output.(Answer)
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
