package programs

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Conduct describes a program for its test.
type Conduct struct {
	Args   []string // arguments with which it needs no external server
	Ready  string   // matches output after which to interrupt it; empty: it ends too soon
	Listen []string // flags for addresses to listen on
	Absent []string // arguments with an absent server, replacing Args; nil: it needs no server
}

// Check runs the program under test and checks the common behavior of all programs: exit
// codes, --help and error messages.
func (c Conduct) Check(t *testing.T) {
	dir, err := os.Getwd()
	require.NoError(t, err)
	name := filepath.Base(dir)
	t.Run("help", func(t *testing.T) {
		p := Self(t, "--help")
		code, fault := p.Exit()
		require.Zero(t, code)
		require.Empty(t, fault)
		require.Regexp(t, "^[A-Z]", p.Said(), "it says what the program does")
		require.Contains(t, p.Said(), "go run ./examples/"+name, "it has an example")
	})
	for what, args := range map[string][]string{"an unknown flag": {"--no-such-flag"}, "an argument": {"now"}} {
		t.Run(what, func(t *testing.T) {
			p := Self(t, args...)
			code, fault := p.Exit()
			require.Equal(t, 2, code, fault)
			require.True(t, strings.HasPrefix(fault, name+": "), fault)
			require.Contains(t, fault, "see --help")
			require.Equal(t, "\n", p.Said(), "errors go to standard error")
		})
	}
	if c.Ready != "" {
		t.Run("interrupted", func(t *testing.T) {
			p := Self(t, c.Args...)
			p.Until(t, c.Ready)
			p.Signal(t, os.Interrupt)
			code, fault := p.Exit()
			require.Equal(t, 130, code, fault)
			require.LessOrEqual(t, strings.Count(fault, "\n"), 1, fault)
		})
	}
	for _, flag := range c.Listen {
		t.Run("a busy port for "+flag, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			code, fault := Self(t, append(append([]string{}, c.Args...), flag, l.Addr().String())...).Exit()
			require.Equal(t, 1, code, fault)
			require.Contains(t, fault, name+": "+flag+": ")
			require.Contains(t, fault, "address already in use")
		})
	}
	if c.Absent != nil {
		t.Run("no server", func(t *testing.T) {
			code, fault := Self(t, c.Absent...).Exit()
			require.Equal(t, 1, code, fault)
			require.True(t, strings.HasPrefix(fault, name+": "), fault)
			require.Contains(t, fault, "--", "it names the flag")
			require.NotContains(t, fault, "secret")
		})
	}
}
