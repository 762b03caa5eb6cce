// Package kubernetes lets the engine of this library drive a Kubernetes cluster,
// or anything else that speaks its API: [Deleter] empties namespaces through
// discovery and metadata requests, and [Namespaces] is the place where namespaces
// are kept. With package controller they are a drop-in for the stock namespace
// controller, or a second party beside it with a finalizer of its own:
//
//	cluster, err := kubernetes.ForConfig(config, nil)
//	...
//	c, err := controller.New(cluster.Namespaces(), cluster.Deleter(), party, nil)
//	...
//	err = c.Run(ctx)
//
// DESIGN.md beside this file says how and why.
package kubernetes
