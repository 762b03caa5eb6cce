package phase_test

import (
	"testing"

	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/stretchr/testify/require"
)

func TestObservation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                     string
		seen                     phase.Observation
		answered, partial, empty bool
	}{
		{"zero", phase.Observation{}, true, false, true},
		{"discovery", phase.Observation{Discovery: []error{nil}}, false, true, false},
		{"parsing", phase.Observation{Parsing: errs("x")}, false, true, false},
		{"content", phase.Observation{Content: errs("x")}, false, true, false},
		{"unasked", phase.Observation{Unasked: 1}, true, true, false},
		{"unasked, negative", phase.Observation{Unasked: -1}, true, true, false},
		{"remaining", phase.Observation{Remaining: []phase.Remaining{{Count: 1}}}, true, false, false},
		{"remaining, negative", phase.Observation{Remaining: []phase.Remaining{{Count: -1}}}, true, true, false},
		{"held", phase.Observation{Finalizers: []phase.Holder{{Objects: 1}}}, true, false, false},
		{"held, negative", phase.Observation{Finalizers: []phase.Holder{{Objects: -1}}}, true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.answered, tt.seen.Answered())
			require.Equal(t, tt.partial, tt.seen.Partial())
			require.Equal(t, tt.empty, tt.seen.Empty())
		})
	}
}
