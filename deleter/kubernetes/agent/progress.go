package agent

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// progress reports each change of a namespace's state once.
type progress struct {
	report func(format string, args ...any)

	mu     sync.Mutex
	states map[namespace.Ref]state
}

// state is the state of one incarnation.
type state struct {
	key   string // the reported text without numbers
	holds bool   // the namespace still has the agent's finalizer
	left  int    // objects
}

func newProgress(report func(format string, args ...any)) *progress {
	return &progress{report: report, states: map[namespace.Ref]state{}}
}

func (p *progress) passEnded(ref namespace.Ref, result pass.Result, err error) {
	s := state{left: result.Report.Remaining()}
	text := ""
	switch result.Outcome {
	case pass.Waiting:
		s.holds = true
		s.key, text = waiting(result.Report)
	case pass.Failed:
		s.holds = true
		text = "failed, retrying: " + failures(result.Report, err)
		s.key = withoutDigits(text)
	case pass.Finalized:
		text = fmt.Sprintf("empty, finalizer removed; remaining finalizers: %q", result.Namespace.Spec.Finalizers.Names())
		s.key = "finalized"
	case pass.Removed:
		text = "empty, last finalizer removed, namespace removed"
		s.key = "removed"
	case pass.Interrupted:
		return // retried
	default: // the namespace does not hold the agent's finalizer, or not any more
		p.mu.Lock()
		defer p.mu.Unlock()
		if s, known := p.states[ref]; known {
			s.holds = false
			p.states[ref] = s
		}
		return
	}
	p.mu.Lock()
	before := p.states[ref]
	p.states[ref] = s
	p.mu.Unlock()
	if before.key != s.key {
		p.report("%q: %s", ref.Name, text)
	}
}

// removed records that a namespace was removed.
func (p *progress) removed(ref namespace.Ref) {
	p.mu.Lock()
	before, known := p.states[ref]
	delete(p.states, ref)
	p.mu.Unlock()
	if known && before.key != "removed" {
		p.report("%q: namespace removed", ref.Name)
	}
}

// clear drops all states: another replica leads.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.states)
}

// remaining returns the number of objects in namespaces that hold the agent's finalizer.
func (p *progress) remaining() (objects int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		if s.holds {
			objects += s.left
		}
	}
	return objects
}

// waiting describes a pass that left objects. key changes when a type or a finalizer does.
func waiting(report deleter.Report) (key, text string) {
	if report.Remaining() == 0 && report.Provisional > 0 {
		const text = "empty; checking again, since creates may be in flight"
		return text, text
	}
	var keys, texts []string
	for _, r := range report.Results {
		if r.Empty() || r.Waiting {
			continue
		}
		holders := holders(r)
		keys = append(keys, r.Resource.String()+" "+holders)
		text := fmt.Sprintf("%s (%d left", r.Resource, r.Remaining)
		if holders != "" {
			text += ", held by " + holders
		}
		texts = append(texts, text+")")
	}
	return strings.Join(keys, ","), "waiting for " + abbreviate(texts, ", ")
}

// holders lists the finalizers that block deletion of objects.
func holders(r deleter.Result) string {
	names := make([]string, 0, len(r.Holders))
	for _, h := range r.Holders {
		names = append(names, h.Finalizer)
	}
	return strings.Join(names, ", ")
}

// failures describes the failures in report, or err if there are none.
func failures(report deleter.Report, err error) string {
	var texts []string
	for f := range report.Failures() {
		if f.Kind != deleter.PassFailed {
			texts = append(texts, describe(f.Err))
		}
	}
	if len(texts) == 0 {
		return describe(err)
	}
	return abbreviate(texts, "; ")
}

// abbreviate joins the first three texts and counts the others.
func abbreviate(texts []string, separator string) string {
	const limit = 3
	if len(texts) <= limit {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:limit], separator), separator, len(texts)-limit)
}
