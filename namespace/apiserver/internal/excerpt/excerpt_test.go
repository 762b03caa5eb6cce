package excerpt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
)

func TestOf(t *testing.T) {
	long := strings.Repeat("a", 99)
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"widgets", "widgets"},
		{"a\xff", "a\uFFFD"},
		{long + "b", long + "b"},
		{long + "bc", long[:97] + "..."},
		{long + "é", long[:97] + "..."},
	} {
		require.Equal(t, tt.want, excerpt.Of(tt.text))
	}
}
