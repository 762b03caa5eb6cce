package prometheus

import (
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Collector counts what the controllers of one party do. It is a
// [client.Collector]: register it once. All methods are safe for concurrent use.
//
// It keeps about 150 bytes for each namespace that is terminating and that the party
// holds, or held when this process first looked, until that is removed.
type Collector struct {
	finalizer finalizer.Name
	descs     descs

	work      client.Histogram
	deletion  client.Histogram
	conflicts client.Counter
	retries   map[controller.Reason]client.Counter
	passes    [pass.NotHeld + 1]client.Counter // by outcome
	others    struct{ retries, passes client.Counter }

	mu         sync.Mutex
	namespaces map[namespace.Ref]entry
	queued     int
	stages     [len(stages)]int
	resources  resources
	failures   []int // of the pass that is told of, kept for the next
}

// descs describe what is computed when it is asked for.
type descs struct {
	depth, terminating, oldest, deleted, failing, failingFor *client.Desc
}

// entry is what is known of a terminating namespace.
type entry struct {
	deleted time.Time // zero: not known yet
	failing []failure // the resources that failed in the last pass, by index
	owner   *feed     // who took it up last
	stage   uint8     // an index of stages
	queued  bool
}

// failure is a resource that failed in the last pass, and in all since then.
type failure struct {
	index int
	since time.Time
}

// stages are those of a terminating namespace, in order.
var stages = [...]phase.Stage{phase.DeletingContent, phase.WaitingForFinalizers, phase.ReadyToRemove}

// stageOf returns the stage as the party has it, which is not that of the namespace
// while others delete content: what a party has let go of must not look like its own.
func (c *Collector) stageOf(ns namespace.Namespace) uint8 {
	switch {
	case ns.Spec.Finalizers.Has(c.finalizer):
		return 0
	case ns.Spec.Finalizers.Len()+ns.Meta.Finalizers.Len() > 0:
		return 1
	}
	return 2
}

// New returns a collector for the party that owns f. Nil opts are all defaults. An
// invalid finalizer and options out of range are refused with
// [namespace.ErrBadRequest].
func New(f finalizer.Name, opts *Options) (*Collector, error) {
	if err := f.Validate(); err != nil {
		return nil, invalid("the finalizer %q is not valid: %v", f, err)
	}
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	labels := client.Labels{"finalizer": string(f)}
	c := &Collector{
		finalizer: f, descs: newDescs(labels),
		work: client.NewHistogram(client.HistogramOpts{
			Name: "namespace_controller_work_duration_seconds", Help: "How long passes over terminating namespaces took.",
			ConstLabels: labels, Buckets: options.WorkBuckets,
		}),
		deletion: client.NewHistogram(client.HistogramOpts{
			Name: "namespace_deletion_duration_seconds", Help: "How long namespaces took from DELETE to removal.",
			ConstLabels: labels, Buckets: options.DeletionBuckets,
		}),
		conflicts: client.NewCounter(client.CounterOpts{
			Name: "namespace_finalize_conflicts_total", ConstLabels: labels,
			Help: "Writes of status and finalizers that were refused because somebody else had written.",
		}),
		namespaces: map[namespace.Ref]entry{},
		resources:  newResources(options.Resources),
	}
	c.countRetries(labels)
	c.countPasses(labels)
	return c, nil
}

func newDescs(labels client.Labels) descs {
	return descs{
		depth:       client.NewDesc("namespace_controller_queue_depth", "Terminating namespaces that wait for a worker.", nil, labels),
		terminating: client.NewDesc("namespace_terminating", "Terminating namespaces by stage, as the party's last passes saw them.", []string{"stage"}, labels),
		oldest: client.NewDesc("namespace_terminating_oldest_seconds",
			"For how long the oldest namespace of a stage has been terminating; 0: there is none.", []string{"stage"}, labels),
		deleted: client.NewDesc("namespace_objects_deleted_total",
			"Objects deleted, or newly marked as being deleted, by resource type, as far as the sources count them.", []string{"resource"}, labels),
		failing: client.NewDesc("namespace_sources_failing",
			"Terminating namespaces in whose last pass the source of that resource type failed.", []string{"resource"}, labels),
		failingFor: client.NewDesc("namespace_sources_failing_seconds",
			"For how long the source of that resource type has failed one of them without a break, at most; 0: it fails none.", []string{"resource"}, labels),
	}
}

func (c *Collector) countRetries(labels client.Labels) {
	vec := client.NewCounterVec(client.CounterOpts{
		Name: "namespace_controller_retries_total", Help: "Terminating namespaces that were put back to be looked at again, by reason.",
		ConstLabels: labels,
	}, []string{"reason"})
	c.retries = map[controller.Reason]client.Counter{}
	for _, r := range []controller.Reason{
		controller.ReasonFailed, controller.ReasonRemaining, controller.ReasonEstimate, controller.ReasonInterrupted, controller.ReasonStale,
	} {
		c.retries[r] = vec.WithLabelValues(string(r))
	}
	c.others.retries = vec.WithLabelValues(other)
}

func (c *Collector) countPasses(labels client.Labels) {
	vec := client.NewCounterVec(client.CounterOpts{
		Name: "namespace_passes_total", Help: "Passes over terminating namespaces, by what they came to.", ConstLabels: labels,
	}, []string{"outcome"})
	for outcome := pass.Failed; outcome <= pass.NotHeld; outcome++ {
		c.passes[outcome] = vec.WithLabelValues(outcome.String())
	}
	c.others.passes = vec.WithLabelValues(other)
}

// Describe implements [client.Collector].
func (c *Collector) Describe(ch chan<- *client.Desc) {
	for _, d := range []*client.Desc{c.descs.depth, c.descs.terminating, c.descs.oldest, c.descs.deleted, c.descs.failing, c.descs.failingFor} {
		ch <- d
	}
	for _, m := range c.counted() {
		ch <- m.Desc()
	}
}

// counted are the metrics that keep themselves.
func (c *Collector) counted() []client.Metric {
	all := []client.Metric{c.work, c.deletion, c.conflicts, c.others.retries, c.others.passes}
	for _, m := range c.retries {
		all = append(all, m)
	}
	for _, m := range c.passes[pass.Failed:] {
		all = append(all, m)
	}
	return all
}

// Collect implements [client.Collector]. It looks at each namespace that is
// terminating, for the oldest.
func (c *Collector) Collect(ch chan<- client.Metric) {
	for _, m := range c.snapshot(time.Now()) {
		ch <- m
	}
	for _, m := range c.counted() {
		ch <- m
	}
}

// snapshot returns what is computed. Nothing is sent meanwhile, so that a slow reader
// does not hold up the hooks.
func (c *Collector) snapshot(now time.Time) []client.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	gauge := func(d *client.Desc, v float64, labels ...string) client.Metric {
		return client.MustNewConstMetric(d, client.GaugeValue, v, labels...)
	}
	oldest, failingFor := c.ages(now)
	all := []client.Metric{gauge(c.descs.depth, float64(c.queued))}
	for i, stage := range stages {
		all = append(all,
			gauge(c.descs.terminating, float64(c.stages[i]), string(stage)),
			gauge(c.descs.oldest, oldest[i].Seconds(), string(stage)))
	}
	for i, r := range c.resources.list {
		if r.deleted > 0 {
			all = append(all, client.MustNewConstMetric(c.descs.deleted, client.CounterValue, r.deleted, r.label))
		}
		if r.failed {
			all = append(all,
				gauge(c.descs.failing, float64(r.failing), r.label),
				gauge(c.descs.failingFor, failingFor[i].Seconds(), r.label))
		}
	}
	return all
}

// ages returns for how long the oldest namespace of each stage has been terminating,
// and each resource has failed one of them, at most.
func (c *Collector) ages(now time.Time) (oldest [len(stages)]time.Duration, failing []time.Duration) {
	failing = make([]time.Duration, len(c.resources.list))
	for _, e := range c.namespaces {
		if !e.deleted.IsZero() {
			oldest[e.stage] = max(oldest[e.stage], now.Sub(e.deleted))
		}
		for _, f := range e.failing {
			failing[f.index] = max(failing[f.index], now.Sub(f.since))
		}
	}
	return oldest, failing
}

// Clear forgets the namespaces, as when the controller has ended and another process
// goes on with its work. Counters stay. Of several controllers that share c, those that go
// on tell of theirs again with their next passes.
func (c *Collector) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref := range c.namespaces {
		c.forget(ref)
	}
}
