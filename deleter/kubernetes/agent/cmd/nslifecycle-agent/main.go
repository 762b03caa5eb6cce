// Nslifecycle-agent deletes the content of terminating namespaces that hold its finalizer, and
// then removes the finalizer. It works on a Kubernetes cluster, or on any other server of the
// Kubernetes API. See package agent, and --help.
package main

import (
	"os"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/agent"
)

func main() { os.Exit(agent.Main(os.Args[1:], os.Stdout, os.Stderr)) }
