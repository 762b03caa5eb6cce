// Quickstart tells the design document's story of OpenShift managing a namespace,
// for real, on a file: a namespace that two parties hold is filled, deleted while
// somebody keeps trying to put content into it, emptied by both, and removed.
//
//	go run ./examples/quickstart
//
// Interrupted at any moment, also by kill -9, and started again on the same file,
// it goes on where it was.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

//go:embed development.json
var development []byte

// config is what the command line chooses.
type config struct {
	data        string // the file of the store
	namespace   string // a file with the namespace's JSON; empty: the one built in
	wait        time.Duration
	objects     int // number of objects to store
	parallelism int // number of writers, and of concurrent calls per deletion pass
}

var program = command.Program{
	Name: "quickstart",
	About: `
Quickstart creates a namespace in a file, which two parties hold, fills it, deletes it while
a client keeps creating content in it, and waits until both parties have emptied it.

    go run ./examples/quickstart
    go run ./examples/quickstart --objects 100000 --data large.db
`,
	Resume: "start it again on the same file and it picks up where it left off",
}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, args) })
}

// run is the program: it tells the story that args ask for on w.
func run(ctx context.Context, w io.Writer, args []string) error {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	ns, err := c.load()
	if err != nil {
		return err
	}
	return tell(ctx, w, c, ns)
}

func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := program.Flags()
	flags.StringVar(&c.data, "data", "", "the `file` that everything is stored in, in a directory that no other user can write to (default: quickstart.db in "+command.StateAbout+")")
	flags.StringVar(&c.namespace, "namespace", "", "a `file` with the namespace as JSON (default: the design document's \"development\")")
	flags.DurationVar(&c.wait, "wait", 0, "how `long` to wait for another process to close the file")
	flags.IntVar(&c.objects, "objects", 300, "how many objects to store in the namespace")
	flags.IntVar(&c.parallelism, "parallelism", 16, "how many of them to store, and to delete, at the same time")
	if err := flags.Parse(w, args); err != nil {
		return config{}, err
	}
	switch {
	case c.wait < 0:
		return config{}, command.Usagef("--wait is %v, it must not be negative", c.wait)
	case c.objects < 0:
		return config{}, command.Usagef("--objects is %d, it must not be negative", c.objects)
	case c.parallelism < 1:
		return config{}, command.Usagef("--parallelism is %d, it must be at least 1", c.parallelism)
	}
	if c.data == "" {
		var err error
		if c.data, err = command.State("quickstart.db"); err != nil {
			return config{}, fmt.Errorf("--data: %w", err)
		}
	}
	return c, nil
}

// load reads the namespace to create.
func (c config) load() (namespace.Namespace, error) {
	data := development
	if c.namespace != "" {
		var err error
		if data, err = os.ReadFile(c.namespace); err != nil {
			return namespace.Namespace{}, command.About("--namespace", err)
		}
	}
	var ns namespace.Namespace
	if err := json.Unmarshal(data, &ns); err != nil {
		return ns, fmt.Errorf("--namespace: the namespace in %q cannot be read: %w", c.namespace, err)
	}
	if err := suits(ns); err != nil {
		return ns, fmt.Errorf("--namespace: the namespace in %q does not suit the story: %w", c.namespace, err)
	}
	return ns, nil
}

// suits says why the story could not be told of ns.
func suits(ns namespace.Namespace) error {
	if ns.Name == "" {
		return errors.New("it has no metadata.name, by which the next run would find it")
	}
	if !ns.Spec.Finalizers.Has(openshift) {
		return fmt.Errorf("spec.finalizers lacks %q, so nobody would remove its builds and routes", openshift)
	}
	for _, name := range ns.Spec.Finalizers.Names() {
		if name != openshift && name != finalizer.Kubernetes {
			return fmt.Errorf("nobody in it would ever remove the finalizer %q from spec.finalizers", name)
		}
	}
	return nil
}
