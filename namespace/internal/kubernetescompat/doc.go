// Package kubernetescompat proves, in its tests, that the JSON of package
// namespace is that of Kubernetes, and that violations are told in its words. It
// is a module of its own so that nobody else inherits what the tests need.
package kubernetescompat
