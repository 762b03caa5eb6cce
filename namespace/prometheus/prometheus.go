// Package prometheus counts what namespace controllers do, for Prometheus.
package prometheus
