// Package command handles start, end, exit codes and --help of the example programs.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// The exit codes of all example programs. For a shell, 128 plus the number of a signal means
// that the signal ended the program.
const (
	done        = 0                          // the work is done, or SIGTERM stopped a server gracefully
	failed      = 1                          // the program could not do its work
	misused     = 2                          // the command line is invalid
	interrupted = 128 + int(syscall.SIGINT)  // always, after an interrupt (Ctrl-C)
	terminated  = 128 + int(syscall.SIGTERM) // SIGTERM came before the work was done
)

// Program is one example program.
type Program struct {
	Name   string
	About  string // purpose and examples: the beginning of --help
	Resume string // advice after an interrupt, optional
}

// UsageError reports an invalid command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// signaled is the cancellation cause of a program's context after a signal.
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

// end reports err, the result of a program that ran under ctx, and returns the exit code.
// After an interrupt it does not print err, which is only a consequence of the interrupt.
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

// Flags returns an empty set of flags of the program.
func (p Program) Flags() *Flags {
	f := &Flags{flag.NewFlagSet(p.Name, flag.ContinueOnError), p}
	f.SetOutput(io.Discard) // Parse reports
	return f
}

// Parse parses the command line, which consists of flags only. For --help it writes the
// help to w and returns [flag.ErrHelp]. Other errors are a [UsageError].
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
		return Usagef("unexpected argument %q: the program takes flags only, see --help", f.Arg(0))
	}
	return nil
}

// StateAbout describes the directory of [State] in --help.
const StateAbout = "$XDG_STATE_HOME/nslifecycle or ~/.local/state/nslifecycle"

// State returns the default path for the data called name, in a private directory of the user
// below $XDG_STATE_HOME or ~/.local/state. It creates the directory.
func State(name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // as the specification demands
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no default directory for data: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(base, "nslifecycle")
	return filepath.Join(dir, name), os.MkdirAll(dir, 0o700)
}
