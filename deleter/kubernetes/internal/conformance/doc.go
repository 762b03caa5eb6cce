// Package conformance holds package kubernetes to the suites of this library, and to
// an API server over HTTP. It has only tests, in a module of its own: they need an
// API server, and nothing that imports package kubernetes should inherit that.
package conformance
