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

// Collector exports the metrics of one party. It is a [client.Collector]: register it once.
// It is safe for concurrent use.
//
// It needs about 150 bytes for each terminating namespace that the party holds or has held
// since the process started.
type Collector struct {
	finalizer finalizer.Name
	descs     descs

	work      client.Histogram
	deletion  client.Histogram
	conflicts client.Counter
	retries   map[controller.Reason]client.Counter
	passes    [pass.NoFinalizer + 1]client.Counter // by outcome
	others    struct{ retries, passes client.Counter }

	mu         sync.Mutex
	namespaces map[namespace.Ref]entry
	queued     int
	stages     [len(stages)]int
	resources  resources
	failures   []int // reused by each report
}

// descs describes the metrics that are computed when they are collected.
type descs struct {
	depth, terminating, oldest, deleted, failing, failingFor *client.Desc
}

// entry is the state of a terminating namespace.
type entry struct {
	deleted time.Time // zero: not known yet
	failing []failure // the resources that failed in the last pass, by index
	owner   *feed     // the controller that queued it last
	stage   uint8     // an index of stages
	queued  bool
}

// failure is a resource that has failed in every pass since then.
type failure struct {
	index int
	since time.Time
}

// stages are the stages of a terminating namespace, in order.
var stages = [...]phase.Stage{phase.DeletingContent, phase.WaitingForFinalizers, phase.ReadyToRemove}

// stageOf returns the stage from the party's view. While other parties delete content, it
// differs from the stage of the namespace: a party that has finished must not look stuck.
func (c *Collector) stageOf(ns namespace.Namespace) uint8 {
	switch {
	case ns.Spec.Finalizers.Has(c.finalizer):
		return 0
	case ns.Spec.Finalizers.Len()+ns.Meta.Finalizers.Len() > 0:
		return 1
	}
	return 2
}

// New returns a collector for the party that owns f. Nil opts are all defaults. An invalid
// finalizer or option is a [namespace.ErrBadRequest].
func New(f finalizer.Name, opts *Options) (*Collector, error) {
	if err := f.Validate(); err != nil {
		return nil, invalid("the finalizer %q is not valid: %v", f, err)
	}
	var options Options
	if opts != nil {
		options = *opts
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	labels := client.Labels{"finalizer": string(f)}
	c := &Collector{
		finalizer: f, descs: newDescs(labels),
		work: client.NewHistogram(client.HistogramOpts{
			Name: "namespace_controller_work_duration_seconds", Help: "Duration of passes over terminating namespaces.",
			ConstLabels: labels, Buckets: options.WorkBuckets,
		}),
		deletion: client.NewHistogram(client.HistogramOpts{
			Name: "namespace_deletion_duration_seconds", Help: "Time from DELETE to removal.",
			ConstLabels: labels, Buckets: options.DeletionBuckets,
		}),
		conflicts: client.NewCounter(client.CounterOpts{
			Name: "namespace_finalize_conflicts_total", ConstLabels: labels,
			Help: "Writes of status and finalizers that were rejected because another writer was faster.",
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
		terminating: client.NewDesc("namespace_terminating", "Terminating namespaces by stage, as of the party's last passes.", []string{"stage"}, labels),
		oldest: client.NewDesc("namespace_terminating_oldest_seconds",
			"Time since the deletion of the oldest terminating namespace of a stage; 0: there is none.", []string{"stage"}, labels),
		deleted: client.NewDesc("namespace_objects_deleted_total",
			"Objects deleted, or newly marked for deletion, by resource type, as far as the sources count them.", []string{"resource"}, labels),
		failing: client.NewDesc("namespace_sources_failing",
			"Terminating namespaces in whose last pass the source of that resource type failed.", []string{"resource"}, labels),
		failingFor: client.NewDesc("namespace_sources_failing_seconds",
			"Longest time for which the source of that resource type has failed one of them in every pass; 0: it fails none.", []string{"resource"}, labels),
	}
}

func (c *Collector) countRetries(labels client.Labels) {
	vec := client.NewCounterVec(client.CounterOpts{
		Name: "namespace_controller_retries_total", Help: "Scheduled retries of passes, by reason.",
		ConstLabels: labels,
	}, []string{"reason"})
	c.retries = map[controller.Reason]client.Counter{}
	for _, r := range controller.Reasons() {
		c.retries[r] = vec.WithLabelValues(string(r))
	}
	c.others.retries = vec.WithLabelValues(other)
}

func (c *Collector) countPasses(labels client.Labels) {
	vec := client.NewCounterVec(client.CounterOpts{
		Name: "namespace_passes_total", Help: "Passes over terminating namespaces, by outcome.", ConstLabels: labels,
	}, []string{"outcome"})
	for outcome := pass.Failed; outcome <= pass.NoFinalizer; outcome++ {
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

// counted returns the metrics that are not computed.
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

// Collect implements [client.Collector]. It visits all terminating namespaces to find the
// oldest.
func (c *Collector) Collect(ch chan<- client.Metric) {
	for _, m := range c.snapshot(time.Now()) {
		ch <- m
	}
	for _, m := range c.counted() {
		ch <- m
	}
}

// snapshot returns the computed metrics. It sends nothing, so that a slow reader does not
// block the hooks.
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

// ages returns the age of the oldest namespace of each stage, and the longest time for which
// each resource has failed a namespace.
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

// Clear drops all namespaces, for a controller that has ended and whose work another process
// continues. Counters stay. Other controllers that share c report their namespaces again with
// their next passes.
func (c *Collector) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref := range c.namespaces {
		c.forget(ref)
	}
}
