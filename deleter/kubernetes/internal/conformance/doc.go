// Package conformance checks package kubernetes with the suites of this library and against API
// servers over HTTP. It has only tests, in a module of its own, since they require an API server.
package conformance
