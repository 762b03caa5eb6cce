// Embed shows three depths at which a service can embed the library:
//
//   - decide.go: the pure decision. The host does everything else.
//   - pass.go: one pass in a loop of the host.
//   - controller.go: the controller.
//
// The host keeps its tenants in a table of its own (tenants.go), without a store. The test checks
// that table with the published suite controllertest.
//
//	go run ./examples/embed
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
)

var program = command.Program{Name: "embed", About: `
Embed shows three ways to embed the library, each with tenants in a table of the host: the
decision alone, one pass in a loop of the host, and the controller.

    go run ./examples/embed
`}

func main() {
	program.Main(func(ctx context.Context, args []string) error {
		if err := program.Flags().Parse(os.Stdout, args); err != nil {
			return err
		}
		return run(ctx, os.Stdout)
	})
}

func run(ctx context.Context, w io.Writer) error {
	for _, depth := range []struct {
		title string
		show  func(context.Context, io.Writer) error
	}{
		{"1. the decision alone", decide},
		{"2. one pass in a loop of the host", onePass},
		{"3. the controller", runController},
	} {
		fmt.Fprintln(w, depth.title)
		if err := depth.show(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", depth.title, err)
		}
	}
	return nil
}
