package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

func TestConduct(t *testing.T) { programs.Conduct{}.Check(t) } // the program ends before a test could interrupt it

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Regexp(t, `(?s)namespace orders: Terminating.*backup.example.com/snapshot holds 1.*archive.*kubectl get databases.example.com -n orders.*`+
		`removed backup.example.com/snapshot from database archive\nnamespace orders is removed\n$`, out.String())
}
