package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// ledger is what there is to say of each namespace that the agent has to do with. It
// says it once.
type ledger struct {
	say func(format string, args ...any)

	mu      sync.Mutex
	entries map[namespace.Ref]record
}

// record is what is known of one incarnation.
type record struct {
	state string // what was said, but for numbers
	holds bool   // the agent's finalizer is there still
	left  int    // objects
}

func newLedger(say func(format string, args ...any)) *ledger {
	return &ledger{say: say, entries: map[namespace.Ref]record{}}
}

// passed takes up what a pass came to.
func (l *ledger) passed(ref namespace.Ref, result pass.Result, err error) {
	r := record{left: result.Report.Remaining()}
	text := ""
	switch result.Outcome {
	case pass.Waiting:
		r.holds = true
		r.state, text = waiting(result.Report)
	case pass.Failed:
		r.holds = true
		text = "will try again: " + failures(result.Report, err)
		r.state = alike(text)
	case pass.Finalized:
		text = fmt.Sprintf("is empty, finalized; its finalizers are now %q", result.Namespace.Spec.Finalizers.Names())
		r.state = "finalized"
	case pass.Removed:
		text = "is empty, finalized and with that removed"
		r.state = "removed"
	case pass.Interrupted:
		return // it goes on
	default:
		l.release(ref) // nothing of the agent's, or no more
		return
	}
	l.mu.Lock()
	before := l.entries[ref]
	l.entries[ref] = r
	l.mu.Unlock()
	if before.state != r.state {
		l.say("%q: %s", ref.Name, text)
	}
}

// removed takes up that a namespace is gone.
func (l *ledger) removed(ref namespace.Ref) {
	l.mu.Lock()
	before, known := l.entries[ref]
	delete(l.entries, ref)
	l.mu.Unlock()
	if known && before.state != "removed" {
		l.say("%q: is gone", ref.Name)
	}
}

// release takes up that there is nothing to do for a namespace.
func (l *ledger) release(ref namespace.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, known := l.entries[ref]; known {
		r.holds = false
		l.entries[ref] = r
	}
}

// clear forgets everything: it is another replica's now.
func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.entries)
}

// remaining returns how many objects are left in the namespaces that the agent holds.
func (l *ledger) remaining() (objects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.entries {
		if r.holds {
			objects += r.left
		}
	}
	return objects
}

// waiting tells what a namespace waits for: what makes it another state, and the whole.
func waiting(report deleter.Report) (state, text string) {
	if report.Remaining() == 0 && report.Provisional > 0 {
		const settles = "is empty; creates may be under way, so that it is looked at again"
		return settles, settles
	}
	var states, texts []string
	for _, r := range report.Results {
		if r.Empty() || r.Waiting {
			continue
		}
		states = append(states, r.Resource.String()+" "+strings.Join(holders(r), " "))
		one := fmt.Sprintf("%s (%d left", r.Resource, r.Remaining)
		if len(r.Holders) > 0 {
			one += ", held by " + strings.Join(holders(r), ", ")
		}
		texts = append(texts, one+")")
	}
	return strings.Join(states, ","), "waits for " + some(texts, ", ")
}

// holders returns the finalizers that hold objects of a type.
func holders(r deleter.Result) []string {
	names := make([]string, 0, len(r.Holders))
	for _, h := range r.Holders {
		names = append(names, h.Finalizer)
	}
	return names
}

// failures tells why a pass failed: by its report if that says it, else by err.
func failures(report deleter.Report, err error) string {
	all := slices.Concat(report.Discovery, report.Parsing)
	for _, r := range report.Results {
		if r.Err != nil {
			all = append(all, r.Err)
		}
	}
	if len(all) == 0 {
		return explain(err)
	}
	texts := make([]string, 0, len(all))
	for _, one := range all {
		texts = append(texts, explain(one))
	}
	return some(texts, "; ")
}

// some joins the first few of texts, and counts the others.
func some(texts []string, separator string) string {
	const few = 3
	if len(texts) <= few {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:few], separator), separator, len(texts)-few)
}
