package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/nslifecycle/nslifecycle/finalizer"
	namespaces "github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
)

// metrics is what the agent counts: what any controller does, and what only an agent
// does.
type metrics struct {
	registry   *prometheus.Registry
	controller *namespaces.Collector
	leader     prometheus.Gauge
	watching   prometheus.Gauge
	requests   *prometheus.CounterVec
}

func newMetrics(f finalizer.Name, l *ledger) (*metrics, error) {
	controller, err := namespaces.New(f, nil)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		controller: controller,
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
	remaining := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nslifecycle_remaining_objects", Help: "Objects left in the terminating namespaces that the finalizer holds, as far as known.",
	}, func() float64 { return float64(l.remaining()) })
	own := prometheus.WrapRegistererWith(prometheus.Labels{"finalizer": string(f)}, m.registry)
	for _, c := range []prometheus.Collector{m.leader, m.watching, m.requests, remaining} {
		if err := own.Register(c); err != nil {
			return nil, err
		}
	}
	for _, c := range []prometheus.Collector{
		m.controller, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// asked counts a request.
func (m *metrics) asked(method, code string) { m.requests.WithLabelValues(method, code).Inc() }
