package keypath_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
)

func TestCheck(t *testing.T) {
	for _, path := range []string{keypath.DefaultPrefix, "a/b", "tenants/eu.west", strings.Repeat("a", 253)} {
		require.NoError(t, keypath.Check("the prefix", path), "%q", path)
	}
	for path, fault := range map[string]string{
		"":                       "a segment must not be empty",
		"/a":                     "a segment must not be empty",
		"a//b":                   "a segment must not be empty",
		"a/..":                   "a segment must not begin with '.'",
		".gate":                  "a segment must not begin with '.'",
		"a%2f":                   "may not contain '%'",
		"a\nb":                   "may not contain control characters",
		"\xff":                   "must be valid UTF-8",
		strings.Repeat("a", 254): "the prefix has 254 bytes: it must have at most 253",
	} {
		require.ErrorContains(t, keypath.Check("the prefix", path), fault, "%q", path)
	}
}
