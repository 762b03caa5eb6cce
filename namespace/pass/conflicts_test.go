package pass_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// A pass counts the writes that lost against other writers, and no others.
func TestConflictsAreCounted(t *testing.T) {
	for _, c := range []struct {
		name      string
		err       error
		failures  int // of the first writes
		conflicts int
	}{
		{"undisturbed", nil, 0, 0},
		{"once", namespace.ErrConflict, 1, 1},
		{"several times", namespace.ErrConflict, 4, 4},
		{"an unknown outcome is none", namespace.ErrUnknownOutcome, 3, 0},
		{"a failure is none", namespace.ErrForbidden, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(controllertest.Host)
			terminate(t, h, "a")
			writes := 0
			before := func(_ context.Context, op controllertest.Op, _ string) error {
				if op != controllertest.OpFinalize {
					return nil
				}
				if writes++; writes <= c.failures {
					return &namespace.Error{Kind: c.err, Resource: "namespaces", Name: "a"}
				}
				return nil
			}
			namespaces := &controllertest.Intercept{Namespaces: h, Before: before}
			result, _ := run(t, namespaces, sees(left(pods, 0), nil), kubernetes, "a")
			require.Equal(t, c.conflicts, result.Conflicts)
		})
	}
}
