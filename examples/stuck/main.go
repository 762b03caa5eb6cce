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
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/nslifecycle/nslifecycle/examples/internal/reach"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Stdout, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil && ctx.Err() != nil:
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "stuck:", err)
		os.Exit(1)
	}
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
	flags := flag.NewFlagSet("stuck", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.StringVar(&c.only, "only", "", "show this `exhibit` only")
	flags.BoolVar(&c.list, "list", false, "list the exhibits")
	flags.BoolVar(&c.full, "full", false, "show all that a diagnosis says, not only why the namespace is there")
	flags.StringVar(&c.listen, "listen", "", "show them in the browser, at this `address` (such as 127.0.0.1:8080)")
	c.reach.Define(flags)
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: everything is set by flags, see --help", flags.Arg(0))
	}
	if err := c.reach.Check("listen", c.listen); err != nil {
		return config{}, err
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
			return fmt.Errorf("there is no exhibit %q, see --list", c.only)
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
