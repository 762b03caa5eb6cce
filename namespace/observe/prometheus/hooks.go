package prometheus

import (
	"context"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Hooks returns hooks that feed c. Call it once for each controller of the party in this
// process. Their namespaces are counted together; a namespace belongs to the controller that
// queued it last.
func (c *Collector) Hooks() controller.Hooks {
	f := &feed{c}
	return controller.Hooks{
		Queued: func(ref namespace.Ref) { f.queue(ref, true) },
		PassStarted: func(ctx context.Context, ref namespace.Ref) context.Context {
			f.queue(ref, false)
			return ctx
		},
		PassEnded: c.ended,
		Retried:   c.retried,
		Released:  f.left,
		Removed:   f.removed,
	}
}

// feed receives the reports of one controller.
type feed struct{ c *Collector }

// queue records whether the namespace waits for a worker. An unknown one is terminating, or
// it would not be queued.
func (f *feed) queue(ref namespace.Ref, queued bool) {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.namespaces[ref]
	if !known {
		c.stages[0]++
	}
	if queued || !known { // a pass may begin after the namespace has moved to another controller
		e.owner = f
	}
	c.wait(&e, queued)
	c.namespaces[ref] = e
}

func (c *Collector) wait(e *entry, queued bool) {
	switch {
	case queued && !e.queued:
		c.queued++
	case !queued && e.queued:
		c.queued--
	}
	e.queued = queued
}

func (c *Collector) ended(_ context.Context, ref namespace.Ref, result pass.Result, _ error, took time.Duration) {
	c.work.Observe(took.Seconds())
	if o := result.Outcome; o >= pass.Failed && int(o) < len(c.passes) {
		c.passes[o].Inc()
	} else {
		c.others.passes.Inc()
	}
	if result.Conflicts > 0 {
		c.conflicts.Add(float64(result.Conflicts))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resources.count(result.Report)
	e, known := c.namespaces[ref]
	if !known {
		return // it has left or was removed
	}
	switch {
	case result.Outcome == pass.Active, result.Outcome == pass.Replaced,
		result.Outcome == pass.NoFinalizer && e.deleted.IsZero(): // the party never held it, or it is not terminating
		c.forget(ref)
		return
	case result.Outcome == pass.Interrupted: // a source that has not answered yet has not failed
	default: // pass.Gone too; the Removed hook follows
		c.fail(&e, result.Report)
	}
	if ns := result.Namespace; ns.UID == ref.UID && !ns.DeletionTimestamp.IsZero() {
		e.deleted = ns.DeletionTimestamp.Time
		c.stages[e.stage]--
		e.stage = c.stageOf(ns)
		c.stages[e.stage]++
	}
	c.namespaces[ref] = e
}

// fail records the resources that failed. Those that failed before keep their time.
func (c *Collector) fail(e *entry, report deleter.Report) {
	c.failures = c.resources.failures(report, c.failures[:0])
	if slices.EqualFunc(e.failing, c.failures, func(f failure, index int) bool { return f.index == index }) {
		return
	}
	before := e.failing
	for _, f := range before {
		c.resources.list[f.index].failing--
	}
	e.failing = nil
	for _, index := range c.failures {
		one := failure{index, time.Now()}
		if i := slices.IndexFunc(before, func(f failure) bool { return f.index == index }); i >= 0 {
			one = before[i]
		}
		e.failing = append(e.failing, one)
		c.resources.list[index].failing++
		c.resources.list[index].failed = true
	}
}

func (c *Collector) retried(_ namespace.Ref, _ time.Duration, reason controller.Reason) {
	if counter, ok := c.retries[reason]; ok {
		counter.Inc()
		return
	}
	c.others.retries.Inc()
}

func (f *feed) left(ref namespace.Ref) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.c.namespaces[ref].owner == f {
		f.c.forget(ref)
	}
}

func (f *feed) removed(ref namespace.Ref) {
	c := f.c
	c.mu.Lock()
	e := c.namespaces[ref]
	unknown := e.deleted.IsZero() // it belongs to another controller, or was removed before its first pass
	if !unknown || e.owner == f {
		c.forget(ref)
	} // otherwise keep it: its owner reports the removal too, perhaps with the time of deletion
	c.mu.Unlock()
	if !unknown {
		c.deletion.Observe(max(0, time.Since(e.deleted).Seconds()))
	}
}

// forget drops the namespace.
func (c *Collector) forget(ref namespace.Ref) {
	e, known := c.namespaces[ref]
	if !known {
		return
	}
	c.wait(&e, false)
	c.fail(&e, deleter.Report{})
	c.stages[e.stage]--
	delete(c.namespaces, ref)
}

// failures appends the indices of the failed resources to list, ascending.
func (r *resources) failures(report deleter.Report, list []int) []int {
	for f := range report.Failures() {
		switch f.Kind {
		case deleter.DiscoveryFailed:
			list = append(list, discovery)
		case deleter.ParsingFailed:
			list = append(list, parsing)
		case deleter.SourceFailed:
			list = append(list, r.of(f.Result.Resource))
		case deleter.PassFailed:
			list = append(list, whole)
		}
	}
	if len(list) < 2 {
		return list
	}
	slices.Sort(list) // several types may share "other"
	return slices.Compact(list)
}
