package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	want, err := os.ReadFile("testdata/output.txt")
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// The host's own table does all that a controller relies on.
func TestTenants(t *testing.T) {
	controllertest.Run(t, func(*testing.T) controllertest.Backend {
		host := newTenants()
		return controllertest.Backend{Namespaces: host, Create: host.create, Delete: host.remove}
	})
}
