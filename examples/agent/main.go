// Agent is a second party to the life of namespaces, as a process of its own: the
// design document's OpenShift. It keeps content of its own, in a place that the API
// server knows nothing of, for every namespace that carries its finalizer. When such
// a namespace is deleted it purges that content, and then takes its finalizer away
// over the API. It knows client-go only, so that it works against any API server
// that has namespaces.
//
//	go run ./examples/apiserver --store memory --write-kubeconfig /tmp/nslifecycle.yaml
//	go run ./examples/agent --kubeconfig /tmp/nslifecycle.yaml --data /tmp/builds
//	kubectl --kubeconfig /tmp/nslifecycle.yaml create -f examples/agent/development.json
//	kubectl --kubeconfig /tmp/nslifecycle.yaml delete namespace development
//
// Interrupted at any moment, also by kill -9, and started again on the same
// directory, it goes on where it was: a namespace is held until its content is gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// config is what the command line chooses.
type config struct {
	kubeconfig string
	server     string
	finalizer  string
	data       string
	builds     int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	switch err := run(ctx, os.Stdout, os.Args[1:]); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// run works until ctx ends, and says on w what it does.
func run(ctx context.Context, w io.Writer, args []string) error {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	connection, err := c.connection()
	if err != nil {
		return err
	}
	a, err := newAgent(c, connection, w)
	if err != nil {
		return err
	}
	return a.run(ctx)
}

func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "the `file` that says how to reach the API server (default: as kubectl finds it)")
	flags.StringVar(&c.server, "server", "", "the `address` of the API server (default: the one of the kubeconfig)")
	flags.StringVar(&c.finalizer, "finalizer", "openshift.com/origin", "the `name` in spec.finalizers that is the agent's")
	flags.StringVar(&c.data, "data", filepath.Join(os.TempDir(), "nslifecycle-agent"), "the `directory` that the agent keeps its content in")
	flags.IntVar(&c.builds, "builds", 3, "how many builds to keep for each namespace")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	switch wrong := validation.IsQualifiedName(c.finalizer); {
	case flags.NArg() > 0:
		return config{}, fmt.Errorf("unexpected argument %q: everything is set by flags, see --help", flags.Arg(0))
	case len(wrong) > 0:
		return config{}, fmt.Errorf("--finalizer is %q: %s", c.finalizer, wrong[0])
	case c.builds < 0:
		return config{}, fmt.Errorf("--builds is %d, it must not be negative", c.builds)
	case c.data == "":
		return config{}, errors.New("--data is empty: a directory is needed")
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
