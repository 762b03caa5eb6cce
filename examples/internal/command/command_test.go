package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestExitCodes(t *testing.T) {
	p := Program{Name: "p", Resume: "start it again"}
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		err    error
		signal os.Signal
		code   int
		text   string
	}{
		{"done", nil, nil, 0, ""},
		{"help", flag.ErrHelp, nil, 0, ""},
		{"failed", broken, nil, 1, "p: broken\n"},
		{"failed by a deadline of its own", context.DeadlineExceeded, nil, 1, "p: context deadline exceeded\n"},
		{"misused", fmt.Errorf("load: %w", Usagef("--n is 0")), nil, 2, "p: load: --n is 0\nsee --help\n"},
		{"misused, with a hint", Usagef("see --help for more"), nil, 2, "p: see --help for more\n"},
		{"a server is interrupted", nil, os.Interrupt, 130, ""},
		{"work is interrupted", fmt.Errorf("initdb: %w\nits whole log", context.Canceled), os.Interrupt, 130, "p: interrupted; start it again\n"},
		{"a server is terminated", nil, syscall.SIGTERM, 0, ""},
		{"work is terminated", context.Canceled, syscall.SIGTERM, 143, "p: interrupted; start it again\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.signal != nil {
				cancel(signaled{tt.signal})
			}
			var w bytes.Buffer
			require.Equal(t, tt.code, p.end(ctx, &w, tt.err))
			require.Empty(t, cmp.Diff(tt.text, w.String()))
		})
	}
}

func TestFlags(t *testing.T) {
	parse := func(args ...string) (string, error) {
		var w bytes.Buffer
		f := Program{Name: "p", About: "P does it.\n\n    p --n 3\n"}.Flags()
		f.Int("n", 2, "how `many`")
		err := f.Parse(&w, args)
		return w.String(), err
	}
	help, err := parse("--help")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Equal(t, "P does it.\n\n    p --n 3\n\nFlags:\n  -n many\n    \thow many (default 2)\n", help)
	for _, args := range [][]string{{"--m"}, {"--n", "x"}, {"x"}} {
		said, err := parse(args...)
		var usage *UsageError
		require.ErrorAs(t, err, &usage)
		require.Empty(t, said, "the error says it")
	}
	_, err = parse("--n", "3")
	require.NoError(t, err)
}
