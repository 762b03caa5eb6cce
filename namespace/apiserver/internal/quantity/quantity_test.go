package quantity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/quantity"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`"1Gi"`: "1Gi", `2`: "2", `"1500m"`: "1500m", `0.5`: "500m", `"1E"`: "1E", `"1e3"`: "1e3", `"0"`: "0",
	} {
		q, err := quantity.Parse(decode(t, text))
		require.NoError(t, err, text)
		require.Equal(t, want, q.String(), text)
	}
}

func TestParseRejects(t *testing.T) {
	for _, text := range []string{
		`""`, `"x"`, `true`, `{}`, `[]`, `null`, `"1e1000000000"`, `1e1000000000`, `"1e-1000000000"`, `"1E31"`, `"1e-4294967296"`, `"1e4294967297"`, `"1e-3000000000"`, `"` + strings.Repeat("9", 65) + `"`, `"1 Gi"`,
	} {
		_, err := quantity.Parse(decode(t, text))
		require.ErrorIs(t, err, quantity.ErrSyntax, text)
	}
	for _, text := range []string{`"-1"`, `-1`, `"-1m"`} {
		_, err := quantity.Parse(decode(t, text))
		require.ErrorIs(t, err, quantity.ErrNegative, text)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	return v
}
