// Package apiserver serves namespaces and their content over HTTP, as Kubernetes
// does (design document, "REST API"), so that kubectl, client-go and controllers
// written for Kubernetes namespaces work against any service that embeds the
// library.
package apiserver
