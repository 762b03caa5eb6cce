package agent

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/nslifecycle/nslifecycle/finalizer"
	controllermetrics "github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
)

// metrics are the metrics of the controller, of the agent and of the process.
type metrics struct {
	registry   *prometheus.Registry
	controller *controllermetrics.Collector
	leader     prometheus.Gauge
	watching   prometheus.Gauge
	requests   *prometheus.CounterVec
}

func newMetrics(f finalizer.Name, p *progress) (*metrics, error) {
	controller, err := controllermetrics.New(f, nil)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		controller: controller,
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nslifecycle_leader", Help: "1 while this replica leads.",
		}),
		watching: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nslifecycle_watching", Help: "1 while this replica watches terminating namespaces successfully.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nslifecycle_api_requests_total", Help: "Requests to the API server, by method and HTTP status (none: no response).",
		}, []string{"method", "code"}),
	}
	remaining := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nslifecycle_remaining_objects", Help: "Known objects in terminating namespaces that hold the finalizer.",
	}, func() float64 { return float64(p.remaining()) })
	labeled := prometheus.WrapRegistererWith(prometheus.Labels{"finalizer": string(f)}, m.registry)
	labeled.MustRegister(m.leader, m.watching, m.requests, remaining)
	m.registry.MustRegister(m.controller, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m, nil
}

// count counts a request.
func (m *metrics) count(method, code string) { m.requests.WithLabelValues(method, code).Inc() }
