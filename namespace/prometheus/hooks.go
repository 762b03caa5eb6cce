package prometheus

import (
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Hooks are what feeds c. Several controllers of the party may have them, together they
// are counted as one then. [controller.Join] joins them with others.
func (c *Collector) Hooks() controller.Hooks {
	return controller.Hooks{
		Queued:      func(ref controller.Ref) { c.queue(ref, true) },
		PassStarted: func(ref controller.Ref) { c.queue(ref, false) },
		PassEnded:   c.ended,
		Retried:     c.retried,
		Left:        c.left,
		Removed:     c.removed,
	}
}

// queue takes up that the namespace waits for a worker, or no longer does. One that
// was never heard of is terminating, or it would not be queued.
func (c *Collector) queue(ref controller.Ref, queued bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.namespaces[ref]
	if !known {
		c.stages[0]++
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

func (c *Collector) ended(ref controller.Ref, result pass.Result, _ error, took time.Duration) {
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
		return // it left, or is gone
	}
	switch result.Outcome {
	case pass.Gone, pass.Active, pass.Replaced:
		c.forget(ref)
		return
	case pass.Interrupted: // what had not answered yet has not failed
	default:
		c.fail(&e, result.Report)
	}
	if ns := result.Namespace; ns.UID == ref.UID && !ns.DeletionTimestamp.IsZero() {
		e.deleted = ns.DeletionTimestamp.Time
		c.stages[e.stage]--
		e.stage = stageOf(ns)
		c.stages[e.stage]++
	}
	c.namespaces[ref] = e
}

// fail takes up which resources failed.
func (c *Collector) fail(e *entry, report deleter.Report) {
	for _, i := range e.failing {
		c.resources.list[i].failing--
	}
	e.failing = c.resources.failures(report, e.failing[:0])
	for _, i := range e.failing {
		c.resources.list[i].failing++
		c.resources.list[i].failed = true
	}
	if len(e.failing) == 0 {
		e.failing = nil
	}
}

func (c *Collector) retried(_ controller.Ref, _ time.Duration, reason controller.Reason) {
	if counter, ok := c.retries[reason]; ok {
		counter.Inc()
		return
	}
	c.others.retries.Inc()
}

func (c *Collector) left(ref controller.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(ref)
}

func (c *Collector) removed(ref controller.Ref) {
	c.mu.Lock()
	e := c.namespaces[ref]
	c.forget(ref)
	c.mu.Unlock()
	if !e.deleted.IsZero() { // somebody else's, or it was gone before its first pass
		c.deletion.Observe(max(0, time.Since(e.deleted).Seconds()))
	}
}

// forget drops what is known of the namespace, if anything is.
func (c *Collector) forget(ref controller.Ref) {
	e, known := c.namespaces[ref]
	if !known {
		return
	}
	c.wait(&e, false)
	c.fail(&e, deleter.Report{})
	c.stages[e.stage]--
	delete(c.namespaces, ref)
}

// failures appends the indices of the resources that failed to list, ascending.
func (r *resources) failures(report deleter.Report, list []int) []int {
	for _, one := range report.Results {
		if one.Err != nil {
			list = append(list, r.of(one.Resource))
		}
	}
	for _, beyond := range []struct {
		index  int
		failed bool
	}{
		{discovery, len(report.Discovery) > 0},
		{parsing, len(report.Parsing) > 0},
		{whole, report.Failed != nil},
	} {
		if beyond.failed {
			list = append(list, beyond.index)
		}
	}
	if len(list) < 2 {
		return list
	}
	slices.Sort(list) // several may be "other"
	return slices.Compact(list)
}
