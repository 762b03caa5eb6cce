// Embed shows the three depths at which a service can embed the library, each in
// a file of its own:
//
//   - decide.go: the pure decision. The host does everything else.
//   - pass.go: one pass inside a loop of the host.
//   - controller.go: the controller, which is that loop.
//
// The host of the last two keeps its tenants in a table of its own (tenants.go);
// there is no store. Its test holds that table to the published suite.
//
//	go run ./examples/embed
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
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
