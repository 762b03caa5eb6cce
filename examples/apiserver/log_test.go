package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients are referred to the server's log, so failures are in it without --verbose.
func TestFailuresAreLogged(t *testing.T) {
	for verbose, want := range map[bool]string{
		false: "level=ERROR msg=\"request failed\" code=500\n",
		true:  "level=INFO msg=request\nlevel=ERROR msg=\"request failed\" code=500\n",
	} {
		var log bytes.Buffer
		handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		requests := config{verbose: verbose}.requests(slog.New(handler))
		requests.Info("request")
		requests.With("code", 500).Error("request failed")
		require.Equal(t, want, log.String())
	}
}
