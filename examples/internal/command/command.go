// Package command is what the example programs share: how they start and end, what
// --help says, where they keep data by default, and that no password is printed.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit codes of all example programs. A shell reads 128 and the number of a signal
// as the end by that signal.
const (
	done        = 0                          // the work is done, or SIGTERM stopped a server in good order
	failed      = 1                          // the program could not do its work
	misused     = 2                          // the command line makes no sense
	interrupted = 128 + int(syscall.SIGINT)  // always, after an interrupt (Ctrl-C)
	terminated  = 128 + int(syscall.SIGTERM) // SIGTERM came before the work was done
)

// Program is one example program.
type Program struct {
	Name   string
	About  string // what it does, and examples: the beginning of --help
	Resume string // what to do after an interrupt; empty: nothing special
}

// UsageError reports that the command line makes no sense.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// About returns err as one about the value of a flag; nil for nil.
func About(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// signaled is the cause of the end of the context that Main hands to a program.
type signaled struct{ os.Signal }

func (s signaled) Error() string { return "stopped by " + s.Signal.String() }

// Main runs the program until it ends or a signal cancels ctx, reports its error, and
// exits with one of the codes above. A second signal ends the process at once.
func (p Program) Main(run func(ctx context.Context, args []string) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(signaled{s})
	}()
	os.Exit(p.end(ctx, os.Stderr, run(ctx, os.Args[1:])))
}

// end reports err, the result of a program that ran until ctx, and returns the exit code.
// After an interrupt the error is only that of what was cut short.
func (p Program) end(ctx context.Context, w io.Writer, err error) int {
	var by signaled
	var usage *UsageError
	switch stopped := errors.As(context.Cause(ctx), &by); {
	case errors.Is(err, flag.ErrHelp):
		return done
	case stopped && (by.Signal == os.Interrupt || err != nil):
		text := "interrupted"
		if p.Resume != "" {
			text += "; " + p.Resume
		}
		if err != nil {
			fmt.Fprintf(w, "%s: %s\n", p.Name, text)
		}
		if by.Signal == os.Interrupt {
			return interrupted
		}
		return terminated
	case err == nil:
		return done
	case errors.As(err, &usage):
		fmt.Fprintf(w, "%s: %v\n", p.Name, err)
		if !strings.Contains(err.Error(), "--help") {
			fmt.Fprintf(w, "see --help\n")
		}
		return misused
	default:
		fmt.Fprintf(w, "%s: %v\n", p.Name, err)
		return failed
	}
}

// Flags are the flags of a program.
type Flags struct {
	*flag.FlagSet
	program Program
}

// Flags returns a set for the flags of the program.
func (p Program) Flags() *Flags {
	f := &Flags{flag.NewFlagSet(p.Name, flag.ContinueOnError), p}
	f.SetOutput(io.Discard) // Parse reports
	return f
}

// Parse reads the command line, which has flags only. For --help it writes the help to w
// and returns [flag.ErrHelp]; other errors are a [UsageError].
func (f *Flags) Parse(w io.Writer, args []string) error {
	err := f.FlagSet.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(w, strings.TrimSpace(f.program.About))
		flags := 0
		f.VisitAll(func(*flag.Flag) { flags++ })
		if flags > 0 {
			fmt.Fprintln(w, "\nFlags:")
			f.SetOutput(w)
			f.PrintDefaults()
		}
		return flag.ErrHelp
	case err != nil:
		return &UsageError{err}
	case f.NArg() > 0:
		return Usagef("unexpected argument %q: everything is set by flags, see --help", f.Arg(0))
	}
	return nil
}
