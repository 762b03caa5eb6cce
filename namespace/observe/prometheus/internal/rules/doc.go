// Package rules tests the alert rules and the dashboard of package prometheus with
// Prometheus' own parser and engine. Because of their dependencies it is a separate module,
// outside of the workspace. It reads files outside of its module, so bypass the test cache:
//
//	GOWORK=off go test -C namespace/observe/prometheus/internal/rules -count=1 .
package rules
