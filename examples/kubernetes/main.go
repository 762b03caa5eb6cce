// Kubernetes is the engine of this library as an agent of a Kubernetes cluster, or of
// anything else that speaks its API: it empties the namespaces that are deleted and
// hold its finalizer, type by type as discovery shows them, and then takes the
// finalizer away. With the finalizer "kubernetes", the default, it is a drop-in for
// the stock namespace controller, which is to be switched off; with any other it is a
// second party beside that.
//
//	go run ./examples/apiserver --store memory --types 60 --write-kubeconfig ~/.kube/nslifecycle.yaml
//	go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml --finalizer example.com/agent
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml create -f examples/kubernetes/development.json
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml --namespace development create configmap settings
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml delete namespace development
//
// What it would do is told, and nothing is done, not even a status written, by
//
//	go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml --finalizer example.com/agent --dry-run
//
// What keeps a namespace is told, also without doing anything, by
//
//	go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml --explain development
//
// and, with --debug-pages, on pages of the agent that runs, beside its health and
// metrics, at the address that it says; they know more, since they have seen its passes.
//
// In the place of the stock controller, with conditions as that writes them:
//
//	go run ./examples/apiserver --store memory --controller=false --write-kubeconfig ~/.kube/nslifecycle.yaml
//	go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml
//
// Any number of replicas may run: one leads, the others stand by. Without
// --kubeconfig and --server it takes what kubectl would take, and in a pod the service
// account of that pod; the permissions that it needs are in permissions.yaml. What it
// may not do to one type holds up nothing but the namespaces that may have objects of
// that type.
//
// Interrupted at any moment, also by kill -9, and started again, it goes on where it
// was. Once it runs no failure ends it: it says what is wrong and what to do, tries
// again with a growing delay, and says when all is well again. The exit code is 2 for
// a command line that makes no sense, and 1 for what else is wrong at the start; a
// dry run that could not look at everything, and an explanation of an unknown namespace,
// have 1 too. SIGTERM ends it with 0, an interrupt with 130.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"k8s.io/klog/v2"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
)

var program = command.Program{Name: "kubernetes", About: `
Kubernetes deletes the content of deleted namespaces that hold its finalizer, type by type
as discovery shows them, and then removes the finalizer. It works on a Kubernetes cluster,
or with anything else that speaks its API.

    go run ./examples/apiserver --store memory --write-kubeconfig ~/.kube/nslifecycle.yaml
    go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml --finalizer example.com/agent
    go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml --dry-run
    go run ./examples/kubernetes --kubeconfig ~/.kube/nslifecycle.yaml --explain development
`}

func main() { program.Main(start) }

func start(ctx context.Context, args []string) error {
	c, err := parse(args, os.Stdout)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if c.verbose {
		log = slog.New(slog.NewTextHandler(command.Redact(c.server).Writer(os.Stderr), nil))
	}
	klog.SetSlogLogger(log) // client-go knows no other way
	hidden := command.Redact(c.server)
	return hidden.Error(run(ctx, hidden.Writer(os.Stdout), log, c))
}

// run works until ctx ends, and says on w what happens. A dry run and an explanation end
// by themselves.
func run(ctx context.Context, w io.Writer, log *slog.Logger, c config) error {
	a, err := newAgent(c, w, log)
	if err != nil {
		return err
	}
	switch {
	case c.dryRun:
		return a.dryRun(ctx, w)
	case c.explain != "":
		return a.tell(ctx, w)
	}
	return a.run(ctx)
}
