package reach

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	var f Flags
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	f.Define(flags)
	require.NoError(t, flags.Parse(args))
	return &f
}

func TestCheck(t *testing.T) {
	for address, loopback := range map[string]bool{
		"127.0.0.1:0": true, "127.9.9.9:80": true, "[::1]:80": true, "localhost:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.0.2.1:80": false, "localhost.example.com:80": false, "console:80": false,
	} {
		err := parse(t).Check("debug-listen", address)
		if loopback {
			require.NoError(t, err, address)
		} else {
			require.ErrorContains(t, err, "--debug-listen is ", address)
			require.ErrorContains(t, err, "--insecure-listen", address)
		}
		require.NoError(t, parse(t, "--insecure-listen").Check("listen", address))
	}
}

func TestHosts(t *testing.T) {
	require.Equal(t, []string{"a.example", "b", "console"}, parse(t, "--hosts", "a.example,b").Hosts("127.0.0.1:1", "console:80", ":80", "[::1]:1", "broken"))
	require.Empty(t, parse(t).Hosts())
	var f Flags
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	f.Define(flags)
	require.ErrorContains(t, flags.Parse([]string{"--hosts", "a,http://b"}), `host "http://b" must be a name`)
}
