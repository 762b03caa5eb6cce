package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// metrics is what the agent counts.
type metrics struct {
	registry  *prometheus.Registry
	passes    *prometheus.CounterVec
	seconds   prometheus.Histogram
	finalized prometheus.Counter
	leader    prometheus.Gauge
	watching  prometheus.Gauge
	requests  *prometheus.CounterVec
}

func newMetrics(f finalizer.Name, l *ledger) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nslifecycle_passes_total", Help: "Passes over terminating namespaces, by what they came to.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nslifecycle_pass_seconds", Help: "How long passes took.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 15), // to 82 s
		}),
		finalized: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nslifecycle_finalized_total", Help: "Namespaces that the finalizer was removed from.",
		}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nslifecycle_leader", Help: "1 while this replica does the work.",
		}),
		watching: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nslifecycle_watching", Help: "1 while this replica hears of every namespace that is deleted.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nslifecycle_api_requests_total", Help: "Requests to the API server, by method and HTTP status (none: no answer).",
		}, []string{"method", "code"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	own := prometheus.WrapRegistererWith(prometheus.Labels{"finalizer": string(f)}, m.registry)
	for _, c := range []prometheus.Collector{
		m.passes, m.seconds, m.finalized, m.leader, m.watching, m.requests,
		gauge("nslifecycle_terminating_namespaces", "Terminating namespaces that the finalizer holds, as of their last passes.", func() float64 {
			n, _, _ := l.terminating()
			return float64(n)
		}),
		gauge("nslifecycle_remaining_objects", "Objects left in them, as far as known.", func() float64 {
			_, n, _ := l.terminating()
			return float64(n)
		}),
		gauge("nslifecycle_oldest_seconds", "For how long the oldest of them has been terminating; 0: there is none.", func() float64 {
			_, _, since := l.terminating()
			if since.IsZero() {
				return 0
			}
			return time.Since(since).Seconds()
		}),
	} {
		if err := own.Register(c); err != nil {
			return nil, err
		}
	}
	if err := m.registry.Register(collectors.NewGoCollector()); err != nil {
		return nil, err
	}
	return m, m.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// passed counts a pass.
func (m *metrics) passed(outcome pass.Outcome, took time.Duration) {
	m.passes.WithLabelValues(outcome.String()).Inc()
	m.seconds.Observe(took.Seconds())
	if outcome == pass.Finalized || outcome == pass.Removed {
		m.finalized.Inc()
	}
}

// asked counts a request.
func (m *metrics) asked(method, code string) { m.requests.WithLabelValues(method, code).Inc() }
