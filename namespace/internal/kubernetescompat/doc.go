// Package kubernetescompat tests that package namespace has the JSON and the validation messages of
// Kubernetes. It is a module of its own to keep the Kubernetes modules out of the root module.
package kubernetescompat
