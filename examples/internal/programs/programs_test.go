package programs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every program is held to the same conduct.
func TestEveryExampleChecksItsConduct(t *testing.T) {
	mains, err := filepath.Glob("../../*/main.go")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mains), 8)
	for _, main := range mains {
		tests, err := filepath.Glob(filepath.Join(filepath.Dir(main), "*_test.go"))
		require.NoError(t, err)
		var all []byte
		for _, test := range tests {
			text, err := os.ReadFile(test)
			require.NoError(t, err)
			all = append(all, text...)
		}
		require.Contains(t, string(all), "programs.Conduct{", main)
	}
}
