package registrytest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
)

func TestBadInput(t *testing.T) {
	s, start := open(t, put(object, active, gate, "u"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		s      store.Store
		prefix string
		after  store.Position
		until  store.Revision
		want   error
		audit  bool // it is about what only Audit is given
	}{
		{"all right", t.Context(), s, "p", start, start.Revision + 1, nil, false},
		{"no store", t.Context(), nil, "p", start, start.Revision + 1, store.ErrInvalid, false},
		{"no prefix", t.Context(), s, "", start, start.Revision + 1, store.ErrInvalid, false},
		{"a leading slash", t.Context(), s, "/p", start, start.Revision + 1, store.ErrInvalid, false},
		{"a trailing slash", t.Context(), s, "p/", start, start.Revision + 1, store.ErrInvalid, false},
		{"an ended context", ended, s, "p", start, start.Revision + 1, context.Canceled, false},
		{"a negative revision", t.Context(), s, "p", start, -1, store.ErrInvalid, true},
		{"a revision ahead", t.Context(), s, "p", start, start.Revision + 2, store.ErrFuture, true},
		{"a position ahead", t.Context(), s, "p", store.Position{Revision: 1 << 40}, start.Revision + 1, store.ErrFuture, true},
		{"a negative position", t.Context(), s, "p", store.Position{Revision: -1}, start.Revision + 1, store.ErrInvalid, true},
		{"another epoch", t.Context(), s, "p", store.Position{Epoch: "x", Revision: 1}, start.Revision + 1, store.ErrGone, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.ErrorIs(t, registrytest.Audit(tc.ctx, tc.s, tc.prefix, tc.after, tc.until), tc.want)
			if !tc.audit {
				require.ErrorIs(t, registrytest.Check(tc.ctx, tc.s, tc.prefix), tc.want)
			}
		})
	}
}
