// Package kubernetes connects package controller to a Kubernetes cluster, or to any other server
// of the Kubernetes API. [Deleter] deletes the content of namespaces, with types from discovery.
// [Namespaces] reads, watches and writes the namespaces. Together they replace the stock namespace
// controller, or work beside it as a second party with its own finalizer:
//
//	cluster, err := kubernetes.ForConfig(config, nil)
//	...
//	c, err := controller.New(cluster.Namespaces(), cluster.Deleter(), party, nil)
//	...
//	err = c.Run(ctx)
//
// Package agent below this one is a complete service. DESIGN.md explains the design.
package kubernetes
