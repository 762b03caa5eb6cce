package registry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// The keys are those that the registry itself writes.
func TestR6_GateKeysAreWhereTheGateIs(t *testing.T) {
	e := newEnv(t)
	gate, terminating, err := registry.GateKeys("", "acme")
	require.NoError(t, err)
	n := e.create("acme")
	entry, err := e.store.Get(e.ctx, gate)
	require.NoError(t, err)
	require.Equal(t, n.UID, string(entry.Value))
	_, err = e.store.Get(e.ctx, terminating)
	require.ErrorIs(t, err, store.ErrNotFound)

	e.terminate("acme")
	_, err = e.store.Get(e.ctx, gate)
	require.ErrorIs(t, err, store.ErrNotFound)
	entry, err = e.store.Get(e.ctx, terminating)
	require.NoError(t, err)
	require.Equal(t, n.UID, string(entry.Value))

	named, _, err := registry.GateKeys("a/b", "acme")
	require.NoError(t, err)
	require.Equal(t, "/a/b/.gate/acme", named)
}

func TestBadInputOfGateKeys(t *testing.T) {
	for _, tt := range []struct {
		prefix, name string
		want         error
	}{
		{"/", "acme", namespace.ErrInvalid},
		{"a//b", "acme", namespace.ErrInvalid},
		{"..", "acme", namespace.ErrInvalid},
		{"\xff", "acme", namespace.ErrInvalid},
		{strings.Repeat("p", 254), "acme", namespace.ErrInvalid},
		{"", "", namespace.ErrBadRequest},
		{"", "..", namespace.ErrBadRequest},
		{"", "a/b", namespace.ErrBadRequest},
		{"", "a\x00", namespace.ErrBadRequest},
		{"", strings.Repeat("n", 254), namespace.ErrBadRequest},
	} {
		_, _, err := registry.GateKeys(tt.prefix, tt.name)
		require.ErrorIs(t, err, tt.want, "prefix %.10q name %.10q", tt.prefix, tt.name)
	}
}
