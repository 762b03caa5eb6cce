// Command stuck is a museum of namespaces that are stuck in Terminating: it makes each
// of them in memory, shows how the library explains it, and applies the remedy.
//
//	go run ./examples/stuck                           # all of them, in a few seconds
//	go run ./examples/stuck --only failing-discovery
//	go run ./examples/stuck --listen 127.0.0.1:8080   # in the browser, live
//
// Each exhibit is a script in exhibits/, which reads as its documentation.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/examples/internal/reach"
)

var program = command.Program{Name: "stuck", About: `
Stuck is a museum of namespaces that are stuck in Terminating: it makes each of them in
memory, shows how the library explains it, and applies the remedy.

    go run ./examples/stuck                           # all of them, in a few seconds
    go run ./examples/stuck --only failing-discovery
    go run ./examples/stuck --listen 127.0.0.1:8080   # in the browser, live
`}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, args) })
}

// config is what the command line chooses.
type config struct {
	only   string // an exhibit; empty: all of them
	list   bool
	full   bool
	listen string // an address; empty: the terminal
	reach  reach.Flags
}

func parseArgs(w io.Writer, args []string) (config, error) {
	var c config
	flags := program.Flags()
	flags.StringVar(&c.only, "only", "", "show this `exhibit` only")
	flags.BoolVar(&c.list, "list", false, "list the exhibits")
	flags.BoolVar(&c.full, "full", false, "show all that a diagnosis says, not only why the namespace is there")
	flags.StringVar(&c.listen, "listen", "", "show them in the browser, at this `address` (such as 127.0.0.1:8080)")
	c.reach.Define(flags.FlagSet)
	if err := flags.Parse(w, args); err != nil {
		return config{}, err
	}
	if err := c.reach.Check("listen", c.listen); err != nil {
		return config{}, &command.UsageError{Err: err}
	}
	return c, nil
}

// run is the program.
func run(ctx context.Context, w io.Writer, args []string) error {
	c, err := parseArgs(w, args)
	if err != nil {
		return err
	}
	all, err := exhibits()
	if err != nil {
		return err
	}
	if c.only != "" {
		all = slices.DeleteFunc(all, func(e exhibit) bool { return e.Name != c.only })
		if len(all) == 0 {
			return command.Usagef("--only: there is no exhibit %q, see --list", c.only)
		}
	}
	switch {
	case c.list:
		for _, e := range all {
			fmt.Fprintf(w, "%-20s %s\n", e.Name, e.Title)
		}
		return nil
	case c.listen != "":
		return listen(ctx, w, c.listen, c.reach.Hosts(c.listen), all)
	}
	if err := walk(ctx, w, all, c.full); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "\nWaits were cut short. --full shows more of each, --listen 127.0.0.1:8080 all of them live in the browser.")
	return err
}

// walk plays all exhibits at the same time, and tells of one after the other.
func walk(ctx context.Context, w io.Writer, all []exhibit, full bool) error {
	ctx, stop := context.WithCancel(ctx)
	var playing sync.WaitGroup
	defer playing.Wait()
	defer stop()
	type story struct {
		text bytes.Buffer
		err  error
		done chan struct{}
	}
	stories := make([]story, len(all))
	for i, e := range all {
		s := &stories[i]
		s.done = make(chan struct{})
		playing.Go(func() {
			defer close(s.done)
			tell := &teller{w: &s.text, full: full, blank: i == 0}
			tell.space()
			tell.title(i+1, len(all), e)
			s.err = visit(ctx, e, tell)
		})
	}
	for i, e := range all {
		s := &stories[i]
		<-s.done
		if _, err := s.text.WriteTo(w); err != nil {
			return err
		}
		if s.err != nil {
			return fmt.Errorf("%s: %w", e.Name, s.err)
		}
	}
	return nil
}

// visit plays one exhibit from its beginning to its end.
func visit(ctx context.Context, e exhibit, tell *teller) (err error) {
	w, err := newWorld(ctx, hurried)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	s := show{world: w, tell: tell}
	return s.play(e.Steps)
}
