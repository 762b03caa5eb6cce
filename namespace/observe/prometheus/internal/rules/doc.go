// Package rules tests the alert rules and the dashboard of package prometheus with
// Prometheus' own parser and engine. It is a module of its own, outside of the
// workspace, because of what that requires. The files that it reads are not its own, so a
// result must not be taken from the cache:
//
//	GOWORK=off go test -C namespace/observe/prometheus/internal/rules -count=1 .
package rules
