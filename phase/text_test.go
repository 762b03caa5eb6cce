package phase_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/phase"
)

func TestTruncate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s     string
		limit int
		want  string
	}{
		{"", 5, ""},
		{"abcde", 5, "abcde"},
		{"abcdef", 5, "ab..."},
		{"aéé€", 8, "aéé€"},
		{"aéé€", 7, "aé..."},
		{"a\xff\xfeb", 5, "a\uFFFDb"},
		{strings.Repeat("\xff", 100), 5, "\uFFFD"},
		{"abcdef", 1, "..."},
	} {
		require.Equal(t, tt.want, phase.Truncate(tt.s, tt.limit), "%q to %d bytes", tt.s, tt.limit)
	}
}
