// Agent is a second party to the life of namespaces, as a process of its own: the
// design document's OpenShift. It keeps content of its own, in a place that the API
// server knows nothing of, for every namespace that carries its finalizer. When such
// a namespace is deleted it purges that content, and then takes its finalizer away
// over the API. It knows client-go only, so that it works against any API server
// that has namespaces.
//
//	go run ./examples/apiserver --store memory --write-kubeconfig ~/.kube/nslifecycle.yaml
//	go run ./examples/agent --kubeconfig ~/.kube/nslifecycle.yaml
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml create -f examples/agent/development.json
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml delete namespace development
//
// Interrupted at any moment, also by kill -9, and started again on the same
// directory, it goes on where it was: a namespace is held until its content is gone.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
)

// config is what the command line chooses.
type config struct {
	kubeconfig string
	server     string
	finalizer  string
	data       string
	builds     int
}

var program = command.Program{Name: "agent", About: `
Agent is a second party to the life of namespaces: it keeps content of its own for every
namespace that carries its finalizer. When the namespace is deleted, it deletes that content
and then removes the finalizer.

    go run ./examples/apiserver --store memory --write-kubeconfig ~/.kube/nslifecycle.yaml
    go run ./examples/agent --kubeconfig ~/.kube/nslifecycle.yaml
    kubectl --kubeconfig ~/.kube/nslifecycle.yaml create -f examples/agent/development.json
    kubectl --kubeconfig ~/.kube/nslifecycle.yaml delete namespace development
`}

func main() {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the agent reports failures itself
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, os.Stderr, args) })
}

// run works until ctx ends. It writes progress to w and failures to log.
func run(ctx context.Context, w, log io.Writer, args []string) error {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	connection, err := c.connection()
	if err != nil {
		return command.About("--kubeconfig, --server", err)
	}
	a, err := newAgent(c, connection, w, log)
	if err != nil {
		return err
	}
	return a.run(ctx)
}

func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := program.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "the `file` that says how to reach the API server (default: as kubectl finds it)")
	flags.StringVar(&c.server, "server", "", "the `address` of the API server (default: the one of the kubeconfig)")
	flags.StringVar(&c.finalizer, "finalizer", "openshift.com/origin", "the `name` in spec.finalizers that is the agent's")
	flags.StringVar(&c.data, "data", "", "the `directory` that the agent keeps its content in, which no other user can write to (default: agent in "+command.StateAbout+")")
	flags.IntVar(&c.builds, "builds", 3, "how many builds to keep for each namespace")
	if err := flags.Parse(w, args); err != nil {
		return config{}, err
	}
	switch wrong := validation.IsQualifiedName(c.finalizer); {
	case len(wrong) > 0:
		return config{}, command.Usagef("--finalizer is %q: %s", c.finalizer, wrong[0])
	case c.builds < 0:
		return config{}, command.Usagef("--builds is %d, it must not be negative", c.builds)
	}
	if c.data == "" {
		var err error
		if c.data, err = command.State("agent"); err != nil {
			return config{}, fmt.Errorf("--data: %w", err)
		}
	}
	return c, nil
}

// connection finds the API server as kubectl does.
func (c config) connection() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	var overrides clientcmd.ConfigOverrides
	overrides.ClusterInfo.Server = c.server
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides).ClientConfig()
}
